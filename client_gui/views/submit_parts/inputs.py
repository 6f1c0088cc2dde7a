"""What is dropped, opened or named becomes drafts: the detection of `farm submit FILE`, without a window.

What belongs here: looking at files and making job files of them; all of it may block on a slow disk and is
called from a worker.  What may not: Qt, and the farm.

`farm submit` refuses a scene without frames, since it cannot ask.  A form can: what is missing is left empty
there, and everything else is what `farm submit` would make of the same file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from client_gui.store.draft import check_document
from farm.model.errors import CallError, JobFileError, OvercrankError, UnknownName
from farm.model.frames import FrameRange
from farm.model.jobs import JobSpec, read_job
from farm.model.paths import MOVIE_SUFFIXES, basename_of, has_frame_token, resolve_output
from farm.model.resources import Resources
from farm.sdk.disk import frames_there, is_folder, sequence_of, sequences_in
from farm.sdk.jobfile import job_bytes
from farm.sdk.submit_inputs import make_job
from farm.sdk.submit_options import SubmitOptions

#: More sequences of a folder, or files at once, are not opened unasked.
MOST: Final = 24
#: A job file longer than this is some other file.
_MAX_BYTES: Final = 64 * 1024 * 1024
#: Stands for what nobody has said yet while ``make_job`` makes the rest.
_FRAMES: Final = "1"

_BLEND_NOTE: Final = (
    "A .blend is opened only by Blender: give the frames yourself, or press Read from Blender where this"
    " machine has one. What is left empty, such as camera and resolution, is as the file was saved."
)


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of one input.

    Attributes:
        origin: What was opened, for people.
        document: The job file, None when it failed.
        notes: What was found, for people.
        error: Why it failed.
    """

    origin: str
    document: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    error: OvercrankError | None = None


def open_paths(
    paths: Sequence[str], farm: str | None = None, stopped: Callable[[], bool] = lambda: False
) -> list[Opened]:
    """Makes a draft of each input; pictures of one sequence become one.

    Args:
        paths: Files, folders, patterns; absolute.
        farm: The farm whose options name user and project.
        stopped: Whether nobody waits for it any more.
    """
    found: list[Opened] = []
    seen: set[str] = set()
    for path in paths[:MOST]:
        if stopped():
            break
        try:
            inputs = _inputs_of(path)
        except OvercrankError as error:
            found.append(Opened(path, error=error))
            continue
        for one in inputs:
            if one in seen or stopped():
                continue
            seen.add(one)
            try:
                found.append(_open(one, farm))
            except OvercrankError as error:
                found.append(Opened(one, error=error))
    if len(paths) > MOST:
        found.append(
            Opened(paths[MOST], error=CallError(f"{len(paths)} files at once; the first {MOST} were opened"))
        )
    return found


def _inputs_of(path: str) -> list[str]:
    """What a path stands for: itself, the sequence a picture belongs to, the sequences of a folder."""
    if has_frame_token(path):
        return [path]
    if is_folder(path):
        found = sequences_in(path)
        if not found:
            raise CallError(f"there is no sequence in {path}", hint="drop the files themselves")
        if len(found) > MOST:
            raise CallError(f"there are {len(found)} sequences in {path}", hint="drop those you mean")
        return found
    if path.lower().endswith((".json", ".blend", *MOVIE_SUFFIXES)):
        return [path]
    return [sequence_of(path) or path]


def _open(path: str, farm: str | None) -> Opened:
    if path.lower().endswith(".json"):
        return open_job_file(path)
    if not has_frame_token(path) and not Path(path).is_file():
        raise CallError(f"{path} does not exist, or may not be read")
    options = _configured(SubmitOptions(file=path), farm)
    if has_frame_token(path):
        return _sequence(path, options)
    try:
        # A clip's draft encodes it: something has to be done with it.
        made = _made(options, frames=_FRAMES, output=_beside(path, "####.png"))
    except CallError as error:
        if isinstance(error, UnknownName) or "a clip" not in f"{error.message} {error.hint}":
            raise
        made = _made(options, encode="h264", output=_beside(path, "h264.mp4"))
        return Opened(path, _blanked(made), _clip_notes(path))
    notes = (_BLEND_NOTE,) if path.lower().endswith(".blend") else ()
    return Opened(path, _blanked(made, frames=True), notes)


def _sequence(path: str, options: SubmitOptions) -> Opened:
    """A film of a sequence: what is there of it, when it has gaps."""
    movie = _beside(path, "mp4")
    try:
        return Opened(path, _blanked(_made(options, output=movie)))
    except CallError as error:
        there = frames_there(path)
        if not there:
            raise
        kept = FrameRange.from_frames(there)
        document = _blanked(_made(options, output=movie, frames=str(kept)))
        return Opened(path, document, (f"{error.message}: the draft has those that are there",))


def _made(options: SubmitOptions, **more: Any) -> JobSpec:
    return make_job(msgspec.structs.replace(options, **more))[0]


def _blanked(job: JobSpec, *, frames: bool = False) -> dict[str, Any]:
    """The job file, with what nobody has said yet left empty."""
    document: dict[str, Any] = msgspec.json.decode(job_bytes(job))
    for step in document["steps"]:
        step.setdefault("params", {})
        if step.get("resources") == msgspec.to_builtins(Resources()):
            del step["resources"]
        for output in step.get("outputs", ()):
            output["pattern"] = ""
        if frames and "frames" in step:
            step["frames"] = ""
    return document


def _beside(path: str, ending: str) -> str:
    return str(Path(path).with_name(f"new.{ending}" if "." not in ending else f"new-{ending}"))


def _clip_notes(path: str) -> tuple[str, ...]:
    """What a clip is, as far as its container says; nothing where this machine cannot read it."""
    try:
        import av
    except ImportError:
        return ()
    try:
        with av.open(path) as container:
            stream = container.streams.video[0]
            rate = f", {stream.average_rate} frames a second" if stream.average_rate else ""
            count = f", {stream.frames} frames" if stream.frames else ""
            codec = stream.codec_context.name
            return (f"{basename_of(path)}: {codec}, {stream.width} x {stream.height}{count}{rate}",)
    except (av.error.FFmpegError, IndexError, OSError, ValueError) as error:
        return (f"{basename_of(path)} cannot be read here: {error}",)


def _configured(options: SubmitOptions, farm: str | None) -> SubmitOptions:
    """The options with user and project of the configuration, as `farm submit` has them."""
    from farm.config.load import load_client_options
    from farm.config.places import farm_name

    configured = load_client_options(farm_name(farm))
    return msgspec.structs.replace(options, user=configured.user, project=configured.project)


def open_job_file(path: str) -> Opened:
    """Reads a job file; what is wrong with single fields is for the form to say.

    Raises:
        OvercrankError: It cannot be read, or is no job file.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise CallError(f"the job file {path} cannot be read: {error.strerror or error}") from error
    if len(data) > _MAX_BYTES:
        raise JobFileError(f"{path} is longer than any job file")
    return Opened(path, document_of(data.removeprefix(b"\xef\xbb\xbf"), path))


def document_of(data: bytes, where: str) -> dict[str, Any]:
    """A job file's content, as far as it must be right to be shown.

    Raises:
        JobFileError: It is no job file.
    """
    try:
        return check_document(msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise JobFileError(f"{where}: not JSON: {error}") from error
    except RecursionError:
        raise JobFileError(f"{where}: it is nested too deeply") from None
    except JobFileError as error:
        raise JobFileError(f"{where}: {error.message}", hint=error.hint) from error


def open_job(spec: bytes, number: int, step: str = "", frames: str = "", *, archived: bool = False) -> Opened:
    """A draft that does a job of the farm again, or part of it.

    Raises:
        OvercrankError: The job is none this client can read, or has no such part.
    """
    from farm.sdk.resubmit import part_of_job

    job, _ = read_job(spec)
    part = part_of_job(job, number, step=step or None, frames=frames or None, archived=archived)
    document: dict[str, Any] = msgspec.json.decode(job_bytes(part))
    for one in document["steps"]:
        one.setdefault("params", {})
    address = f"J{number}/{step}" if step else f"J{number}"
    return Opened(address, document, (f"From {address}: it becomes a job of its own",))


def write_job_file(path: str, document: bytes) -> None:
    """Writes a job file for people: whole or not at all.

    Raises:
        CallError: It cannot be written.
    """
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_bytes(msgspec.json.format(document, indent=2) + b"\n")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CallError(f"{path} cannot be written: {error.strerror or error}") from error


def resolved_output(text: str, step: dict[str, Any], suffix: str) -> tuple[str, str]:
    """What was typed as an output, as `-o` of `farm submit` takes it: pattern and kind.

    A folder, said so by a separator at its end, becomes a pattern in it; anything else stays as it is.
    """
    kind = "single" if step.get("kind") == "single" else "per_frame"
    if not text.endswith(("/", "\\")):
        if text.lower().endswith(MOVIE_SUFFIXES) and kind == "single":
            return text, "movie"
        return text, "sequence" if kind == "per_frame" else "single"
    try:
        return resolve_output(text, str(step.get("name", "render")), suffix, kind)  # type: ignore[arg-type]
    except CallError:
        return text, "sequence" if kind == "per_frame" else "single"


def suffix_of_step(step: dict[str, Any]) -> str:
    """The suffix of a step's files when nothing else says one, "" when nobody knows."""
    params = step.get("params", {})
    renderer = step.get("renderer")
    if renderer == "blender":
        formats = {"EXR": "exr", "EXR_MULTILAYER": "exr", "JPEG": "jpg", "TIFF": "tif"}
        return formats.get(str(params.get("format", "")), "png")
    if renderer in ("stitch", "ffmpeg") and step.get("kind") == "single":
        return {"ffv1": "mkv", "prores": "mov"}.get(str(params.get("encode", "h264")), "mp4")
    if renderer == "ffmpeg":
        given = params.get("input")
        return given.rpartition(".")[2] if isinstance(given, str) and "." in given else "png"
    return "" if renderer == "command" else "exr" if renderer == "mitsuba" else "png"
