"""The verbs about files on this machine: probe, verify, compare, stitch.  No farm is needed for them.

What belongs here: arguments and words.  The facts are ``farm.media``'s, imported only when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from farm.cli.command import Command
from farm.cli.text import duration_text, plural, size_text
from farm.model.errors import CallError, OutputError

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console


def _setup_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="pictures or movies")


def _probe(arguments: argparse.Namespace, console: Console) -> int:
    import msgspec

    from farm.media.probe import probe

    found: list[Any] = []
    code = 0
    for path in arguments.files:
        try:
            facts = probe(path)
        except OutputError as error:
            code = 1
            found.append({"path": path, "error": error.message})
            if not console.json:
                console.line(f"{path}: {error.message.removeprefix(f'{path}: ')}")
            continue
        found.append(msgspec.to_builtins(facts))
        if facts.problem:
            code = 1
        if not console.json:
            _show_facts(console, found[-1])
    if console.json:
        console.document({"files": found})
    return code


def _show_facts(console: Console, facts: dict[str, Any]) -> None:
    parts = [facts["kind"], size_text(facts["size"])]
    if facts.get("width"):
        parts.append(f"{facts['width']}x{facts['height']}")
    if facts.get("channels"):
        parts.append("channels " + ",".join(facts["channels"]))
        parts.append("samples " + "/".join(dict.fromkeys(facts["formats"])))
    if facts.get("codec"):
        parts.append(f"{facts['codec']} {facts.get('pix_fmt', '')}".strip())
        parts.append(plural(facts.get("frames") or 0, "frame"))
        parts.append(f"{facts.get('rate') or '?'} a second")
        parts.append(duration_text(facts.get("duration_s")))
    if facts.get("audio"):
        parts.append(plural(len(facts["audio"]), "sound track"))
    if facts.get("problem"):
        parts.append("PROBLEM: " + facts["problem"])
    console.line(f"{facts['path']}: " + ", ".join(parts))


def _setup_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="files, or a pattern such as shot.####.png")
    parser.add_argument(
        "--frames", default="", metavar="RANGE", help="which frames of the pattern there must be"
    )
    parser.add_argument("--count", type=int, metavar="N", help="frames a movie must have")
    parser.add_argument("--check", action="append", default=[], help="picture check: black, nan, neighbour")


def _verify(arguments: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    from farm.media.verify import verify_file
    from farm.model.outputs import PictureSpec

    results: list[dict[str, Any]] = []
    bad = 0
    expected: PictureSpec | None = None
    before: Path | None = None
    paths = list(_verify_paths(arguments))
    several = arguments.frames != "" or any("#" in path or "%" in path for path in arguments.files)
    for path in paths:
        try:
            facts = verify_file(
                path,
                expected=expected if several else None,
                checks=tuple(arguments.check),
                neighbour=before,
                frames=arguments.count,
            )
        except OutputError as error:
            bad += 1
            results.append({"path": path, "ok": False, "reason": error.message})
            if not console.json:
                console.line(f"BAD  {path}: {error.message.removeprefix(f'{path}: ')}")
            continue
        expected = expected or facts.spec
        before = Path(path)
        results.append(
            {
                "path": path,
                "ok": True,
                "size": facts.size,
                "sha256": facts.sha256,
                "frames": facts.frames,
                "warnings": list(facts.warnings),
            }
        )
        if not console.json:
            told = "".join(f" ({warning})" for warning in facts.warnings)
            console.line(f"good {path}: {size_text(facts.size)}{told}")
    if console.json:
        console.document({"files": results, "bad": bad})
    else:
        console.line(f"{plural(len(results), 'file')}, {bad} bad")
    return 1 if bad else 0


def _verify_paths(arguments: argparse.Namespace) -> list[str]:
    from farm.model.frames import FrameRange
    from farm.model.paths import expand, has_frame_token
    from farm.sdk.disk import frames_there

    wanted = FrameRange.parse(arguments.frames) if arguments.frames else None
    paths: list[str] = []
    for given in arguments.files:
        if not has_frame_token(given):
            paths.append(given)
            continue
        frames = wanted if wanted is not None else frames_there(given)
        found = [expand(given, frame) for frame in frames]
        if not found:
            raise CallError(f"there is no frame of {given}")
        paths += found
    return paths


def _setup_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a picture or movie")
    parser.add_argument("b", metavar="B", help="another of the same kind")
    parser.add_argument(
        "--max-abs",
        type=float,
        default=0.0,
        metavar="X",
        help="largest difference of a sample that is still equal",
    )


def _compare(arguments: argparse.Namespace, console: Console) -> int:
    import msgspec

    from farm.media.compare import compare

    facts = compare(arguments.a, arguments.b)
    equal = facts.identical or (
        not facts.difference and facts.max_abs is not None and facts.max_abs <= arguments.max_abs
    )
    if console.json:
        console.document(msgspec.to_builtins(facts) | {"equal": equal})
    elif facts.identical:
        console.line("identical")
    elif facts.difference and facts.max_abs is None:
        console.line(f"different: {facts.difference}")
    else:
        figures = []
        if facts.max_abs is not None:
            figures.append(f"largest {facts.max_abs:.6g}")
        if facts.mean_abs is not None:
            figures.append(f"mean {facts.mean_abs:.6g}")
        if facts.psnr_db is not None:
            figures.append(f"PSNR {facts.psnr_db:.2f} dB")
        if facts.differing is not None:
            figures.append(f"{facts.differing:.2%} of the samples")
        if facts.worst is not None:
            figures.append(f"worst frame {facts.worst}")
        word = "equal within the limit" if equal else "different"
        console.line(f"{word}: " + ", ".join(([facts.difference] if facts.difference else []) + figures))
    return 0 if equal else 1


def _setup_stitch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", help="the frames, e.g. shot.####.png, or their folder")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the movie to make")
    parser.add_argument(
        "--frames", default="", metavar="RANGE", help="which frames (default: all that are there)"
    )
    parser.add_argument(
        "--rate", default="24/1", help="frames a second, e.g. 24/1 or 24000/1001 (default 24/1)"
    )
    parser.add_argument("--encode", default="h264", help="h264 or ffv1 (default h264)")
    parser.add_argument("--crf", type=int, default=18, help="quality of h264, 0 best, 51 worst (default 18)")
    parser.add_argument("--preset", default="medium", help="effort of h264 (default medium)")
    parser.add_argument("--audio", metavar="FILE", help="sound to lay under it")
    parser.add_argument("--colour", default="srgb", help="meaning of the samples: srgb, bt709 or display")


def _stitch(arguments: argparse.Namespace, console: Console) -> int:
    from pathlib import Path

    import msgspec

    from farm.media.ffmpeg import find_ffmpeg
    from farm.media.stitch import stitch
    from farm.media.stitch_plan import StitchPlan
    from farm.model.frames import FrameRange
    from farm.model.paths import expand
    from farm.sdk.disk import absolute
    from farm.sdk.sequences import find_sequence

    folder = str(Path.cwd())
    pattern, text = find_sequence(absolute(arguments.pattern, folder), arguments.frames, arguments.pattern)
    frames = tuple(FrameRange.parse(text))
    plan = StitchPlan(
        frames=tuple(expand(pattern, frame) for frame in frames),
        numbers=frames,
        output=absolute(arguments.output, folder),
        rate=arguments.rate,
        encode=arguments.encode,
        audio=absolute(arguments.audio, folder) if arguments.audio else None,
        crf=arguments.crf,
        preset=arguments.preset,
        colour=arguments.colour,
    )
    facts = stitch(plan, ffmpeg=find_ffmpeg())
    if console.json:
        console.document(msgspec.to_builtins(facts))
    else:
        for warning in facts.warnings:
            console.note(f"warning: {warning}")
        console.line(f"{facts.path}: {plural(facts.frames or 0, 'frame')}, {size_text(facts.size)}, verified")
    return 0


COMMANDS = {
    "probe": Command(_setup_probe, _probe, ("farm probe film.mp4", "farm probe shot.0001.exr --json")),
    "verify": Command(
        _setup_verify,
        _verify,
        ("farm verify film.mp4 --count 240", "farm verify 'shot.####.png' --frames 1-100 --check black"),
    ),
    "compare": Command(
        _setup_compare, _compare, ("farm compare a.exr b.exr", "farm compare old.mp4 new.mp4 --json")
    ),
    "stitch": Command(_setup_stitch, _stitch, ("farm stitch 'shot.####.png' -o film.mp4 --rate 24/1",)),
}
