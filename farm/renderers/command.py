"""Any program as a renderer: an argument list with tokens, never a shell string.

What belongs here: the tokens and how many processes they ask for.  What must not: quoting, globbing or
anything else a shell does; an argument with a blank, a ``%`` or a ``#`` arrives as it is.

Tokens, anywhere in an argument: ``{frame}`` (``{frame:04}`` with zeros) asks for a process per frame,
``{frames}`` (compact range text) for one per chunk; ``{output}`` is the first output's file, ``{output:2}``
the third's; ``{input}`` the input's file; ``{scratch}`` a private folder, ``{cores}`` the leased cores;
``{{`` and ``}}`` are braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from farm.model.errors import JobFileError
from farm.model.frames import FrameRange
from farm.model.jobs import StepSpec
from farm.model.states import FailureClass
from farm.renderers.base import ChunkContext, Invocation, LogEvent, LogParser, PlannedInput, Problem, Verdict
from farm.renderers.checks import check_input
from farm.renderers.farmlines import farm_events, openjd_events
from farm.renderers.verdicts import MACHINE, codes_of, find_problem, judge_process

_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_TOKENS = "{frame}, {frame:04}, {frames}, {output}, {output:1}, {input}, {scratch}, {cores}, {{, }}"


class CommandParams(Struct, frozen=True, kw_only=True):
    """Parameters of the ``command`` renderer."""

    command: Annotated[
        tuple[str, ...], Meta(description="Program and arguments, a list; tokens in braces are filled in")
    ]
    input: Annotated[str | dict[str, Any] | None, Meta(description="What {input} stands for")] = None


class Token(Struct, frozen=True):
    """One token of an argument: its word and the number after the colon."""

    word: str
    number: int | None = None
    width: int = 0


Piece = str | Token


def parse_argument(text: str, where: str) -> tuple[Piece, ...]:
    """Cuts an argument into literal text and tokens.

    Raises:
        JobFileError: An unknown token or a lone brace; names it.
    """
    pieces: list[Piece] = []
    literal, at = "", 0
    for match in _PIECES.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        found = match.group()
        if found in ("{{", "}}"):
            literal += found[0]
            continue
        if match.group(1) is None:
            raise JobFileError(f"a lone {found} in {text!r}", where, hint=f"write {found * 2} for a brace")
        if literal:
            pieces.append(literal)
        pieces.append(_token(match.group(1), where))
        literal = ""
    literal += text[at:]
    if literal or not pieces:
        pieces.append(literal)
    return tuple(pieces)


def _token(body: str, where: str) -> Token:
    word, colon, number = body.partition(":")
    if word in ("frames", "input", "scratch", "cores") and not colon:
        return Token(word)
    if word == "frame" and (not colon or re.fullmatch(r"0?[1-9]\d?", number)):
        return Token(word, width=int(number or 0))
    if word == "output" and (not colon or re.fullmatch(r"\d{1,4}", number)):
        return Token(word, number=int(number or 0))
    raise JobFileError(f"unknown token {{{body}}}", where, hint=f"known are {_TOKENS}")


class CommandRenderer:
    """The ``command`` renderer."""

    name: ClassVar[str] = "command"
    summary: ClassVar[str] = "Runs any program, once per frame, once per chunk or once"
    params_type: ClassVar[type[Struct]] = CommandParams
    app: ClassVar[str] = ""
    kinds: ClassVar[frozenset[str]] = frozenset({"per_frame", "single"})
    path_params: ClassVar[tuple[str, ...]] = ()
    input_params: ClassVar[tuple[str, ...]] = ("input",)
    suffixes: ClassVar[tuple[str, ...]] = ()
    takes_lists: ClassVar[bool] = True
    whole_slice: ClassVar[bool] = False

    def check(self, step: StepSpec, params: Any) -> list[str]:
        """See Renderer.check."""
        asked: CommandParams = params
        arguments = _arguments(asked)
        tokens = [piece for argument in arguments for piece in argument if isinstance(piece, Token)]
        words = {token.word for token in tokens}
        check_input(asked.input, "params.input", required="input" in words)
        for token in tokens:
            if token.word == "output" and (token.number or 0) >= len(step.outputs):
                count = len(step.outputs)
                raise JobFileError(
                    f"{{output:{token.number}}} but the step has {count} output{'s' if count != 1 else ''}",
                    "params.command",
                    hint="outputs are counted from 0",
                )
        if step.kind == "single":
            if words & {"frame", "frames"}:
                raise JobFileError("a single step has no frames to put into the command", "params.command")
            return []
        if {"frame", "frames"} <= words:
            raise JobFileError(
                "{frame} and {frames} in one command",
                "params.command",
                hint="a process per frame, or one per chunk",
            )
        if "frames" in words and "input" in words and not _alone(arguments, "input"):
            raise JobFileError(
                "with {frames}, {input} is a list of files",
                "params.command",
                hint="make it an argument of its own",
            )
        if not words & {"frame", "frames", "output", "input"}:
            return [
                "the command is the same for every frame: it has no {frame}, {frames}, {output} or {input}"
            ]
        return []

    def invocations(self, context: ChunkContext) -> Sequence[Invocation]:
        """See Renderer.invocations."""
        arguments = _arguments(context.params)
        words = {piece.word for argument in arguments for piece in argument if isinstance(piece, Token)}
        if not context.frames or "frames" in words:
            argv = _fill(arguments, context, None)
            return (Invocation(argv=argv, frames=context.frames, codes=codes_of(argv[0])),)
        filled = [(_fill(arguments, context, frame), frame) for frame in context.frames]
        return [Invocation(argv=argv, frames=(frame,), codes=codes_of(argv[0])) for argv, frame in filled]

    def parser(self, context: ChunkContext, invocation: Invocation) -> LogParser:
        """See Renderer.parser."""
        return CommandLogParser(invocation.frames[0] if len(invocation.frames) == 1 else None)

    def judge(self, exit_code: int, problems: Sequence[Problem]) -> Verdict:
        """See Renderer.judge."""
        return judge_command("the command", exit_code, problems)


def judge_command(words: str, exit_code: int, problems: Sequence[Problem]) -> Verdict:
    """What the end of a program means of which nothing is known but what a shell would know.

    Args:
        words: What people call it: ``the command``.
        exit_code: Negative = killed by that signal.
        problems: What its parser found.
    """
    codes = {
        126: Verdict(FailureClass.CONFIG, f"{words} is there but may not be run (exit code 126)"),
        127: Verdict(FailureClass.CONFIG, f"{words} was not found (exit code 127)"),
    }
    return judge_process(words, exit_code, problems, codes)


class CommandLogParser:
    """Parser for one process: the farm's lines, Open Job Description's words, memory trouble.

    Args:
        frame: The frame it renders, when it is one.
    """

    def __init__(self, frame: int | None) -> None:
        self._frame = frame

    def feed(self, line: str) -> Iterable[LogEvent]:
        """See LogParser.feed."""
        told = farm_events(line)
        if told is None:
            told = openjd_events(line, self._frame)
        if told is not None:
            return told
        problem = find_problem(line, MACHINE, frame=self._frame)
        # Words of a program nobody here knows point somewhere, but do not overrule its exit code.
        return [Problem(problem.failure, problem.text, frame=self._frame)] if problem else []


def _arguments(params: CommandParams) -> list[tuple[Piece, ...]]:
    return _parse(params.command, "params.command")


def _parse(command: Sequence[str], where: str) -> list[tuple[Piece, ...]]:
    if not command or not command[0]:
        raise JobFileError("the command is empty", where)
    for index, text in enumerate(command):
        if "\0" in text:
            raise JobFileError("an argument cannot hold a NUL", f"{where}[{index}]")
    return [parse_argument(text, f"{where}[{index}]") for index, text in enumerate(command)]


def check_chunk_command(step: StepSpec, command: Sequence[str], where: str) -> None:
    """Checks a step's ``pre`` or ``post``: a command that runs once per chunk, beside its renderer.

    Raises:
        JobFileError: It can never work; names the argument.
    """
    arguments = _parse(command, where)
    for index, argument in enumerate(arguments):
        for token in argument:
            if not isinstance(token, Token):
                continue
            here = f"{where}[{index}]"
            if token.word == "frame":
                raise JobFileError(
                    "{frame} in a command that runs once per chunk", here, hint="write {frames}: all of them"
                )
            if token.word == "input":
                raise JobFileError("{input} is for the command renderer only", here, hint="name the file")
            if token.word == "frames" and step.kind == "single":
                raise JobFileError("a single step has no frames to put into the command", here)
            if token.word == "output" and (token.number or 0) >= len(step.outputs):
                raise JobFileError(
                    f"{{output:{token.number}}} but the step has {len(step.outputs)} outputs", here
                )


def check_commands(step: StepSpec, where: str) -> None:
    """Checks a step's ``pre`` and ``post``, where it has them.

    Raises:
        JobFileError: One can never work; names the argument.
    """
    for name in ("pre", "post"):
        command = getattr(step, name)
        if command:
            check_chunk_command(step, command, f"{where}.{name}")


def chunk_argv(command: Sequence[str], context: ChunkContext, where: str) -> tuple[str, ...]:
    """The argument list of a step's ``pre`` or ``post`` for a chunk.

    Raises:
        JobFileError: A token stands for nothing here.
    """
    arguments = _parse(command, where)
    for token in (piece for argument in arguments for piece in argument if isinstance(piece, Token)):
        if token.word in ("frame", "input") or (token.word == "frames" and not context.frames):
            raise JobFileError(f"{{{token.word}}} stands for nothing in a command of a chunk", where)
        if token.word == "output" and (token.number or 0) >= len(context.patterns):
            raise JobFileError(f"there is no output {token.number or 0}", where)
    return _fill(arguments, context, None)


def _alone(arguments: Sequence[tuple[Piece, ...]], word: str) -> bool:
    """Whether the token only ever stands as an argument of its own."""
    return all(
        len(argument) == 1
        for argument in arguments
        for piece in argument
        if isinstance(piece, Token) and piece.word == word
    )


def _fill(
    arguments: Sequence[tuple[Piece, ...]], context: ChunkContext, frame: int | None
) -> tuple[str, ...]:
    """The argument list of one process."""
    argv: list[str] = []
    for argument in arguments:
        only = argument[0]
        if len(argument) == 1 and isinstance(only, Token) and only.word == "input" and frame is None:
            argv += _input_paths(context, None)
            continue
        argv.append("".join(p if isinstance(p, str) else _value(p, context, frame) for p in argument))
    return tuple(argv)


def _value(token: Token, context: ChunkContext, frame: int | None) -> str:
    if token.word == "frame":
        return f"{frame:0{token.width}d}" if token.width else str(frame)
    if token.word == "frames":
        return str(FrameRange.from_frames(context.frames))
    if token.word == "output":
        return _output(token.number or 0, context, frame)
    if token.word == "input":
        paths = _input_paths(context, frame)
        if len(paths) != 1:
            raise JobFileError(
                f"{{input}} is {len(paths)} files", "params.command", hint="make it an argument of its own"
            )
        return paths[0]
    return context.scratch if token.word == "scratch" else str(context.cores)


def _output(number: int, context: ChunkContext, frame: int | None) -> str:
    if context.frames and frame is None:
        # One process for the chunk fills in the frame itself, in the pattern inside the attempt's folder.
        return context.patterns[number]
    return next(file.path for file in context.files_of(frame) if file.output == number)


def _input_paths(context: ChunkContext, frame: int | None) -> list[str]:
    """Files of the input: the frame's, the chunk's, or all of them for a single step."""
    given = context.inputs.get("input", PlannedInput((), ()))
    if not given.frames or not context.frames:
        return list(given.paths)
    by_frame = dict(zip(given.frames, given.paths, strict=True))
    wanted = context.frames if frame is None else (frame,)
    lacking = [one for one in wanted if one not in by_frame]
    if lacking:
        raise JobFileError(f"the input has no frame {lacking[0]}", "params.input")
    return [by_frame[one] for one in wanted]


RENDERER = CommandRenderer()
