"""Reads what Blender prints, 3.4 to 5.x, with or without our runner inside it.

What belongs here: the meaning of Blender's lines.  The runner's ``FARM`` lines are believed first; then a
``Saved:`` line no longer finishes a frame, because the runner has yet to move the file.  What must not:
looking at files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from farm.model.states import FailureClass
from farm.renderers.base import FrameFinished, FrameStarted, LogEvent, PlannedFile, Problem, Progress
from farm.renderers.checks import inside
from farm.renderers.farmlines import farm_events
from farm.renderers.verdicts import MACHINE, find_problem, pattern

#: Layout of 5.x: time, category, bar.
_PREFIX = re.compile(r"^(?:\d+:)?\d\d:\d\d\.\d+\s+\S+\s+\|\s+(?:(?:WARNING|ERROR|INFO)\s+)?")
_FRAME = re.compile(r"^Fra:(-?\d+)\b")
_SAMPLE = re.compile(r"\bSample (\d+)/(\d+)|\bRendering (\d+) / (\d+) samples")
_TILES = re.compile(r"Rendered (\d+)/(\d+) Tiles")
_SAVED = re.compile(r"^Saved: (?:'(.+)'|(.+))$")
_UNSAVED = re.compile(r"Render error \((.+?)\) cannot save: '(.+)'")
_LIBRARY = re.compile(
    r"Cannot find lib '(.+)'|^LIB: \w+: '(.+)' missing from '(.+?)'|^Info: LIB: (.+ missing from .+)"
)
_COUNT = re.compile(r"(\d+) libraries and (\d+) linked data-blocks are missing")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_MOVIE = re.compile(r"^(?:Append frame|Video append frame) -?\d+")

_C, _R, _O = FailureClass.CONFIG, FailureClass.RENDERER, FailureClass.OUTPUT
_PATTERNS = (
    *MACHINE,
    pattern(
        r"Found no Cycles device of the specified type", FailureClass.NODE, "Cycles finds no such GPU here"
    ),
    pattern(r"(\S+) is not a valid Cycles device", _C, "{0} is not a device of Cycles"),
    pattern(r"Cannot read file ['\"](.+?)['\"]: (.+)", _C, "the scene {0} cannot be read: {1}"),
    pattern(
        r"Failed to read blend file '(.+?)'(?:,|:) (.+)",
        _C,
        "{0} is damaged or too new for this Blender: {1}",
    ),
    pattern(r"engine not found '(.+)'", _C, "this Blender has no engine {0}"),
    pattern(r"Cannot render, no camera", _C, "the scene has no camera"),
    pattern(
        r"Format from '-F / --render-format' not known", _C, "the file format is unknown to this Blender"
    ),
    pattern(r"script failed, (.+), exiting", _C, "a Python script failed: {0}"),
    pattern(r"unknown argument, loading as file: (.+)", _C, "Blender does not know the option {0}"),
    pattern(r"^skipping existing frame \"(.+)\"", _O, "{0} was there before and was not rendered"),
    pattern(r"No frames rendered", _O, "no frame was rendered"),
    pattern(r"^Writing: (.+\.crash\.txt)", _R, "Blender crashed and wrote {0}", fatal=False),
    pattern(r"Sent an internal break event", _R, "Blender was interrupted", fatal=False),
    pattern(r"^Error: (?!Not freed memory)(.+)", _R, "{0}", fatal=False),
)


class BlenderLogParser:
    """Parser for one Blender process.

    Args:
        frames: Frames the process renders.
        files: Files it must write.
        scratch: Its scratch folder: trouble there is the node's own.
        missing_is_fatal: Whether a missing library fails the chunk.
        renders: How often a frame is rendered (once a view layer); 0 = once a file.
        each: Files that one of these renders writes (stereo views).
    """

    def __init__(
        self,
        frames: Sequence[int] = (),
        files: Sequence[PlannedFile] = (),
        scratch: str = "",
        missing_is_fatal: bool = True,
        renders: int = 0,
        each: int = 1,
    ) -> None:
        self._frames = set(frames)
        self._files = {file.path: file for file in files}
        self._renders = renders or max(1, len({file.output for file in files}))
        self._each = max(1, each)
        self._left: dict[int | None, int] = {}
        for file in files:
            self._left[file.frame] = self._left.get(file.frame, 0) + 1
        self._scratch = scratch
        self._missing_is_fatal = missing_is_fatal
        self._runner = False
        self._frame: int | None = None
        self._saved_in_frame = 0
        self._best = 0.0
        self._rendered = 0
        self._problems = 0
        self._traceback: bool | None = None

    def feed(self, line: str) -> Iterable[LogEvent]:
        """See LogParser.feed."""
        told = farm_events(line)
        events = self._from_runner(told) if told is not None else self._from_blender(line)
        for event in events:
            if isinstance(event, Problem) and not event.warning:
                self._problems += 1
            yield event

    def _from_runner(self, told: list[LogEvent]) -> Iterator[LogEvent]:
        self._runner = True
        for event in told:
            if isinstance(event, FrameStarted):
                self._enter(event.frame)
            elif isinstance(event, FrameFinished):
                self._rendered += 1
            elif isinstance(event, Progress):
                if event.frame == self._frame and event.fraction <= self._best:
                    continue
                self._best = event.fraction
            yield event

    def _from_blender(self, line: str) -> Iterator[LogEvent]:
        text = _PREFIX.sub("", line.rstrip())
        if self._traceback is not None:
            yield from self._in_traceback(text)
            return
        if _TRACEBACK.search(text):
            # "Error: Python:" is a script of ours; a bare traceback is one of the scene's (driver, handler).
            self._traceback = "Error: Python:" in text
            return
        match = _FRAME.match(text)
        if match:
            yield from self._status(int(match.group(1)), text)
            return
        match = _SAVED.match(text)
        if match:
            yield from self._saved(match.group(1) or match.group(2))
            return
        yield from self._trouble(text)

    def _in_traceback(self, text: str) -> Iterator[LogEvent]:
        if text.startswith(" ") or not text.strip() or _TRACEBACK.search(text):
            return
        ours, self._traceback = self._traceback, None
        if ours:
            yield Problem(_C, f"a Python script failed: {text}", fatal=True, frame=self._frame)
        else:
            yield Problem(_R, f"Python in the scene failed: {text}", frame=self._frame, warning=True)

    def _enter(self, frame: int) -> None:
        self._frame, self._saved_in_frame, self._best = frame, 0, 0.0

    def _status(self, frame: int, text: str) -> Iterator[LogEvent]:
        if frame != self._frame:
            self._enter(frame)
            if not self._runner:
                yield FrameStarted(frame)
        fraction = _fraction(text)
        if fraction is None:
            return
        whole = min(1.0, (self._saved_in_frame // self._each + fraction) / self._renders)
        if whole > self._best:
            self._best = whole
            yield Progress(frame, whole)

    def _saved(self, path: str) -> Iterator[LogEvent]:
        if inside(path, self._scratch):
            self._saved_in_frame += 1
            return
        file = self._files.pop(path, None)
        if file is None:
            text = f"{path} was written too; it is not among the step's outputs and is not verified"
            self._rendered += 0 if self._runner else 1
            yield Problem(_R, text, frame=self._frame, warning=True)
            return
        self._saved_in_frame += 1
        self._rendered += 1
        self._left[file.frame] -= 1
        if file.frame is not None and not self._left[file.frame] and not self._runner:
            yield FrameFinished(file.frame)

    def _trouble(self, text: str) -> Iterator[LogEvent]:
        match = _UNSAVED.search(text)
        if match:
            kind = FailureClass.NODE if inside(match.group(2), self._scratch) else FailureClass.PATH
            words = f"cannot write {match.group(2)}: {match.group(1)}"
            yield Problem(kind, words, fatal=True, frame=self._frame)
            return
        match = _COUNT.search(text)
        if match:
            if match.groups() != ("0", "0"):
                words = (
                    f"{match.group(1)} linked libraries and {match.group(2)} linked data-blocks are missing"
                )
                yield self._missing(words)
            return
        match = _LIBRARY.search(text)
        if match:
            library = match.group(1)
            yield self._missing(
                f"the linked library {library} is missing"
                if library
                else match.group(4) or f"{match.group(2)} is missing from {match.group(3)}"
            )
            return
        if _MOVIE.match(text):
            self._rendered += 1
            yield Problem(_C, "the scene writes a movie instead of pictures", fatal=True)
            return
        if text == "Blender quit":
            yield from self._quit()
            return
        problem = find_problem(text, _PATTERNS, frame=self._frame)
        if problem is not None:
            yield problem

    def _missing(self, words: str) -> Problem:
        if self._missing_is_fatal:
            return Problem(FailureClass.PATH, words, fatal=True)
        return Problem(FailureClass.PATH, words, warning=True)

    def _quit(self) -> Iterator[LogEvent]:
        """Blender's last line; our runner never lets it get there."""
        if self._frames and not self._rendered and not self._problems:
            yield Problem(_O, "Blender ended without rendering a frame", fatal=True)


def _fraction(text: str) -> float | None:
    match = _SAMPLE.search(text)
    if match is None:
        return None
    done, total = (int(value) for value in match.groups() if value is not None)
    if not total:
        return None
    tiles = _TILES.search(text)
    if tiles and int(tiles.group(2)):
        return min(1.0, (int(tiles.group(1)) + done / total) / int(tiles.group(2)))
    return min(1.0, done / total)
