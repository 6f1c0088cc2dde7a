"""What Blender says of a scene, and which empty fields of a draft it fills.

What belongs here: the record, and putting it into a step.  What may not: starting Blender.

A field that somebody filled in stays.  What the render takes from the scene by itself (camera,
engine, resolution, view layers) is not copied into the job: a later save of the scene would not count any
more.  It is said in words, so that it can be checked.
"""

from __future__ import annotations

from typing import Final

import msgspec

from client_gui.store.draft import Draft, Path
from farm.model.errors import CallError

#: Where Blender writes when nobody has said anything: no other machine sees it.
_NOWHERE: Final = ("", "/tmp", "C:/tmp")


class SceneOutput(msgspec.Struct, frozen=True):
    """Where a scene writes.

    Attributes:
        path: As it was typed.
        kind: ``sequence``, ``movie`` or ``none``.
        pattern: Absolute, with one run of ``#``; "" when there is none.
        format: Blender's name of the file format.
        error: Why Blender cannot name the files.
    """

    path: str = ""
    kind: str = "none"
    pattern: str = ""
    format: str = ""
    error: str = ""


class SceneFacts(msgspec.Struct, frozen=True):
    """What Blender says of a scene.

    Attributes:
        error: Why it says nothing.
        version: Of the Blender.
        scene: The scene the file opens with.
        scenes: All of them.
        start, end, step: Its frames.
        engine: What renders it.
        width, height, percent: Its resolution.
        camera: Its camera, "" for none.
        cameras: All of them.
        bound: Whether markers change the camera.
        layers: View layers that are rendered.
        output: Where it writes.
        python: Whether the file holds Python that was not run.
    """

    error: str = ""
    version: str = ""
    scene: str = ""
    scenes: tuple[str, ...] = ()
    start: int = 1
    end: int = 1
    step: int = 1
    engine: str = ""
    width: int = 0
    height: int = 0
    percent: int = 100
    camera: str = ""
    cameras: tuple[str, ...] = ()
    bound: bool = False
    layers: tuple[str, ...] = ()
    output: SceneOutput = SceneOutput()
    python: bool = False

    @property
    def frames(self) -> str:
        """Its frames as a range."""
        if self.end <= self.start:
            return str(self.start)
        return f"{self.start}-{self.end}" + (f"x{self.step}" if self.step > 1 else "")

    def hints(self) -> dict[str, str]:
        """What holds where a parameter of the render is left empty, by its name."""
        found = {"scene_name": self.scene, "engine": self.engine, "view_layers": ", ".join(self.layers)}
        found["camera"] = "by the scene's markers" if self.bound else self.camera
        if self.width and self.height:
            found |= {"width": str(self.width), "height": str(self.height)}
            found["resolution_percent"] = str(self.percent)
        return {name: text for name, text in found.items() if text}

    def words(self) -> list[str]:
        """What it is, a line each."""
        camera = f"camera {self.camera}" if self.camera else "no camera"
        if self.bound:
            camera = "cameras by the scene's markers"
        elif len(self.cameras) > 1:
            camera += f" (of {', '.join(self.cameras)})"
        percent = f" at {self.percent} %" if self.percent != 100 else ""
        layers = f"view layers {', '.join(self.layers)}" if len(self.layers) != 1 else ""
        size = f"{self.width} x {self.height}{percent}"
        parts = [f"frames {self.frames}", self.engine, size, camera, layers]
        found = [f"Scene {self.scene!r}: {', '.join(one for one in parts if one)}"]
        if len(self.scenes) > 1:
            found.append(f"Other scenes of the file: {', '.join(s for s in self.scenes if s != self.scene)}")
        if self.python:
            found.append("The file holds Python that was not run: tick Autoexec if it needs it")
        return found


def read_facts(data: bytes) -> SceneFacts:
    """The record from what Blender printed.

    Raises:
        CallError: It says nothing, or why not.
    """
    for line in reversed(data.splitlines()):
        if line.startswith(b"FARM "):
            try:
                facts = msgspec.json.decode(line[5:], type=SceneFacts)
            except msgspec.MsgspecError as error:
                raise CallError(f"Blender's answer cannot be read: {error}") from error
            if facts.error:
                raise CallError(f"Blender could not read the scene: {facts.error}")
            return facts
    raise CallError("Blender ended without a word about the scene")


def fill_from_scene(draft: Draft, index: int, facts: SceneFacts) -> tuple[list[str], list[str]]:
    """Fills what is empty in a step.

    Returns:
        Labels of what was filled, and what the artist should know.
    """
    base: Path = ("steps", index)
    filled: list[str] = []
    notes: list[str] = []
    if draft.empty((*base, "frames")) and draft.steps[index].get("kind", "per_frame") == "per_frame":
        draft.put((*base, "frames"), facts.frames)
        filled.append("Frames")
    output = facts.output
    if draft.empty((*base, "outputs")):
        folder = output.pattern.replace("\\", "/").rpartition("/")[0]
        if output.error:
            notes.append(f"Blender cannot name its output {output.path}: {output.error}")
        elif output.kind == "movie":
            notes.append(
                f"The scene writes a movie ({output.path}); a farm renders frames: add a movie of them"
            )
        elif not output.pattern:
            notes.append("The scene names no file for each frame: say where the output goes")
        elif folder in _NOWHERE:
            notes.append(f"The scene writes to {output.path}, which no other machine sees: say where it goes")
        else:
            draft.put((*base, "outputs"), [{"pattern": output.pattern}])
            filled.append("Output")
    return filled, [*facts.words(), *notes]
