"""A filter as its users hold it: text, terms with their places, and a test of rows.

What belongs here: what the command line and the client need of a filter in one record.  What may not: how
it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

from farm.model.query.fields import JOBS, Kind, Vocabulary
from farm.model.query.match import Accessor, Context, compile_node
from farm.model.query.parse import read_tree
from farm.model.query.tree import (
    All,
    Between,
    Either,
    Flag,
    Frames,
    Node,
    Not,
    Regex,
    Term,
    Text,
    Value,
    terms_of,
)


@dataclass(frozen=True, slots=True)
class Chip:
    """One part of a filter that can be shown, and taken away, by itself.

    Attributes:
        text: As it would be typed.
        words: What it asks for, in words.
        negated: Whether it asks that something is not so.
        start, end: Where it stands in the filter's text.
    """

    text: str
    words: str
    negated: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that parses but probably means something else.

    Attributes:
        message: What, in words.
        start, end: Where it stands.
    """

    message: str
    start: int
    end: int


class Query:
    """A filter that was read.

    Equal to another when both ask for the same in the same order, however they were written.

    Attributes:
        text: As it was given.
        root: The tree; None when it asks for nothing.
        vocabulary: The fields it may use.
    """

    __slots__ = ("root", "text", "vocabulary")

    def __init__(self, text: str, root: Node | None, vocabulary: Vocabulary) -> None:
        self.text = text
        self.root = root
        self.vocabulary = vocabulary

    @classmethod
    def parse(cls, text: str, vocabulary: Vocabulary = JOBS) -> Query:
        """Reads a filter.

        Raises:
            QueryError: It does not parse; has the place.
        """
        return cls(text, read_tree(text, vocabulary), vocabulary)

    def __str__(self) -> str:
        """Text that reads as the same filter, written the usual way."""
        return "" if self.root is None else str(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and (self.root, self.vocabulary) == (other.root, other.vocabulary)

    def __hash__(self) -> int:
        return hash((self.root, self.vocabulary.name))

    def __repr__(self) -> str:
        return f"Query({str(self)!r}, {self.vocabulary.name})"

    def __bool__(self) -> bool:
        """Whether it asks for anything."""
        return self.root is not None

    def predicate(self, accessors: Mapping[str, Accessor], context: Context) -> Callable[[Any], bool]:
        """A test of rows that are read by these accessors."""
        return compile_node(self.root, self.vocabulary, accessors, context)

    @property
    def moves(self) -> bool:
        """Whether what fits changes with time alone (``age<2d``)."""
        return any(term.field is not None and term.field.moves for term in terms_of(self.root))

    def fields(self) -> frozenset[str]:
        """Names of the fields it looks at."""
        found: set[str] = set()
        for term in terms_of(self.root):
            fields = (term.field,) if term.field is not None else self.vocabulary.searched
            found.update(field.name for field in fields)
        return frozenset(found)

    # -- chips --

    def parts(self) -> tuple[Node, ...]:
        """What must all be so."""
        if self.root is None:
            return ()
        return self.root.parts if isinstance(self.root, All) else (self.root,)

    def chips(self) -> tuple[Chip, ...]:
        """Its parts, to be shown one by one."""
        return tuple(
            Chip(_part_text(part), words_of(part), isinstance(part, Not), part.start, part.end)
            for part in self.parts()
        )

    def explain(self) -> str:
        """What it asks for, in words."""
        if self.root is None:
            return f"all {self.vocabulary.name}"
        return f"{self.vocabulary.name} where {words_of(self.root)}"

    def without(self, index: int) -> Query:
        """The filter without one of its chips."""
        return self._of([part for at, part in enumerate(self.parts()) if at != index])

    def toggled(self, text: str) -> Query:
        """The filter with a part added, or taken away when it has it.

        Raises:
            QueryError: The part does not parse.
        """
        wanted = Query.parse(text, self.vocabulary).parts()
        have = self.parts()
        left = [part for part in have if part not in wanted]
        if len(left) == len(have) - len(wanted) and len(left) < len(have):
            return self._of(left)
        return self._of([*have, *(part for part in wanted if part not in have)])

    def _of(self, parts: list[Node]) -> Query:
        root = None if not parts else parts[0] if len(parts) == 1 else All(tuple(parts))
        # Read again, so that the places fit the text.
        return Query.parse("" if root is None else str(root), self.vocabulary)

    def doubts(self) -> tuple[Doubt, ...]:
        """Words that a field does not have as far as is known: a slip of the pen, or of a newer farm."""
        found = []
        for term in terms_of(self.root):
            field = term.field
            if field is None or field.kind is not Kind.WORD or not field.words:
                continue
            for value in term.values:
                if isinstance(value, Text) and not value.wild and value.text.casefold() not in field.words:
                    near = get_close_matches(value.text.casefold(), field.words, 1)
                    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(field.words)}"
                    found.append(
                        Doubt(f"no {field.name} {value.text!r} is known{hint}", term.start, term.end)
                    )
        return tuple(found)


def _part_text(part: Node) -> str:
    return f"({part})" if isinstance(part, Either) else str(part)


_COMPARED: Final = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than"}


def words_of(node: Node) -> str:
    """What a part of a filter asks for, in words."""
    if isinstance(node, Term):
        return _term_words(node, "")
    if isinstance(node, Not):
        if isinstance(node.part, Term):
            return _term_words(node.part, "not ")
        return f"not ({words_of(node.part)})"
    joined = " and " if isinstance(node, All) else " or "
    return joined.join(
        f"({words_of(part)})" if isinstance(part, All | Either) else words_of(part) for part in node.parts
    )


def _term_words(term: Term, negated: str) -> str:
    if term.field is None:
        return f"{negated}{_value_words(term.values[0])}"
    name = term.field.name
    if term.field.kind is Kind.FLAG and len(term.values) == 1:
        yes = term.values[0] == Flag(True)
        return f"{'' if yes != bool(negated) else 'not '}{name}"
    verb = "is" if term.exact or term.field.kind is not Kind.TEXT else "has"
    if term.field.kind is Kind.FRAMES:
        verb = "is in"
    return f"{name} {verb} {negated}" + " or ".join(map(_value_words, term.values))


def _value_words(value: Value) -> str:
    if isinstance(value, Text):
        return f"'{value.text}'" if not value.wild else f"like '{value.text}'"
    if isinstance(value, Regex):
        return f"like {value}"
    if isinstance(value, Frames):
        return f"frames {value}"
    if isinstance(value, Between):
        for sign, words in _COMPARED.items():
            if value.shown.startswith(sign):
                return f"{words} {value.shown[len(sign) :]}"
        low, dots, high = value.shown.partition("..")
        if not dots:
            return value.shown
        return f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"
    return str(value)
