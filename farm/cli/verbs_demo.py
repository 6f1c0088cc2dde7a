"""The verb that shows the whole farm in a minute: a scene, two agents, a graded film with sound.

What belongs here: the demo's job.  What must not: anything a user's job could not do; the demo goes the
way of every job.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from farm.cli.command import Command
from farm.cli.verbs_run import add_farm_arguments, private_farm, render
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from farm.cli.console import Console
    from farm.model.jobs import JobSpec

_FRAMES = 36
_RATE = 24
#: What the demo counts this machine at, USD per hour.
_RATE_USD_H = "0.50"
#: Grade: a little more contrast and colour, a vignette, and the frame's number in the picture.
_FILTER = (
    "eq=contrast=1.08:saturation=1.15,vignette=PI/5,"
    "drawtext=fontfile={font}:text={frame:04}:x=w-tw-10:y=h-th-8:fontsize=18:fontcolor=white@0.85"
)


def _setup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", default="overcrank-demo", metavar="FOLDER", help="where pictures and film go"
    )
    parser.add_argument(
        "--frames", type=int, default=_FRAMES, metavar="N", help=f"frames (default {_FRAMES})"
    )
    parser.add_argument("--renderer", choices=("blender", "mitsuba"), help="default: Blender if it is here")
    add_farm_arguments(parser, agents=2)


def find_renderer(asked: str | None) -> str:
    """Blender where it is installed (or the bpy wheel), else Mitsuba.

    Raises:
        CallError: None of them is here; says how to get one.
    """
    import importlib.util
    import shutil

    def there(name: str) -> bool:
        if name == "blender":
            return shutil.which("blender") is not None or importlib.util.find_spec("bpy") is not None
        return importlib.util.find_spec("mitsuba") is not None

    for name in (asked,) if asked else ("blender", "mitsuba"):
        if there(name):
            return name
    hint = "pip install 'overcrank[demo]' brings Mitsuba; or install Blender"
    raise CallError(f"{asked or 'neither Blender nor Mitsuba'} is not installed here", hint=hint)


def make_job(folder: Path, renderer: str, frames: int) -> JobSpec:
    """The demo's job: render, grade, stitch with sound."""
    from farm.cli import demo
    from farm.model.jobs import App, JobSpec, OutputSpec, StepSpec
    from farm.model.resources import Resources

    scripts = str(demo.__path__[0])
    pictures, graded = str(folder / "beauty.####.png"), str(folder / "graded.####.png")
    params: dict[str, object] = {"scene_script": f"{scripts}/{renderer}_scene.py"}
    if renderer == "blender":
        params |= {"engine": "CYCLES", "device": "cpu", "parameters": {"frames": frames}}
    else:
        params |= {"spp": 16}
    span = f"1-{frames}"
    return JobSpec(
        overcrank_job=1,
        name="demo",
        project="demo",
        app=App("farm"),
        steps=(
            StepSpec(
                name="beauty",
                renderer=renderer,
                frames=span,
                chunk=4,
                params=params,
                outputs=(OutputSpec(pictures, "sequence"),),
                resources=Resources(cores=1),
            ),
            StepSpec(
                name="grade",
                renderer="ffmpeg",
                frames=span,
                chunk=12,
                params={"input": {"step": "beauty", "output": 0}, "filter": _FILTER},
                outputs=(OutputSpec(graded, "sequence"),),
                after=("beauty",),
            ),
            StepSpec(
                name="film",
                kind="single",
                renderer="stitch",
                params={
                    "input": {"step": "grade", "output": 0},
                    "rate": f"{_RATE}/1",
                    "encode": "h264",
                    "audio": str(folder / "soundtrack.wav"),
                },
                outputs=(OutputSpec(str(folder / "film.mp4"), "movie"),),
                movie_frames=frames,
                after=("grade",),
            ),
        ),
    )


def _demo(arguments: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    from farm.cli.demo.soundtrack import write_soundtrack

    if arguments.frames < 1:
        raise CallError(f"--frames must be at least 1, not {arguments.frames}")
    renderer = find_renderer(arguments.renderer)
    folder = Path(arguments.output).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_soundtrack(folder / "soundtrack.wav", arguments.frames / _RATE)
    except OSError as error:
        raise CallError(f"{folder} cannot be written: {error.strerror}") from error
    job = make_job(folder, renderer, arguments.frames)
    if not console.json:
        console.line(
            f"A private farm on this machine: one broker, {arguments.agents} agents, {_RATE_USD_H} USD/h."
        )
        console.line(
            f"{renderer} renders {arguments.frames} frames, ffmpeg grades them, a film with sound comes out."
        )
        console.flush()
    sys.stdout.flush()
    with private_farm(arguments, _RATE_USD_H) as private:
        return render(private, job, console)


COMMANDS = {
    "demo": Command(
        _setup,
        _demo,
        (
            "farm demo                     # about a minute on two cores",
            "farm demo --json",
            "farm demo --damage-frame 7    # see a broken frame found, retried and refused",
        ),
    )
}
