"""What became of a job, as `farm run` and `farm demo` print it: one document, or a table for people.

What belongs here: the document of the contract, made from what the broker answers.  What must not: starting
anything, and opinions: every figure is the broker's, the movie's frame count is counted here by decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from farm.model.jobs import JobSpec, OutputSpec, StepSpec
from farm.model.money import usd_text
from farm.protocol.client import FrameRow, JobRow

if TYPE_CHECKING:
    from farm.cli.console import Console
    from farm.sdk.client import Farm

_JOB = msgspec.json.Decoder(JobSpec)
_PAGE = 1000


class Outcome(msgspec.Struct, kw_only=True):
    """Everything a result document needs.

    Attributes:
        job: The job as the broker shows it.
        spec: The job file.
        frames: All units by step name.
        step: The step the frame figures are of: the first per-frame one, else the first.
        chunks: Attempts of that step.
        movie: Path of the movie, empty if the job makes none.
        movie_frames: Its frames, counted here; None while it is not done.
        movie_trouble: Why they could not be counted.
        charges: What all attempts of the job cost, by node, in nano-USD.
    """

    job: JobRow
    spec: JobSpec
    frames: dict[str, list[FrameRow]]
    step: StepSpec
    chunks: int
    movie: str
    movie_frames: int | None
    movie_trouble: str
    charges: dict[str, int]


def collect(farm: Farm, number: int) -> Outcome:
    """Asks the broker for everything."""
    reply = farm.job(number, spec=True)
    spec = _JOB.decode(reply.spec)
    frames: dict[str, list[FrameRow]] = {step.name: [] for step in spec.steps}
    for step in spec.steps:
        offset, more = 0, True
        while more:
            page = farm.frames(f"J{number}/{step.name}", offset=offset, limit=_PAGE)
            rows = page.steps.get(step.name, ())
            frames[step.name] += rows
            offset += len(rows)
            more = page.more and bool(rows)
    main = next((step for step in spec.steps if step.kind == "per_frame"), spec.steps[0])
    movie = _movie(spec)
    count, trouble = _count(movie, frames, spec) if movie else (None, "")
    row = next(step for step in reply.job.steps if step.name == main.name)
    return Outcome(
        job=reply.job,
        spec=spec,
        frames=frames,
        step=main,
        chunks=row.attempts,
        movie=movie,
        movie_frames=count,
        movie_trouble=trouble,
        charges=_charges(farm, number),
    )


def _charges(farm: Farm, number: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in farm.attempts(f"J{number}", limit=5000).attempts:
        found[row.node] = found.get(row.node, 0) + row.charge_nano
    return found


def _movie(spec: JobSpec) -> str:
    """Path of the last movie the job makes, empty when it makes none."""
    found = ""
    for step in spec.steps:
        for output in step.outputs:
            if output.kind == "movie":
                found = output.pattern
    return found


def _count(movie: str, frames: dict[str, list[FrameRow]], spec: JobSpec) -> tuple[int | None, str]:
    """Frames of the movie by decoding it, if its step is done."""
    maker = next(step for step in spec.steps if any(output.pattern == movie for output in step.outputs))
    if any(row.state != "done" for row in frames[maker.name]):
        return None, ""
    from farm.media.movies import count_frames
    from farm.model.errors import OvercrankError

    try:
        return count_frames(movie).frames, ""
    except OvercrankError as error:
        return None, error.message


def failed_addresses(outcome: Outcome) -> list[str]:
    """Addresses of failed units."""
    found = []
    for step in outcome.spec.steps:
        for row in outcome.frames[step.name]:
            if row.state == "failed":
                base = f"J{outcome.job.job}/{step.name}"
                found.append(base if row.frame is None else f"{base}/{row.frame}")
    return found


def verified(outcome: Outcome) -> bool | None:
    """True: every expected file is there and verified; False: not; None: the job expects no files."""
    seen: bool | None = None
    for rows in outcome.frames.values():
        for row in rows:
            if row.verified is False and row.state != "skipped":
                return False
            if row.verified:
                seen = True
    return seen


def output_of(outcome: Outcome) -> str:
    """Where the pictures of the main step are, empty when it writes none."""
    outputs: tuple[OutputSpec, ...] = outcome.step.outputs
    return outputs[0].pattern if outputs else ""


def per_node(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """By node: frames done of the main step, their share and seconds; what all its attempts cost."""
    nodes: dict[str, dict[str, Any]] = {
        name: {"frames": 0, "busy_s": 0.0, "cost_nano": charge} for name, charge in outcome.charges.items()
    }
    for row in outcome.frames[outcome.step.name]:
        if row.state != "done" or not row.node:
            continue
        entry = nodes.setdefault(row.node, {"frames": 0, "busy_s": 0.0, "cost_nano": 0})
        entry["frames"] += 1
        entry["busy_s"] += row.elapsed_s or 0.0
    done = sum(entry["frames"] for entry in nodes.values())
    return {
        name: {
            "frames": entry["frames"],
            "share": round(entry["frames"] / max(1, done), 4),
            "busy_s": round(entry["busy_s"], 3),
            "spend_usd": usd_text(entry["cost_nano"]),
        }
        for name, entry in sorted(nodes.items())
    }


def document(outcome: Outcome) -> dict[str, Any]:
    """The document of ``--json``."""
    rows = outcome.frames[outcome.step.name]
    return {
        "job": f"J{outcome.job.job}",
        "state": outcome.job.state,
        "output": output_of(outcome),
        "movie": outcome.movie if outcome.movie_frames is not None else None,
        "frames_planned": len(rows),
        "frames_done": sum(row.state == "done" for row in rows),
        "movie_frames": outcome.movie_frames,
        "chunks": outcome.chunks,
        "verified": verified(outcome),
        "failed": failed_addresses(outcome),
        "renderer": outcome.step.renderer,
        "per_frame_s": {
            str(row.frame if row.frame is not None else outcome.step.name): round(row.elapsed_s, 3)
            for row in rows
            if row.state == "done" and row.elapsed_s is not None
        },
        "per_node": per_node(outcome),
        "spend_usd": usd_text(outcome.job.spend_nano),
        "reason": outcome.job.reason,
    }


def exit_code(outcome: Outcome) -> int:
    """0 when all is done and the movie, if any, can be decoded; else 1."""
    return 0 if outcome.job.state == "done" and not outcome.movie_trouble else 1


def show(outcome: Outcome, console: Console) -> None:
    """Prints the result for people: frames, nodes, money, where things are, what failed and why."""
    from farm.cli.text import duration_text, money_text

    rows = outcome.frames[outcome.step.name]
    done = [row for row in rows if row.state == "done"]
    timed = sorted(((row.elapsed_s, row) for row in done if row.elapsed_s is not None), key=_seconds)
    if timed:
        console.line()
        console.table(
            ("FRAME>", "STATE", "NODE~", "SECONDS>", "USD>", "ATTEMPTS>"),
            [
                (
                    str(row.frame if row.frame is not None else outcome.step.name),
                    row.state,
                    row.node,
                    f"{row.elapsed_s:.3f}" if row.elapsed_s is not None else "-",
                    usd_text(row.cost_nano),
                    str(row.attempts),
                )
                for row in rows
            ],
        )
    nodes = per_node(outcome)
    if nodes:
        console.line()
        console.table(
            ("NODE~", "FRAMES>", "SHARE>", "BUSY>", "USD>"),
            [
                (
                    name,
                    str(entry["frames"]),
                    f"{entry['share'] * 100:.0f} %",
                    duration_text(entry["busy_s"]),
                    entry["spend_usd"],
                )
                for name, entry in nodes.items()
            ],
        )
    console.line()
    for step in outcome.spec.steps:
        for row in outcome.frames[step.name]:
            if row.state == "failed":
                where = step.name if row.frame is None else f"{step.name}/{row.frame}"
                console.line(f"failed  J{outcome.job.job}/{where}: {row.failure}: {row.reason}")
    console.line(f"job     J{outcome.job.job} {outcome.job.state}" + _why(outcome.job))
    console.line(f"frames  {len(done)} of {len(rows)} done and verified in {outcome.chunks} chunks")
    if timed:
        mean_s = sum(seconds for seconds, _ in timed) / len(timed)
        slow = timed[-1][1].frame
        slowest = f", slowest {timed[-1][0]:.2f} s" + (f" (frame {slow})" if slow is not None else "")
        console.line(f"times   {mean_s:.2f} s a frame{slowest}")
    waste = f", of it {money_text(outcome.job.waste_nano)} wasted" if outcome.job.waste_nano else ""
    console.line(f"spent   {money_text(outcome.job.spend_nano)}{waste}")
    if output_of(outcome):
        console.line(f"output  {output_of(outcome)}")
    if outcome.movie:
        if outcome.movie_frames is not None:
            console.line(f"movie   {outcome.movie} ({outcome.movie_frames} frames)")
        else:
            console.line(f"movie   {outcome.movie}: {outcome.movie_trouble or 'not made'}")


def _seconds(timed: tuple[float, FrameRow]) -> float:
    return timed[0]


def _why(job: JobRow) -> str:
    return f": {job.reason}" if job.reason and job.state != "done" else ""
