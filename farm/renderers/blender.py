"""Blender 3.4 to 5.x: parameters, the command line of a chunk, the truth about its end.

What belongs here: all the farm knows of Blender from outside.  What happens inside it is in
``runners/blender_runner.py``; what its log lines mean is in ``blender_log``.  What must not: starting it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from farm.model.errors import JobFileError
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import ChunkContext, Invocation, LogParser, Problem, Verdict
from farm.renderers.blender_log import BlenderLogParser
from farm.renderers.blender_outputs import (
    NODE_SUFFIXES,
    SUFFIXES,
    NodeOutput,
    check_counts,
    check_mixdown,
    check_suffixes,
    mixdown_range,
)
from farm.renderers.checks import check_picture_outputs, planned_by_frame
from farm.renderers.verdicts import judge_process

_RUNNER = str(Path(__file__).with_name("runners") / "blender_runner.py")
#: Exit code of the runner, and of Blender itself for an exception in it.
RUNNER_FAILED = 64
_GPU_DEVICES = ("cuda", "optix", "hip", "oneapi", "metal")
_Size = Annotated[int, Meta(ge=0, le=65536)]


class BlenderParams(Struct, frozen=True, kw_only=True):
    """Parameters of the ``blender`` renderer; what is left out stays as the artist saved it."""

    scene: Annotated[str, Meta(description="The .blend file")] = ""
    scene_script: Annotated[
        str, Meta(description="Python file that builds or changes the scene before it is rendered")
    ] = ""
    parameters: Annotated[
        dict[str, Any], Meta(description="What the scene script finds in its variable `parameters`")
    ] = {}
    scene_name: Annotated[str, Meta(description="Which scene of the file; empty = the one it opens with")] = (
        ""
    )
    view_layer: Annotated[str, Meta(description="The one view layer to render")] = ""
    view_layers: Annotated[
        tuple[str, ...], Meta(description="View layers to render, one for each output, in order")
    ] = ()
    camera: Annotated[str | None, Meta(description="Name of the camera; empty = the scene's")] = None
    engine: Annotated[
        str, Meta(description="CYCLES, BLENDER_EEVEE (either name), BLENDER_WORKBENCH or an add-on's")
    ] = ""
    samples: Annotated[int, Meta(description="Samples per pixel; 0 = the scene's", ge=0, le=1_000_000)] = 0
    width: Annotated[_Size, Meta(description="Pixels across, before the percentage; 0 = the scene's")] = 0
    height: Annotated[_Size, Meta(description="Pixels down, before the percentage; 0 = the scene's")] = 0
    resolution_percent: Annotated[
        int, Meta(description="Percentage of the resolution; 0 = the scene's", ge=0, le=32767)
    ] = 0
    device: Annotated[
        Literal["auto", "cpu", "cuda", "optix", "hip", "oneapi", "metal"],
        Meta(description="What Cycles renders on; auto = the leased GPUs, or the CPU when there are none"),
    ] = "auto"
    format: Annotated[
        Literal["", "PNG", "EXR", "EXR_MULTILAYER", "JPEG", "TIFF"],
        Meta(description="File format; empty = by the output's suffix"),
    ] = ""
    color_mode: Annotated[
        Literal["", "BW", "RGB", "RGBA"], Meta(description="Channels of the file; empty = the scene's")
    ] = ""
    color_depth: Annotated[
        Literal["", "8", "16", "32"], Meta(description="Bits per channel; empty = the scene's")
    ] = ""
    views: Annotated[
        tuple[str, ...], Meta(description="Stereo views that get a file each, one output each, in order")
    ] = ()
    node_outputs: Annotated[
        tuple[NodeOutput, ...],
        Meta(
            description="Files of File Output nodes, one for each output after the pictures: node, slot "
            "(empty: MultiLayer), tree (its node group), view; nodes that are not named do not run"
        ),
    ] = ()
    mixdown: Annotated[
        str, Meta(description="Frames whose sound a single step mixes into its .flac or .wav, e.g. 1-250")
    ] = ""
    compositing: Annotated[
        Literal["scene", "off"], Meta(description="Whether the scene's compositor runs, if it is on")
    ] = "scene"
    missing: Annotated[
        Literal["fail", "warn"], Meta(description="What to do about missing textures, libraries and fonts")
    ] = "fail"
    autoexec: Annotated[
        bool, Meta(description="Run the Python that is saved in the scene (drivers, rigs)")
    ] = False
    user_settings: Annotated[
        bool, Meta(description="Use the node's own Blender preferences and add-ons, not factory settings")
    ] = False

    def layers(self) -> tuple[str, ...]:
        """The view layers asked for, however they were given."""
        return self.view_layers or ((self.view_layer,) if self.view_layer else ())

    def pictures(self) -> int:
        """How many files of a frame the render itself writes; those of nodes come after them."""
        return max(1, len(self.layers())) * max(1, len(self.views))


class BlenderRenderer:
    """The ``blender`` renderer."""

    name: ClassVar[str] = "blender"
    summary: ClassVar[str] = "Renders frames of a Blender scene, with the program or the bpy wheel"
    params_type: ClassVar[type[Struct]] = BlenderParams
    app: ClassVar[str] = "blender"
    kinds: ClassVar[frozenset[str]] = frozenset({"per_frame", "single"})
    path_params: ClassVar[tuple[str, ...]] = ("scene", "scene_script")
    input_params: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = (".blend",)
    takes_lists: ClassVar[bool] = True
    whole_slice: ClassVar[bool] = False

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """See Renderer.check."""
        asked: BlenderParams = params
        if not asked.scene and not asked.scene_script:
            raise JobFileError("blender needs a scene or a scene_script", "params.scene")
        if asked.view_layer and asked.view_layers:
            raise JobFileError("give view_layer or view_layers, not both", "params.view_layers")
        check_mixdown(step, asked.mixdown)
        if step.kind == "single":
            return []
        check_counts(step, asked.layers(), asked.views, asked.node_outputs)
        if asked.node_outputs and asked.compositing == "off":
            raise JobFileError(
                "File Output nodes need the compositor", "params.compositing", hint="use scene"
            )
        check_picture_outputs(step, self.name, NODE_SUFFIXES if asked.node_outputs else SUFFIXES)
        check_suffixes(step, asked.pictures(), asked.format, asked.color_depth)
        return self._check_device(step, asked)

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """See Renderer.invocations."""
        app = context.app
        if app is None:
            raise JobFileError("blender is not on this machine")
        params: BlenderParams = context.params
        task_path = f"{context.scratch}/task.json"
        if app.flavour == "bpy":
            argv = (*app.argv, _RUNNER, task_path)
        else:
            # The order counts: what comes before a word that acts (--python) holds for it.
            argv = (
                *app.argv,
                "-b",
                "-noaudio",
                *(() if params.user_settings else ("--factory-startup",)),
                "-y" if params.autoexec else "-Y",
                "--python-exit-code",
                str(RUNNER_FAILED),
                "-t",
                str(max(1, min(1024, context.cores))),
                "--python",
                _RUNNER,
                "--",
                task_path,
            )
        task = json.dumps(self._task(context), indent=1)
        env = _environment(context, params)
        return (
            Invocation(
                argv=argv,
                env=env,
                write={task_path: task},
                frames=context.frames,
                claims=f"{context.scratch}/claims",
            ),
        )

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """See Renderer.parser."""
        params: BlenderParams = context.params
        return BlenderLogParser(
            frames=invocation.frames,
            files=context.files,
            scratch=context.scratch,
            missing_is_fatal=params.missing == "fail",
            renders=max(1, len(params.layers())),
            each=len(params.views),
        )

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """See Renderer.judge."""
        failed = Verdict(
            FailureClass.CONFIG, "the Blender runner failed before it could say why; see the log"
        )
        return judge_process("Blender", exit_code, problems, {RUNNER_FAILED: failed})

    @staticmethod
    def _check_device(step: StepSpec, asked: BlenderParams) -> list[str]:
        gpus = step.resources.gpus
        if asked.device in _GPU_DEVICES and not gpus:
            raise JobFileError(
                f"device {asked.device} needs a GPU", "params.device", hint="set resources.gpus to 1 or more"
            )
        warnings = []
        if asked.device == "cpu" and gpus:
            warnings.append(f"device cpu leaves the {gpus} GPU(s) it asks for idle")
        return warnings

    @staticmethod
    def _task(context: ChunkContext) -> dict[str, Any]:
        """The task as the runner reads it."""
        params: BlenderParams = context.params
        fields = (
            *("scene", "scene_script", "parameters", "scene_name", "engine", "samples", "width", "height"),
            *("resolution_percent", "device", "format", "color_mode", "color_depth", "compositing"),
            *("missing", "autoexec", "user_settings"),
        )
        task: dict[str, Any] = {field: getattr(params, field) for field in fields}
        task["camera"] = params.camera or ""
        task["view_layers"], task["views"] = list(params.layers()), list(params.views)
        task["node_outputs"] = [
            {"node": each.node, "slot": each.slot, "tree": each.tree, "view": each.view}
            for each in params.node_outputs
        ]
        task["mixdown"] = list(mixdown_range(params.mixdown)) if params.mixdown else []
        task["sound"] = context.files[0].path if params.mixdown else ""
        task["scratch"] = context.scratch
        task["claims"] = f"{context.scratch}/claims"
        task["threads"] = max(1, context.cores)
        task["gpus"] = len(context.gpus)
        task["frames"] = [
            # A mixdown has no frames; its one file is the sound.
            {"frame": frame, "files": [file.path for file in files]}
            for frame, files in planned_by_frame(context)
        ]
        return task


def _environment(context: ChunkContext, params: BlenderParams) -> dict[str, str]:
    """Variables that keep a node's own settings, GPUs of others and shared temporary folders out."""
    visible = ",".join(str(index) for index in context.gpus)
    env = {
        "TMPDIR": context.scratch,
        "PYTHONIOENCODING": "utf-8",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible,
        "HIP_VISIBLE_DEVICES": visible,
    }
    if not params.user_settings:
        for name in ("RESOURCES", "CONFIG", "SCRIPTS", "DATAFILES"):
            env[f"BLENDER_USER_{name}"] = f"{context.scratch}/blender-user"
    return env


RENDERER = BlenderRenderer()
