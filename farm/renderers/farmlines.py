"""The lines by which our own helper programs talk to the agent: ``FARM {json}``.

What belongs here: reading that one notation, in both of its forms, and the words of Open Job
Description that the ``command`` renderer takes.  What must not: anything that knows an application.

Render runners print ``FARM {"event": "start|progress|finish|problem|warning", "frame": n,
"fraction": x, "failure": "config", "text": "...", "fatal": true}``.  Tasks of ``farm.media`` print the
short form ``{"frame": k, "of": n}``, ``{"problem": "class", "text": "..."}`` or ``{"warning": "..."}``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from farm.model.states import FailureClass
from farm.renderers.base import FrameFinished, FrameStarted, LogEvent, Problem, Progress

_MARK = "FARM {"
_OPENJD = re.compile(r"^openjd_(progress|status|fail)\s*:\s*(.*)$")


def farm_events(line: str) -> list[LogEvent] | None:
    """Events of a ``FARM {json}`` line, None when the line is none.

    The mark may stand behind other text, because a renderer that draws a progress bar may not have
    ended its line.  A line that only looks like one (no JSON object up to its end) is free text.
    """
    at = line.find(_MARK)
    if at < 0:
        return None
    try:
        data = json.loads(line[at + len(_MARK) - 1 :])
    except ValueError:
        return None
    return _events(data) if isinstance(data, dict) else None


def openjd_events(line: str, frame: int | None) -> list[LogEvent] | None:
    """Events of an ``openjd_progress``/``openjd_status``/``openjd_fail`` line, None when it is none.

    Args:
        line: The line.
        frame: The frame the process renders, when it is one.
    """
    match = _OPENJD.match(line)
    if match is None:
        return None
    word, text = match.group(1), match.group(2).strip()
    if word == "progress":
        try:
            fraction = float(text) / 100.0
        except ValueError:
            return []
        return [Progress(frame, _clamp(fraction))] if math.isfinite(fraction) else []
    if word == "fail":
        return [Problem(FailureClass.RENDERER, text or "the command said it failed", fatal=True, frame=frame)]
    return []


def _events(data: dict[str, Any]) -> list[LogEvent]:
    if "event" in data:
        make = _EVENTS.get(str(data["event"]))
        return make(data) if make else []
    if "problem" in data:
        return [_problem(data["problem"], data.get("text"), True, _frame(data))]
    if "warning" in data:
        return [_warning(data["warning"], _frame(data))]
    done, total = _number(data.get("frame")), _number(data.get("of"))
    if done is not None and total:
        return [Progress(None, _clamp(done / total))]
    return []


def _start(data: dict[str, Any]) -> list[LogEvent]:
    frame = _frame(data)
    return [] if frame is None else [FrameStarted(frame)]


def _progress(data: dict[str, Any]) -> list[LogEvent]:
    fraction = _number(data.get("fraction"))
    return [] if fraction is None else [Progress(_frame(data), _clamp(fraction))]


def _finish(data: dict[str, Any]) -> list[LogEvent]:
    frame = _frame(data)
    return [] if frame is None else [FrameFinished(frame)]


def _told_problem(data: dict[str, Any]) -> list[LogEvent]:
    return [_problem(data.get("failure"), data.get("text"), data.get("fatal") is not False, _frame(data))]


def _told_warning(data: dict[str, Any]) -> list[LogEvent]:
    return [_warning(data.get("text"), _frame(data))]


_EVENTS: dict[str, Callable[[dict[str, Any]], list[LogEvent]]] = {
    "start": _start,
    "progress": _progress,
    "finish": _finish,
    "problem": _told_problem,
    "warning": _told_warning,
}


def _problem(failure: object, text: object, fatal: bool, frame: int | None) -> Problem:
    try:
        kind = FailureClass(str(failure))
    except ValueError:
        kind = FailureClass.RENDERER
    return Problem(kind, str(text or "the renderer reported a problem"), fatal=fatal, frame=frame)


def _warning(text: object, frame: int | None) -> Problem:
    return Problem(FailureClass.RENDERER, str(text or ""), frame=frame, warning=True)


def _frame(data: dict[str, Any]) -> int | None:
    value = data.get("frame")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _clamp(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))
