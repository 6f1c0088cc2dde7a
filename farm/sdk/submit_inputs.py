"""Makes a job of what people type: a scene, a clip, a sequence, a command line, or a job file.

What belongs here: the words of ``farm submit`` and ``farm run`` turned into one ``JobSpec``.  What must
not: argument parsing (``farm.cli.inputs``) and checking the job (``farm.sdk.jobfile``).

Long because every kind of input is a few lines of its own, and what one implies for the other (a film after
its frames, a grade before it) must be read in one place.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from farm.model.errors import CallError, NotBuiltYet
from farm.model.frames import FrameRange
from farm.model.ids import parse_address
from farm.model.jobs import AfterSpec, App, JobSpec, OutputSpec, StepSpec, check_job
from farm.model.paths import (
    MOVIE_SUFFIXES,
    basename_of,
    folder_of,
    has_frame_token,
    is_absolute,
    join,
    resolve_output,
    split_pattern,
)
from farm.model.resources import Resources
from farm.renderers.base import Renderer
from farm.sdk.disk import absolute, is_folder
from farm.sdk.jobfile import load_job
from farm.sdk.params import read_assignments
from farm.sdk.sequences import check_frames, find_sequence
from farm.sdk.submit_options import WITH_JOB_FILE, SubmitOptions

#: File types that become jobs one day.
_LATER = {".mlt": "MLT projects", ".pov": "POV-Ray scenes", ".yaml": "Open Job Description templates"}
_LATER |= {".yml": _LATER[".yaml"], ".blend1": "Blender's backup files"}
#: What a renderer writes into a folder when nothing says otherwise.
_EXTENSION = {"blender": "png", "mitsuba": "exr"}
_BLENDER_FORMATS = {"PNG": "png", "EXR": "exr", "EXR_MULTILAYER": "exr", "JPEG": "jpg", "TIFF": "tif"}
_MOVIE_EXTENSION = {"h264": "mp4", "ffv1": "mkv", "prores": "mov"}
#: Name of the step that makes the movie, and of its file in a folder.
FILM = "film"


def make_job(options: SubmitOptions, folder: str | None = None) -> tuple[JobSpec, list[str]]:
    """The job that the options describe.

    Args:
        options: What was typed.
        folder: Folder that relative paths start from; default: the current one.

    Returns:
        The job, its form checked, and warnings.

    Raises:
        CallError: The options do not say what to do, or contradict each other.
        JobFileError: A job file, or the job made, has a wrong field.
    """
    folder = folder or str(Path.cwd())
    if options.file.lower().endswith(".json") and not options.renderer and options.program is None:
        return _from_job_file(options, folder)
    maker = _Maker(options, folder)
    steps = maker.steps()
    job = JobSpec(
        overcrank_job=1,
        name=options.name or maker.name,
        user=options.user,
        project=options.project,
        priority=50 if options.priority is None else options.priority,
        token=options.token,
        paused=options.paused,
        start_after=options.start_after or None,
        scout=options.scout or 0,
        max_cores=options.max_cores or 0,
        app=App("farm"),
        steps=tuple(steps),
    )
    return _checked(job), maker.warnings


def _checked(job: JobSpec) -> JobSpec:
    """The job, once its types and its fields are right."""
    try:
        job = msgspec.convert(msgspec.to_builtins(job), JobSpec)
    except msgspec.ValidationError as error:
        text, _, path = str(error).partition(" - at `$")
        raise CallError(f"{path.rstrip('`').lstrip('.') or 'job'}: {text}") from error
    check_job(job)
    return job


def _from_job_file(options: SubmitOptions, folder: str) -> tuple[JobSpec, list[str]]:
    empty = SubmitOptions()
    for field in options.__struct_fields__:
        if field not in WITH_JOB_FILE and getattr(options, field) != getattr(empty, field):
            raise CallError(
                f"--{field.replace('_', '-')} does not go with a job file",
                hint=f"write it into {options.file}",
            )
    job, warnings = load_job(absolute(options.file, folder))
    changes: dict[str, Any] = {
        field: getattr(options, field)
        for field in sorted(WITH_JOB_FILE - {"file"})
        if getattr(options, field) not in ("", None) and getattr(options, field) is not False
    }
    return _checked(msgspec.structs.replace(job, **changes)) if changes else job, warnings


class _Maker:
    """Works out the steps.

    Attributes:
        name: What the job is called when nobody says.
        warnings: What the submitter should know.
    """

    def __init__(self, options: SubmitOptions, folder: str) -> None:
        self._options = options
        self._folder = folder
        self.warnings: list[str] = []
        self.name = "job"

    def steps(self) -> list[StepSpec]:
        """The steps of the job."""
        options = self._options
        if options.program is not None and options.renderer not in ("", "command"):
            raise CallError(
                f"-- PROGRAM goes with the command renderer, not {options.renderer}",
                hint="leave --renderer out",
            )
        if options.program is not None or options.renderer == "command":
            return self._command()
        if not options.file and not options.renderer:
            raise CallError(
                "what is to be done?", hint="give a FILE, --renderer NAME, or `-- PROGRAM ARGS`; see --help"
            )
        if options.file:
            self._refuse_later(options.file)
        if options.filter or options.renderer in ("ffmpeg", "stitch") or self._is_pictures_or_clip():
            return self._pictures()
        return self._scene()

    # -- scenes ----------------------------------------------------------------------------------

    def _scene(self) -> list[StepSpec]:
        from farm.renderers.registry import get_renderer, renderer_for_file

        options = self._options
        renderer = get_renderer(options.renderer) if options.renderer else renderer_for_file(options.file)
        params = read_assignments(renderer, options.params)
        if options.file:
            if not renderer.path_params:
                raise CallError(f"{renderer.name} takes no file", hint="leave FILE out")
            main = self._main_param(renderer)
            params.setdefault(main, absolute(options.file, self._folder))
            self.name = _stem(options.file)
        else:
            self.name = renderer.name
        if not options.frames:
            raise CallError(
                f"{options.file or renderer.name}: which frames?",
                hint="say so with --frames, e.g. --frames 1-100",
            )
        extension = _EXTENSION.get(renderer.name, "")
        if renderer.name == "blender":
            extension = _BLENDER_FORMATS.get(str(params.get("format", "")), extension)
        pattern, film = self._per_frame_output("render", extension)
        step = self._step("render", renderer.name, "per_frame", params, [OutputSpec(pattern, "sequence")])
        return [step, *self._film(film, step)]

    def _main_param(self, renderer: Renderer) -> str:
        """The parameter that FILE goes to: a script when it is one, else the first path."""
        if self._options.file.lower().endswith(".py"):
            for name in renderer.path_params:
                if name.endswith("script"):
                    return name
        return renderer.path_params[0]

    # -- pictures and clips ----------------------------------------------------------------------

    def _is_pictures_or_clip(self) -> bool:
        if self._options.renderer:
            return False
        path = absolute(self._options.file, self._folder)
        return has_frame_token(path) or is_folder(path) or _takes(path, "ffmpeg")

    def _pictures(self) -> list[StepSpec]:
        options = self._options
        if not options.file:
            raise CallError("which clip or sequence?", hint="give a FILE, e.g. clip.mov or shot.####.png")
        path = absolute(options.file, self._folder)
        if options.renderer not in ("", "ffmpeg", "stitch"):
            raise CallError(f"--filter goes with ffmpeg, not {options.renderer}")
        if not has_frame_token(path) and basename_of(path).lower().endswith(_clip_suffixes()):
            if options.renderer == "stitch":
                raise CallError(
                    f"{options.file} is a clip; stitch joins pictures", hint="use --renderer ffmpeg"
                )
            return [self._clip(path)]
        pattern, frames = find_sequence(path, options.frames, options.file)
        self.name = _stem(pattern) or "sequence"
        if not options.filter:
            if options.renderer == "ffmpeg" and not (options.encode or self._wants_movie()):
                raise CallError(
                    "there is nothing to do", hint="give --filter, --encode, or -o with a movie's name"
                )
            return [self._stitch_pattern(pattern, frames)]
        if options.renderer == "stitch":
            raise CallError("stitch has no --filter", hint="leave --renderer out")
        suffix = pattern.rpartition(".")[2]
        params = {"input": pattern, "filter": options.filter} | self._assigned("ffmpeg")
        output, film = self._per_frame_output("filter", suffix)
        step = self._step(
            "filter", "ffmpeg", "per_frame", params, [OutputSpec(output, "sequence")], frames=frames
        )
        return [step, *self._film(film, step)]

    def _clip(self, path: str) -> StepSpec:
        options = self._options
        if options.frames:
            raise CallError("a clip is worked on as a whole", hint="leave --frames out, or use a sequence")
        if not options.filter and not options.encode and not options.params:
            raise CallError("there is nothing to do", hint="give --filter, --encode or both")
        self.name = _stem(path)
        params: dict[str, Any] = {"input": path}
        if options.filter:
            params["filter"] = options.filter
        if options.encode:
            params["encode"] = options.encode
        params |= self._assigned("ffmpeg")
        encode = str(params.get("encode", "h264"))
        extension = _MOVIE_EXTENSION.get(encode, path.rpartition(".")[2])
        pattern, kind = resolve_output(self._output(), "filter", extension, "single")
        return self._step("filter", "ffmpeg", "single", params, [OutputSpec(pattern, kind)])

    def _stitch_pattern(self, pattern: str, frames: str) -> StepSpec:
        params: dict[str, Any] = {"input": pattern, "frames": frames} | self._stitch_params()
        extension = _MOVIE_EXTENSION.get(str(params.get("encode", "h264")), "mp4")
        output, kind = resolve_output(self._output(), FILM, extension, "single")
        return self._step(
            FILM,
            "stitch",
            "single",
            params | self._assigned("stitch"),
            [OutputSpec(output, kind)],
            movie_frames=len(FrameRange.parse(frames)),
        )

    # -- commands --------------------------------------------------------------------------------

    def _command(self) -> list[StepSpec]:
        options = self._options
        if options.filter:
            raise CallError("--filter goes with ffmpeg, not with a command")
        params: dict[str, Any] = {}
        if options.program is not None:
            if not options.program:
                raise CallError("no program follows --", hint="e.g. -- convert in.png {output}")
            params["command"] = list(options.program)
        if options.file:
            params["input"] = absolute(options.file, self._folder)
        params |= self._assigned("command")
        if not params.get("command"):
            raise CallError("which program?", hint="write it last: -- PROGRAM ARGS")
        self.name = basename_of(str(params["command"][0])) or "command"
        texts = " ".join(str(part) for part in params["command"])
        if not options.frames:
            if "{frame" in texts.replace("{{", ""):
                raise CallError(
                    "the command has {frame} or {frames}, but which are they?", hint="give --frames"
                )
            if options.encode:
                raise CallError("--encode joins frames; the command has none", hint="give --frames")
            outputs = []
            if options.output:
                pattern, kind = resolve_output(
                    self._output(), "command", _extension_of(options.output), "single"
                )
                outputs = [OutputSpec(pattern, "single" if kind == "sequence" else kind)]
            return [self._step("command", "command", "single", params, outputs)]
        if not options.output:
            if options.encode:
                raise CallError("--encode needs the frames' files", hint="give -o with a pattern")
            return [self._step("command", "command", "per_frame", params, [])]
        pattern, film = self._per_frame_output("command", "")
        step = self._step("command", "command", "per_frame", params, [OutputSpec(pattern, "sequence")])
        return [step, *self._film(film, step)]

    # -- shared ----------------------------------------------------------------------------------

    def _output(self) -> str:
        if not self._options.output:
            raise CallError("where to?", hint="give -o: a folder, a pattern with ####, or a movie's name")
        if is_absolute(self._options.output):
            return self._options.output
        return absolute(self._options.output, self._folder)

    def _wants_movie(self) -> bool:
        return basename_of(self._options.output).lower().endswith(MOVIE_SUFFIXES)

    def _per_frame_output(self, step: str, extension: str) -> tuple[str, str]:
        """Pattern of a per-frame step, and the movie to make of it ("" for none)."""
        output = self._output()
        encode = self._options.encode
        if has_frame_token(output) or not self._wants_movie():
            pattern, _ = resolve_output(output, step, extension, "per_frame")
            if not encode:
                return pattern, ""
            return pattern, join(folder_of(pattern), f"{FILM}.{_MOVIE_EXTENSION.get(encode, 'mp4')}")
        # One movie is asked for: its frames need a place of their own, beside it.
        frames = join(folder_of(output), f"{_stem(output)}_frames")
        pattern, _ = resolve_output(frames + os.sep, step, extension or "png", "per_frame")
        self.warnings.append(f"the frames of {basename_of(output)} are kept in {frames}")
        return pattern, output

    def _film(self, movie: str, source: StepSpec) -> list[StepSpec]:
        """The step that joins the frames, if a movie is wanted."""
        if not movie:
            if self._options.rate:
                raise CallError("--rate is a movie's", hint="add --encode, or give -o a movie's name")
            return []
        params: dict[str, Any] = {"input": {"step": source.name, "output": 0}} | self._stitch_params()
        frames = source.frame_range()
        return [
            StepSpec(
                name=FILM,
                renderer="stitch",
                kind="single",
                params=params,
                outputs=(OutputSpec(movie, "movie"),),
                after=(source.name,),
                pools=self._options.pools,
                site=self._options.site,
                existing=source.existing,
                movie_frames=len(frames) if frames is not None else None,
            )
        ]

    def _stitch_params(self) -> dict[str, Any]:
        params: dict[str, Any] = {}
        if self._options.encode:
            params["encode"] = self._options.encode
        if self._options.rate:
            params["rate"] = self._options.rate
        return params

    def _assigned(self, renderer: str) -> dict[str, Any]:
        from farm.renderers.registry import get_renderer

        return read_assignments(get_renderer(renderer), self._options.params)

    def _step(
        self,
        name: str,
        renderer: str,
        kind: str,
        params: dict[str, Any],
        outputs: list[OutputSpec],
        *,
        frames: str = "",
        movie_frames: int | None = None,
    ) -> StepSpec:
        options = self._options
        if kind == "per_frame":
            frames = frames or options.frames
            check_frames(frames)
        elif options.chunk:
            raise CallError("--chunk goes with frames; this is one piece of work", hint="leave it out")
        if kind != "per_frame" and options.order:
            raise CallError("--order goes with frames; this is one piece of work", hint="leave it out")
        fields: dict[str, Any] = {
            "chunk": _chunk(options.chunk),
            "order": options.order or "forward",
            "after": _after(options),
            "existing": options.existing or "overwrite",
            "checks": options.checks,
            "pools": options.pools,
            "site": options.site,
            "version": options.version,
            "attributes": dict(_pairs(options.attributes, "--attribute")),
            "env": dict(_pairs(options.env, "--env")),
            "resources": self._resources(),
            "movie_frames": movie_frames,
        }
        if options.limits and name != FILM:
            fields["limits"] = {key: _count(key, text) for key, text in _pairs(options.limits, "--limit")}
        if options.timeout_s is not None:
            fields["timeout_s"] = options.timeout_s
        if options.attempts is not None:
            fields["attempts"] = options.attempts
        if renderer == "command":
            # A program that is named by a relative path, or reads one, means the folder it was typed in.
            fields["cwd"] = self._folder
        return StepSpec(
            name=name,
            renderer=renderer,
            kind=kind,  # type: ignore[arg-type]
            frames=frames if kind == "per_frame" else None,
            params=params,
            outputs=tuple(outputs),
            **fields,
        )

    def _resources(self) -> Resources:
        options = self._options
        return Resources(
            cores=1 if options.cores is None else options.cores,
            ram_mib=options.ram_mib or 0,
            gpus=options.gpus or 0,
            vram_mib=options.vram_mib or 0,
        )

    def _refuse_later(self, file: str) -> None:
        from farm.renderers.registry import renderers

        taken = {suffix for renderer in renderers().values() for suffix in renderer.suffixes}
        for suffix, what in _LATER.items():
            if file.lower().endswith(suffix) and suffix not in taken:
                raise NotBuiltYet(
                    f"{file}: {what} are not built yet", hint="`farm schema renderers` lists what is"
                )


def _pairs(texts: tuple[str, ...], flag: str) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise CallError(f"{flag} {text!r} is not NAME=VALUE")
        found.append((key, value))
    return found


def _count(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise CallError(f"--limit {name}={text}: {text!r} is not a number of tokens")
    return int(text)


def _after(options: SubmitOptions) -> tuple[AfterSpec, ...]:
    """What the job's first step waits for in other jobs.

    Raises:
        CallError: An address is none of a job or step, or an option says how to wait, but for nothing.
    """
    given = {
        "--frame-by-frame": options.frame_by_frame,
        "--offset": options.offset is not None,
        "--on-failure": bool(options.on_failure),
    }
    alone = next((flag for flag, is_given in given.items() if is_given and not options.after), "")
    if alone:
        raise CallError(f"{alone} goes with --after", hint="e.g. --after J12/beauty")
    if options.offset is not None and not options.frame_by_frame:
        raise CallError("--offset goes with --frame-by-frame")
    found: list[AfterSpec] = []
    for text in options.after:
        at = parse_address(text)
        if at.frames is not None or at.attempt is not None:
            raise CallError(f"--after {text}: say a job or a step", hint="e.g. --after J12/beauty")
        found.append(
            AfterSpec(
                step=at.step or "",
                job=f"J{at.job}",
                frames=options.frame_by_frame,
                offset=options.offset or 0,
                on_failure=options.on_failure or "wait",  # type: ignore[arg-type]
            )
        )
    return tuple(found)


def _chunk(text: str) -> int | str:
    if text in ("", "auto"):
        return "auto"
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise CallError(f"--chunk {text!r} is neither auto nor a number of frames")
    return int(text)


def _takes(path: str, renderer: str) -> bool:
    from farm.renderers.registry import get_renderer

    return path.lower().endswith(tuple(get_renderer(renderer).suffixes))


def _clip_suffixes() -> tuple[str, ...]:
    from farm.renderers.checks import MOVIE_SUFFIXES as CLIPS

    return CLIPS


def _stem(path: str) -> str:
    name = basename_of(path.rstrip("/\\"))
    if has_frame_token(name):
        name = split_pattern(name)[0] or name
        return name.rstrip("._- ") or name
    return name.rpartition(".")[0] or name


def _extension_of(path: str) -> str:
    return basename_of(path).rpartition(".")[2] if "." in basename_of(path) else ""
