"""``--filter TEXT`` of the verbs that list: the argument, its errors, and paging through everything.

What belongs here: what those verbs share.  What may not: the filter language (``farm.model.query``), which is
imported only when a filter is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.text import plural
from farm.model.errors import CallError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from farm.cli.console import Console
    from farm.model.query import Query
    from farm.protocol import client as wire
    from farm.sdk.client import Farm

#: Rows asked for at once while a filter looks through all of them.
PAGE = 1000
_SHOWN = 60


def add_filter(parser: argparse.ArgumentParser, what: str, example: str) -> None:
    """Adds ``--filter``."""
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help=f"only {what} that fit, e.g. '{example}' (see docs/filters.md)".replace("%", "%%"),
    )


def read_filter(text: str, what: str, console: Console) -> Query:
    """The filter of ``jobs`` or ``nodes``; notes what in it is probably a slip.

    Raises:
        CallError: It does not parse; names the place.
    """
    from farm.model.query import VOCABULARIES, Query, QueryError

    vocabulary = next(one for one in VOCABULARIES if one.name == what)
    try:
        query = Query.parse(text, vocabulary)
    except QueryError as error:
        place = text[error.position : error.end]
        shown = place if len(place) <= _SHOWN else place[:_SHOWN] + "..."
        raise CallError(
            f"--filter: {error.message}, at character {error.position + 1}: {shown}", hint=error.hint
        ) from error
    for doubt in query.doubts():
        console.note(f"--filter: {doubt.message}")
    return query


def row_test(query: Query, farm: Farm) -> Callable[[object], bool]:
    """A test of rows as of now.

    Raises:
        CallError: It asks for what is mine, and the key in use belongs to nobody.
    """
    import time

    from farm.model.query import Context
    from farm.sdk.filters import FIELDS_OF

    user = farm.welcome.user
    if "mine" in query.fields() and not user:
        raise CallError("--filter: the key in use has no user, so nothing is mine", hint="write user:NAME")
    return query.predicate(FIELDS_OF[query.vocabulary.name], Context(int(time.time() * 1e6), user))


def filtered_jobs(
    farm: Farm,
    query: Query,
    *,
    states: tuple[str, ...],
    user: str,
    archived: bool,
    before: int,
    limit: int,
) -> tuple[list[wire.JobRow], bool, int]:
    """The newest jobs that fit, however many have to be looked at.

    Returns:
        The jobs, whether there are more, and how many were looked at.
    """
    fits = row_test(query, farm)
    found: list[wire.JobRow] = []
    searched = 0
    while True:
        reply = farm.jobs(states, user=user, archived=archived, before=before, limit=PAGE)
        for row in reply.jobs:
            searched += 1
            if fits(row):
                if len(found) == limit:
                    return found, True, searched
                found.append(row)
        if not reply.more or not reply.jobs:
            return found, False, searched
        before = reply.jobs[-1].job


def filtered_frames(
    farm: Farm, query: Query, address: str, states: tuple[str, ...], offset: int, limit: int
) -> tuple[list[tuple[str, wire.FrameRow]], bool]:
    """The frames that fit, without the first ``offset`` of them and at most ``limit`` (0 = all).

    Returns:
        Pairs of a step's name and a row, and whether there are more.
    """
    fits = row_test(query, farm)
    found: list[tuple[str, wire.FrameRow]] = []
    looked_at = 0
    while True:
        reply = farm.frames(address, states, offset=looked_at, limit=PAGE)
        got = [(step, row) for step, units in reply.steps.items() for row in units]
        looked_at += len(got)
        found += [pair for pair in got if fits(pair)]
        if limit and len(found) > offset + limit:
            return found[offset : offset + limit], True
        if not reply.more or not got:
            return found[offset:], False


def searched_note(found: int, searched: int, *, archived: bool) -> str:
    """What was looked through, for whoever wonders where a job is."""
    note = f"{found} of {plural(searched, 'job')} fit"
    return note if archived else note + "; archived ones were not looked at, --archived does"
