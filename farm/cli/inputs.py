"""The arguments of `farm submit`, shared with `farm run`: what is to be done, and where to.

What belongs here: arguments to ``farm.sdk.submit_inputs.SubmitOptions`` and the job made, checked on this
machine.  What must not: sending it anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse

    from farm.model.jobs import JobSpec
    from farm.sdk.submit_options import SubmitOptions

#: How a job is made, for the end of ``--help``.
EXAMPLES = (
    "scene.blend --frames 1-100 -o /proj/out",
    "scene.blend --frames 1-48 -o film.mp4",
    "'shot.####.png' --filter 'hue=s=0' -o /proj/grey --encode h264",
    "clip.mov --filter 'scale=960:-2' -o small.mp4",
    "--renderer command --frames 1-10 -o 'out/f.####.txt' -- python3 make.py {frame} {output}",
    "job.json",
)


def add_job_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that describe a job."""
    add = parser.add_argument
    add(
        "file",
        metavar="FILE",
        nargs="?",
        default="",
        help="scene, clip, sequence (shot.####.png) or job file",
    )
    what = parser.add_argument_group("what")
    add = what.add_argument
    add(
        "--renderer",
        default="",
        metavar="NAME",
        help="renderer (default: by FILE; see `farm schema renderers`)",
    )
    add("--frames", metavar="RANGE", help="frames, e.g. 1-100, 1-100x5 or 1-10,20,30-40")
    add("--chunk", default="", metavar="N", help="frames in a lease (default: auto)")
    add(
        "--order",
        default="",
        metavar="PRESET",
        help="order of the frames: forward, reverse, first-last-middle, coarse, coarse:N, listed",
    )
    add("--filter", default="", metavar="CHAIN", help="ffmpeg filter chain for a clip or a sequence")
    add("--encode", default="", metavar="CODEC", help="make a movie: h264, ffv1 (lossless)")
    add("--rate", default="", metavar="N/D", help="frames a second of the movie, e.g. 24/1 or 24000/1001")
    add("--param", action="append", default=[], metavar="K=V", help="parameter of the renderer (repeatable)")
    add(
        "-o",
        "--output",
        default="",
        metavar="OUTPUT",
        help="a folder, a pattern with ####, or a movie's name",
    )
    add(
        "--existing", choices=("overwrite", "skip", "refuse"), default="", help="files that are there already"
    )
    add("--check", action="append", default=[], metavar="NAME", help="picture check: black, nan, neighbour")
    when = parser.add_argument_group("waits for")
    add = when.add_argument
    add(
        "--after",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="wait for a job (J12) or a step of one (J12/beauty) (repeatable)",
    )
    add("--frame-by-frame", action="store_true", help="each frame waits for that frame there only")
    add("--offset", type=int, metavar="N", help="with --frame-by-frame: frame f waits for frame f + N")
    add(
        "--on-failure",
        choices=("wait", "go", "skip", "cancel"),
        default="",
        help="what a failure there means for what waits (default: wait)",
    )
    who = parser.add_argument_group("whose")
    add = who.add_argument
    add("--name", default="", help="name of the job (default: of the file)")
    add("--user", default="", help="whose job (default: the key's user)")
    add("--project", default="", help="project it is accounted to")
    add("--priority", type=int, metavar="N", help="0-100, 100 first (default 50)")
    where = parser.add_argument_group("needs")
    add = where.add_argument
    add("--cores", type=int, metavar="N", help="cores of a chunk (default 1)")
    add("--ram-mib", metavar="SIZE", default="", help="memory of a chunk in MiB, or with a unit: 8GiB")
    add("--gpus", type=int, metavar="N", help="GPUs of a chunk")
    add("--vram-mib", metavar="SIZE", default="", help="memory each GPU must have")
    add("--pool", action="append", default=[], metavar="NAME", help="only nodes of this pool (repeatable)")
    add("--site", default="", metavar="NAME", help="only nodes at this site")
    add("--attribute", action="append", default=[], metavar="K=V", help="only nodes that have this")
    add("--app-version", default="", metavar="SPEC", help="version of the application, e.g. '>=4.2,<5'")
    add("--env", action="append", default=[], metavar="K=V", help="environment of the processes (repeatable)")
    add("--timeout-s", type=float, metavar="S", help="longest time of a chunk in seconds")
    add("--attempts", type=int, metavar="N", help="failures a frame may have")


def submit_options(arguments: argparse.Namespace) -> SubmitOptions:
    """The options that were typed, with those of the configuration where none was.

    Raises:
        CallError: A size is none, or the configuration is wrong.
    """
    from farm.config.load import load_client_options
    from farm.config.places import farm_name
    from farm.sdk.submit_options import SubmitOptions

    configured = load_client_options(farm_name(arguments.farm))
    return SubmitOptions(
        file=arguments.file,
        renderer=arguments.renderer,
        frames=_frames(arguments.frames),
        chunk=arguments.chunk,
        order=arguments.order,
        after=tuple(arguments.after),
        frame_by_frame=arguments.frame_by_frame,
        offset=arguments.offset,
        on_failure=arguments.on_failure,
        filter=arguments.filter,
        encode=arguments.encode,
        rate=arguments.rate,
        params=tuple(arguments.param),
        output=arguments.output,
        program=None if arguments.program is None else tuple(arguments.program),
        name=arguments.name,
        user=arguments.user or configured.user,
        project=arguments.project or configured.project,
        priority=arguments.priority,
        paused=getattr(arguments, "paused", False),
        start_after=getattr(arguments, "start_after", ""),
        scout=getattr(arguments, "scout", None),
        max_cores=getattr(arguments, "max_cores", None),
        limits=tuple(getattr(arguments, "limit", ())),
        token=getattr(arguments, "token", ""),
        existing=arguments.existing,
        checks=tuple(arguments.check),
        cores=arguments.cores,
        ram_mib=_mib(arguments.ram_mib, "--ram-mib"),
        gpus=arguments.gpus,
        vram_mib=_mib(arguments.vram_mib, "--vram-mib"),
        pools=tuple(arguments.pool),
        site=arguments.site,
        version=arguments.app_version,
        attributes=tuple(arguments.attribute),
        env=tuple(arguments.env),
        timeout_s=arguments.timeout_s,
        attempts=arguments.attempts,
    )


def make_checked_job(arguments: argparse.Namespace) -> tuple[JobSpec, list[str]]:
    """The job the arguments describe, checked as far as this machine can see, and warnings.

    Raises:
        CallError: What is wrong, by the name of its argument or field.
    """
    from farm.config.load import load_client_options
    from farm.config.places import farm_name
    from farm.config.rules import path_mapper
    from farm.sdk.jobfile import check_job_here
    from farm.sdk.submit_inputs import make_job

    job, warnings = make_job(submit_options(arguments))
    mapper = path_mapper(load_client_options(farm_name(arguments.farm)).path_rules)
    return job, warnings + check_job_here(job, mapper)


def _frames(text: str | None) -> str:
    """What was typed; an empty range is refused, since a script with an empty variable means none."""
    if text is not None and not text.strip():
        raise CallError("--frames is empty", hint="leave it out, or name frames, e.g. --frames 1-100")
    return text or ""


def _mib(text: str, flag: str) -> int | None:
    if not text:
        return None
    from farm.config.load import parse_size

    try:
        return parse_size(text, unit_bytes=1 << 20)
    except ValueError as error:
        raise CallError(f"{flag}: {error}", hint="write a number of MiB, or 8GiB") from error
