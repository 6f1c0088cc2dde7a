"""A command as people type it, and as the farm takes it: a list of arguments, never a shell's line.

What belongs here: cutting a typed line into words as a shell does, the way back, and what in it only a shell
would understand.  What may not: whether a program exists, and Qt.

The rule, which the form tells beside the field: one line is cut at its blanks, with quotes as in a shell; of
several lines each is one argument as it stands.  Empty lines before and behind do not count.  Lines of which
the first is not finished (an open quote, or a backslash at its end) are one command that somebody pasted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

_BLANKS: Final = " \t\r\n"
#: Words that need no quotes.
_PLAIN: Final = re.compile(r"[\w@%+=:,./{}#^\-]+\Z", re.ASCII)
_WINDOWS_PLAIN: Final = re.compile(r"[\w@%+=:,./{}#^\-\\]+\Z", re.ASCII)
_OPERATORS: Final = re.compile(r"&&|\|\||>>|<<|[|&;<>]")
_VARIABLE: Final = re.compile(r"\$(?:\w+|\{\w+\}|\()", re.ASCII)
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


@dataclass(frozen=True, slots=True)
class Line:
    """A typed command.

    Attributes:
        words: Its words; those of an open quote as far as they go.
        closed: Whether every quote is closed and no backslash stands at the end.
        shell: What only a shell would understand, as it was typed, each once.
    """

    words: tuple[str, ...]
    closed: bool = True
    shell: tuple[str, ...] = ()


def split(text: str, *, windows: bool | None = None) -> Line:
    """Cuts a line into words as a shell does: blanks, quotes, backslashes; nothing is filled in.

    Args:
        text: What was typed.
        windows: Whether a backslash is a letter like others, as in paths there; None = as here.
    """
    escape = "" if (sys.platform == "win32" if windows is None else windows) else "\\"
    words: list[str] = []
    shell: dict[str, None] = {}
    word: list[str] | None = None
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        if quote != "'" and char == escape:
            following = text[at + 1 : at + 2]
            if not following:
                return Line((*words, "".join(word or [])), False, tuple(shell))
            if following == "\n":
                at += 2
                continue
            # Within double quotes a shell keeps it, but before what would end or open something.
            word = word if word is not None else []
            word.append(following if not quote or following in '"\\$`' else escape + following)
            at += 2
            continue
        if quote:
            if char == quote:
                quote = ""
            else:
                _note(shell, text, at, quote)
                assert word is not None
                word.append(char)
        elif char in "'\"":
            quote, word = char, word if word is not None else []
        elif char in _BLANKS:
            if word is not None:
                words.append("".join(word))
                word = None
        else:
            if word is None and not words and (found := _ASSIGNED.match(text, at)) is not None:
                shell[found[0]] = None
            if word is None and char == "~":
                shell["~"] = None
            _note(shell, text, at, "")
            word = word if word is not None else []
            word.append(char)
        at += 1
    if word is not None:
        words.append("".join(word))
    return Line(tuple(words), not quote, tuple(shell))


def _note(shell: dict[str, None], text: str, at: int, quote: str) -> None:
    """Takes note of what only a shell understands at a place."""
    if quote == "'":
        return
    if text[at] == "$" and (found := _VARIABLE.match(text, at)) is not None:
        shell[found[0]] = None
    elif text[at] == "`":
        shell["`"] = None
    elif not quote and (found := _OPERATORS.match(text, at)) is not None:
        # The second letter of && was noted with the first.
        if text[at - 1 : at + 1] not in ("&&", "||", ">>", "<<") or at == 0:
            shell[found[0]] = None
    elif not quote and text[at] in "*?":
        shell[text[at]] = None


def quoted(word: str, *, windows: bool | None = None) -> str:
    """A word as it is typed; "" when no quotes of ours can hold it."""
    here = sys.platform == "win32" if windows is None else windows
    if (_WINDOWS_PLAIN if here else _PLAIN).match(word) and not _ASSIGNED.match(word):
        return word
    if "'" not in word:
        return f"'{word}'"
    if here:
        return "" if '"' in word else f'"{word}"'
    return "'" + word.replace("'", "'\"'\"'") + "'"


def read(text: str) -> tuple[str, ...] | str:
    """The arguments of what was typed; the text itself when a quote is left open."""
    if text.startswith('["'):
        try:
            return tuple(msgspec.json.decode(text, type=list[str]))
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            pass
    if by_line(text):
        return tuple(_lines(text))
    line = split(text)
    return line.words if line.closed else text


def by_line(text: str) -> bool:
    """Whether each line is an argument as it stands."""
    first, more, _ = _body(text).partition("\n")
    return bool(more) and split(first).closed and not text.startswith('["')


def write(value: Any) -> str:
    """What would be typed for arguments: one line where that can be, else one a line, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) for one in value):
        words: Sequence[str] = tuple(value)
        line = " ".join(quoted(one) for one in words)
        for text in (line, "\n".join(words) + "\n"):
            if read(text) == words:
                return text
    return msgspec.json.encode(value).decode()


def _body(text: str) -> str:
    """What was typed without empty lines before and behind: a pasted line often brings its line break."""
    lines = text.replace("\r\n", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return "\n".join(lines)


def _lines(text: str) -> list[str]:
    return _body(text).split("\n")


def shell_words(text: str) -> tuple[str, ...]:
    """What in a typed text only a shell would understand; nothing where each line is an argument."""
    return () if by_line(text) or text.startswith('["') else split(text).shell
