"""A job that is being put together: the job file as it will be, and what became of it so far.

What belongs here: reading and changing values by their place, steps added and taken away, what is wrong with
each value, and keeping all of it as one record.  What may not: files, the farm, and how a form looks.

The job file's own JSON is the truth.  What this client does not know of it stays where it is, so that a file
of a newer farm comes out as it went in.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, Final

import msgspec

from client_gui.store.fields import (
    JOB_GROUPS,
    SHOWN_OF_JOB,
    SHOWN_OF_STEP,
    STEP_ESSENTIALS,
    STEP_GROUPS,
    UNSET,
    Field,
    fields_of_renderer,
)
from farm.model.errors import CallError, JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import JOB_FILE_VERSION
from farm.renderers.base import Renderer

#: Where a value lies: ``("steps", 0, "params", "samples")``.
Path = tuple[str | int, ...]

_PART: Final = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]")
#: The place with which messages of the farm begin.
_PLACE: Final = re.compile(r"((?:[A-Za-z_][A-Za-z0-9_]*(?:\[\d+\])?\.?)+?)(: | is not built yet)")


class Stage(StrEnum):
    """What became of a draft."""

    DRAFT = "draft"
    #: To be sent as soon as the farm can be asked.
    WAITING = "waiting"
    #: Sent, and no answer yet; sending it again gives the same job.
    SENDING = "sending"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that stands against a job.

    Attributes:
        path: Where, () when it concerns all of it.
        text: What is wrong.
        hint: What to do about it.
        missing: Nothing is filled in there yet.
    """

    path: Path
    text: str
    hint: str = ""
    missing: bool = False

    @property
    def where(self) -> str:
        """The place as the job file's messages write it."""
        return path_text(self.path)


@dataclass(slots=True, eq=False)
class Draft:
    """A job that is being put together.

    Attributes:
        id: Its own, among the drafts.
        document: The job file.
        origin: Where it came from, for people: a file, ``J12``.
        notes: What was found when it was made, for people.
        stage: What became of it.
        farm: The farm it waits for, "" before.
        token: What makes sending it twice harmless, "" before the first time.
        sealed: Digest of what the token was made for.
        force: Whether it is sent though no node could take it.
        refusal: What the farm said against it last.
        revision: Counts changes.
    """

    id: str
    document: dict[str, Any]
    origin: str = ""
    notes: tuple[str, ...] = ()
    stage: Stage = Stage.DRAFT
    farm: str = ""
    token: str = ""
    sealed: str = ""
    force: bool = False
    refusal: Problem | None = None
    revision: int = 0
    touched: set[Path] = field(default_factory=set)

    # -- what it is --

    @property
    def name(self) -> str:
        """What the job is called."""
        name = self.document.get("name")
        return name if isinstance(name, str) and name else "unnamed"

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Its steps as they lie in the document."""
        found: list[dict[str, Any]] = self.document["steps"]
        return found

    @property
    def editable(self) -> bool:
        """Whether it may be changed: not while it is on its way."""
        return self.stage is Stage.DRAFT

    # -- values --

    def value(self, path: Path) -> Any:
        """The value at a place, ``UNSET`` where there is none."""
        at: Any = self.document
        for part in path:
            try:
                at = at[part]
            except (KeyError, IndexError, TypeError):
                return UNSET
        return at

    def empty(self, path: Path) -> bool:
        """Whether nothing is filled in at a place."""
        value = self.value(path)
        return not value or (isinstance(value, list) and _empty_output(value) != "")

    def put(self, path: Path, value: Any) -> None:
        """Sets a value; ``UNSET`` takes it away, so that the default holds.

        A record that is left empty is taken away with its last value.
        """
        if not self.editable:
            raise CallError(f"{self.name} is on its way", hint="take it back first")
        if self.value(path) == value and type(self.value(path)) is type(value):
            return
        before = self._counts()
        if value is UNSET:
            self._take(path)
        else:
            at: Any = self.document
            for part, following in pairwise(path):
                if isinstance(at, list):
                    at = at[int(part)]
                    continue
                if not isinstance(at.get(part), (dict, list)):
                    at[part] = [] if isinstance(following, int) else {}
                at = at[part]
            at[path[-1]] = value
        self.touched.add(path)
        self._count_films(before)
        self.changed()

    def _counts(self) -> dict[Any, int | None]:
        """Frames by step name, None where they are none."""
        found: dict[Any, int | None] = {}
        for step in self.steps:
            found[str(step.get("name"))] = _count(step.get("frames"))
        return found

    def _count_films(self, before: dict[Any, int | None]) -> None:
        """Keeps the number of frames that films must have in step with the frames they are made of."""
        after = self._counts()
        for step in self.steps:
            given = step.get("params", {}).get("input")
            source = given.get("step") if isinstance(given, dict) else None
            if step.get("renderer") != "stitch" or source not in after or before.get(source) == after[source]:
                continue
            if step.get("movie_frames") == before.get(source):
                if after[source] is not None:
                    step["movie_frames"] = after[source]
                else:
                    step.pop("movie_frames", None)

    def _take(self, path: Path) -> None:
        holder = self.value(path[:-1])
        if isinstance(holder, dict):
            holder.pop(path[-1], None)
            if not holder and path[:-1] and path[-2] != "params" and not isinstance(path[-2], int):
                self._take(path[:-1])

    def changed(self) -> None:
        """Something is another: what the farm said of it before does not hold any more."""
        self.revision += 1
        self.refusal = None

    # -- steps --

    def add_step(self, renderer: Renderer, **fields: Any) -> int:
        """Adds a step at the end; returns its index."""
        kinds = renderer.kinds
        usual = {"command": "command", "ffmpeg": "filter", "stitch": "film"}
        step: dict[str, Any] = {"name": self._free_name(usual.get(renderer.name, "render"))}
        step["renderer"] = renderer.name
        if "per_frame" not in kinds:
            step["kind"] = "single"
        step |= {"params": {}, "outputs": []} | fields
        self.steps.append(step)
        self.changed()
        return len(self.steps) - 1

    def add_film(self, source: int) -> int:
        """Adds a step that joins the frames of another; returns its index."""
        made = self.steps[source]
        outputs = made.get("outputs") or [{}]
        pattern = str(outputs[0].get("pattern", "")) if isinstance(outputs[0], dict) else ""
        folder, _, _ = pattern.rpartition("/") if "/" in pattern else pattern.rpartition("\\")
        separator = "\\" if "/" not in pattern and "\\" in pattern else "/"
        movie = f"{folder}{separator}{self.name}.mp4" if folder else ""
        step: dict[str, Any] = {
            "name": self._free_name("film"),
            "renderer": "stitch",
            "kind": "single",
            "params": {"input": {"step": made.get("name", ""), "output": 0}},
            "outputs": [{"pattern": movie, "kind": "movie"}],
            "after": [made.get("name", "")],
        }
        if (count := _count(made.get("frames"))) is not None:
            step["movie_frames"] = count
        for key in ("pools", "site", "existing"):
            if key in made:
                step[key] = copy.deepcopy(made[key])
        self.steps.append(step)
        self.changed()
        return len(self.steps) - 1

    def remove_step(self, index: int) -> None:
        """Takes a step away; what waited for it or read it says so itself, since it is wrong then."""
        del self.steps[index]
        self.touched = {path for path in self.touched if path[:1] != ("steps",)}
        self.changed()

    def rename_step(self, index: int, name: str) -> None:
        """Gives a step another name, also where others wait for it or read it."""
        before = self.steps[index].get("name")
        self.put(("steps", index, "name"), name)
        for step in self.steps:
            after = step.get("after")
            if isinstance(after, list):
                step["after"] = [name if one == before else one for one in after]
                for one in step["after"]:
                    if isinstance(one, dict) and not one.get("job") and one.get("step") == before:
                        one["step"] = name
            params = step.get("params")
            for value in params.values() if isinstance(params, dict) else ():
                if (
                    isinstance(value, dict)
                    and set(value) <= {"step", "output"}
                    and value.get("step") == before
                ):
                    value["step"] = name

    def set_renderer(self, index: int, renderer: Renderer) -> None:
        """Gives a step another renderer; parameters that it has, too, are kept."""
        step = self.steps[index]
        known = renderer.params_type.__struct_fields__
        params = step.get("params")
        step["renderer"] = renderer.name
        step["params"] = {key: value for key, value in params.items() if key in known} if params else {}
        if step.get("kind", "per_frame") not in renderer.kinds:
            self.set_kind(index, "single" if "single" in renderer.kinds else "per_frame")
        self.changed()

    def set_kind(self, index: int, kind: str) -> None:
        """Makes a step one of frames, or a single piece of work."""
        step = self.steps[index]
        if kind == "per_frame":
            step.pop("kind", None)
        else:
            step["kind"] = kind
            step.pop("frames", None)
            step.pop("chunk", None)
            step.pop("order", None)
        self.changed()

    def _free_name(self, wanted: str) -> str:
        taken = {step.get("name") for step in self.steps}
        if wanted not in taken:
            return wanted
        return next(name for n in range(2, len(taken) + 3) if (name := f"{wanted}{n}") not in taken)

    # -- what is wrong, and what is kept --

    def fields(self, renderers: dict[str, Renderer]) -> Iterator[tuple[Path, Field]]:
        """Every field of it with its place."""
        for group in JOB_GROUPS:
            for one in group.fields:
                yield one.path, one
        for index in range(len(self.steps)):
            for path, one in step_fields(self, index, renderers):
                yield path, one

    def problems(self, renderers: dict[str, Renderer]) -> list[Problem]:
        """What is wrong with single values; how they go together is not looked at here."""
        found = []
        for path, one in self.fields(renderers):
            text = one.problem(self.value(path))
            if not text and one.key == "frames" and path[-1] == "frames" and len(path) == 3:
                text = "" if self.value(path) not in (UNSET, "", None) else "which frames?"
            if not text and one.kind == "outputs":
                text = _empty_output(self.value(path))
            if text:
                found.append(Problem(path, text, missing=self.empty(path)))
        return found

    def strange(self) -> list[str]:
        """Keys that no field stands for, by their places: they are kept as they are."""
        found = [key for key in self.document if key not in SHOWN_OF_JOB]
        for index, step in enumerate(self.steps):
            found += [f"steps[{index}].{key}" for key in step if key not in SHOWN_OF_STEP]
        return found

    # -- sending and keeping --

    def as_json(self) -> bytes:
        """The job file."""
        return msgspec.json.encode(self.document)

    def seal(self, fresh: str) -> str:
        """The token for what it is now: the same as long as nothing changes, else the fresh one."""
        own = self.document.get("token")
        digest = hashlib.sha256(self.as_json()).hexdigest()
        if self.sealed != digest or not self.token:
            self.token = own if isinstance(own, str) and own else fresh
            self.sealed = digest
        return self.token

    def record(self) -> dict[str, Any]:
        """All of it, to be kept."""
        return {
            "overcrank_draft": 1,
            "id": self.id,
            "origin": self.origin,
            "notes": list(self.notes),
            "stage": self.stage.value,
            "farm": self.farm,
            "token": self.token,
            "sealed": self.sealed,
            "force": self.force,
            "job": self.document,
        }

    @classmethod
    def from_record(cls, record: Any) -> Draft:
        """A draft that was kept.

        Raises:
            CallError: It is none.
        """
        try:
            if record["overcrank_draft"] != 1:
                raise CallError(
                    f"a draft of version {record['overcrank_draft']!r}, which this client cannot read"
                )
            made = cls(
                id=str(record["id"]),
                document=check_document(record["job"]),
                origin=str(record.get("origin", "")),
                notes=tuple(map(str, record.get("notes", ()))),
                stage=Stage(record.get("stage", Stage.DRAFT)),
                farm=str(record.get("farm", "")),
                token=str(record.get("token", "")),
                sealed=str(record.get("sealed", "")),
                force=record.get("force") is True,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CallError(f"no draft: {error}") from error
        return made


def step_fields(draft: Draft, index: int, renderers: Mapping[str, Renderer]) -> Iterator[tuple[Path, Field]]:
    """Every field of a step with its place: essentials, parameters, the rest."""
    base: Path = ("steps", index)
    step = draft.steps[index]
    frames = step.get("kind", "per_frame") == "per_frame"
    for one in STEP_ESSENTIALS:
        if frames or one.key != "frames":
            yield (*base, *one.path), one
    name = step.get("renderer")
    renderer = renderers.get(name) if isinstance(name, str) else None
    for one in fields_of_renderer(renderer) if renderer is not None else ():
        yield (*base, "params", *one.path), one
    for group in STEP_GROUPS:
        for one in group.fields:
            if frames or one.key not in ("chunk", "order"):
                yield (*base, *one.path), one


def check_document(document: Any) -> dict[str, Any]:
    """A decoded job file, as far as it must be right to be shown at all.

    Raises:
        JobFileError: It is no job file, or one that cannot be edited here.
    """
    if not isinstance(document, dict) or "overcrank_job" not in document:
        raise JobFileError("not a job file: it has no key 'overcrank_job'")
    if document["overcrank_job"] != JOB_FILE_VERSION:
        raise JobFileError(
            f"version {document['overcrank_job']!r} is not supported",
            "overcrank_job",
            hint=f"this client reads version {JOB_FILE_VERSION}",
        )
    steps = document.get("steps")
    if not isinstance(steps, list) or not steps:
        raise JobFileError("a job needs at least one step", "steps")
    for index, step in enumerate(steps):
        if not isinstance(step, dict):
            raise JobFileError("is no step", f"steps[{index}]")
        if not isinstance(step.get("params", {}), dict):
            raise JobFileError("is no table of parameters", f"steps[{index}].params")
    return document


def _count(frames: Any) -> int | None:
    """How many frames a text names, None when it is none."""
    if not isinstance(frames, str) or not frames.strip():
        return None
    try:
        return len(FrameRange.parse(frames))
    except CallError:
        return None


def _empty_output(outputs: Any) -> str:
    if isinstance(outputs, list):
        for output in outputs:
            if isinstance(output, dict) and not str(output.get("pattern", "")).strip():
                return "where to?"
    return ""


# -- places ----------------------------------------------------------------------------------------------


def path_text(path: Iterable[str | int]) -> str:
    """A place as messages write it: ``steps[0].params.samples``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_path(text: str) -> Path:
    """A place that a message names; () when it is none."""
    found: list[str | int] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None:
            return ()
        found.append(match[1] if match[1] is not None else int(match[2]))
        at = match.end()
    return tuple(found)


def problem_of(message: str, hint: str, document: dict[str, Any], path: str = "") -> Problem:
    """A refusal as a problem at the place it names, when the job has such a place.

    Args:
        message: What was said; it begins with the place, as messages of job files do.
        hint: What to do about it.
        document: The job file.
        path: The place, when it is known.
    """
    if not path:
        match = _PLACE.match(message)
        path = match[1].rstrip(".") if match is not None else ""
    place = read_path(path)
    if not place or not _is_in(document, place):
        return Problem((), message, hint)
    return Problem(place, message.removeprefix(f"{path}: "), hint)


def _is_in(document: dict[str, Any], place: Path) -> bool:
    """Whether a place begins in the document; its last parts need not be there: they are missing."""
    if place[0] != "steps":
        return place[0] in SHOWN_OF_JOB or place[0] in document
    if len(place) == 1:
        return True
    return isinstance(place[1], int) and place[1] < len(document["steps"])
