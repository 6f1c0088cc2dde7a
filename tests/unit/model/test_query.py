"""The filter language: what it means, what it refuses and where, and how it is written back.

The oracle at the end reads rows the slow and obvious way and shares no code with the product.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from farm.model.errors import CallError, from_wire
from farm.model.query import FRAMES, JOBS, NODES, VOCABULARIES, Context, Kind, Query, QueryError, complete
from farm.model.query.amounts import read_amount
from farm.model.query.fields import Vocabulary
from farm.sdk.filters import FIELDS_OF, JOB_FIELDS, job_filter, node_filter
from tests.support.fake_broker import T0_US, job_row, node_row, step_row

NOW_US = T0_US + 3 * 86_400_000_000
CONTEXT = Context(NOW_US, "kim")
HOUR_US = 3_600_000_000


def fits(text: str, **fields: Any) -> bool:
    return job_filter(text, CONTEXT)(job_row(**fields))


# -- what it means ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fields", "wanted"),
    [
        ("", {}, True),
        ("SHOT", {"name": "shot010_fx"}, True),
        ("shot kim film", {"name": "shot010"}, True),
        ("shot bo", {"name": "shot010"}, False),
        ("-proxy", {"name": "a_proxy"}, False),
        ("--proxy", {"name": "a_proxy"}, True),
        ("lgt or fx", {"name": "fx"}, True),
        ("lgt or fx bo", {"name": "fx"}, False),
        ("(lgt or fx) kim", {"name": "fx"}, True),
        ("lgt or fx and kim", {"name": "fx"}, True),
        ("-(fx kim)", {"name": "fx"}, False),
        ("mine", {"user": "kim"}, True),
        ("-mine", {"user": "kim"}, False),
        ("mine:no", {"user": "bo"}, True),
        ('"mine"', {"name": "mine", "user": "bo"}, True),
        ('"mine"', {"name": "x", "user": "kim"}, False),
        ("user:K", {}, True),
        ("user=k", {}, False),
        ("owner=Kim", {}, True),
        ("name:a*c", {"name": "xabbcx"}, True),
        ("name=a*c", {"name": "xabbcx"}, False),
        ('name:"a*c"', {"name": "xabbcx"}, False),
        ("/^SHOT\\d+$/", {"name": "shot010"}, True),
        ("name:/^hot/", {"name": "shot010"}, False),
        ("state:failed,running", {}, True),
        ("state!=failed,running", {}, False),
        ("state:run", {}, False),
        ("state:quarantined", {"state": "quarantined"}, True),
        ("job:12", {}, True),
        ("job:j12,j13", {}, True),
        ("job:2", {}, False),
        ("priority:50", {}, True),
        ("priority>50", {}, False),
        ("priority>=50", {}, True),
        ("priority:40..60", {}, True),
        ("priority:60..", {}, False),
        ("priority:..50", {}, True),
        ("priority:1,50,99", {}, True),
        ("progress<50%", {"done": 1, "units": 4}, True),
        ("progress:25", {"done": 1, "units": 4}, True),
        ("progress<50%", {"done": 0, "units": 0}, False),
        ("-progress<50%", {"done": 0, "units": 0}, True),
        ("frames>10k", {"units": 10_001}, True),
        ("cost>5", {"spend_nano": 5_000_000_001}, True),
        ("cost>$5", {"spend_nano": 5_000_000_000}, False),
        ("age<2d", {"submitted_us": NOW_US - 47 * HOUR_US}, True),
        ("age<2d", {"submitted_us": NOW_US - 49 * HOUR_US}, False),
        ("age:1d12h..2d", {"submitted_us": NOW_US - 47 * HOUR_US}, True),
        ("ended<1h", {"ended_us": 0}, False),
        ("runtime>1h", {"started_us": NOW_US - 2 * HOUR_US, "ended_us": NOW_US - HOUR_US}, False),
        ("eta<2h", {"eta_low_us": NOW_US, "eta_high_us": NOW_US + HOUR_US}, True),
        ("eta<2h", {}, False),
        ("frame:10-20", {"steps": (step_row(frames="1-100x9"),)}, True),
        ("frame:2-9", {"steps": (step_row(frames="1-100x9"),)}, False),
        ("frame:2-9, 100", {"steps": (step_row(frames="1-100x9"),)}, True),
        ("frame>99", {"steps": (step_row(frames="1-100x9"),)}, True),
        ("frame>100", {"steps": (step_row(frames="1-100x9"),)}, False),
        ("frame<1", {"steps": (step_row(frames="-5-5"),)}, True),
        ("frame:5", {"steps": (step_row(frames=""),)}, False),
        ("frame:5", {"steps": (step_row(frames="written, one day, in another way"),)}, False),
        ("archived:yes", {"archived": True}, True),
        ("renderer:blender", {}, True),
        ("step:beau", {}, True),
    ],
)
def test_what_a_filter_means(text: str, fields: dict[str, Any], wanted: bool) -> None:
    assert fits(text, **fields) is wanted


@pytest.mark.parametrize(
    ("text", "fields", "wanted"),
    [
        ("gpu", {}, True),  # the pool
        ("ram>32g", {}, True),
        ("ram>64g", {}, False),
        ("ramfree:30g..40g", {}, True),
        ("state:drained", {"enabled": False}, True),
        ("state:online", {"enabled": False}, True),
        ("state:closed", {"closed": "its hours"}, True),
        ("busy:yes", {"running": ("J12/beauty@7",)}, True),
        ("job:12", {"running": ("J12/beauty@7",)}, True),
        ("job:1", {"running": ("J12/beauty@7",)}, False),
    ],
)
def test_what_a_filter_of_nodes_means(text: str, fields: dict[str, Any], wanted: bool) -> None:
    assert node_filter(text, CONTEXT)(node_row(**fields)) is wanted


def test_every_field_can_be_read_of_a_row() -> None:
    for vocabulary, row in ((JOBS, job_row()), (NODES, node_row())):
        fields = FIELDS_OF[vocabulary.name]
        assert set(fields) == {field.name for field in vocabulary.fields}
        for name, read in fields.items():
            read(row, CONTEXT)
            kind = next(field.kind for field in vocabulary.fields if field.name == name)
            assert kind is not Kind.FLAG or isinstance(read(row, CONTEXT), bool)
    assert set(FIELDS_OF["frames"]) == {field.name for field in FRAMES.fields}


def test_names_of_fields_are_given_once() -> None:
    for vocabulary in VOCABULARIES:
        names = [name for field in vocabulary.fields for name in (field.name, *field.aliases)]
        assert len(names) == len(set(names))


# -- what it refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("stae:failed", "stae", "jobs have no field 'stae' (did you mean state?)"),
        ("fx state:", "state:", "nothing follows 'state:'"),
        ("state:a,", ",", "nothing follows the comma"),
        ("fx (lgt", "(", "this bracket is not closed"),
        ("fx) lgt", ")", "there is no bracket that this one closes"),
        ("()", ")", "there is nothing in the brackets"),
        ("a or", "or", "nothing follows the 'or'"),
        ("or a", "or", "nothing stands before the 'or'"),
        ("a and", "and", "'and' joins two things"),
        ("fx -", "-", "nothing follows the minus"),
        ('fx "a', '"a', "these quotes are not closed"),
        ('""', '""', "there is nothing in the quotes"),
        ("/a", "/a", "this expression is not closed"),
        ("/proj/fx", "f", "something follows the end of the expression"),
        ("/(/", "/(/", "the expression is wrong"),
        ("/(a+)+$/", "/(a+)+$/", "a repeat or a choice inside a repeat can take for ever"),
        ("/(a|a)*$/", "/(a|a)*$/", "a repeat or a choice inside a repeat"),
        ("x age:2d", "2d", "age is never exactly 2d (write age<2d, age>2d"),
        ("age<2", "2", "'2' does not say of what"),
        ("age<2x", "2x", "'x' is not a unit of time"),
        ("cost>five", "five", "'five' is not a number"),
        ("priority:60..40", "60..40", "60..40 counts down (write 40..60)"),
        ("priority:..", "..", "a range has at least one end"),
        ("frame:1-", "-", "no number follows"),
        ("frame:1.5", ".5", "subframes are not supported"),
        ("name>5", "name>5", "name cannot be compared with '>'"),
        ("archived:perhaps", "perhaps", "'perhaps' is neither yes nor no"),
        ("a\x00", "\x00", "a control character does not belong here"),
    ],
)
def test_what_is_refused_and_where(text: str, place: str, message: str) -> None:
    with pytest.raises(QueryError, match=re.escape(message)) as raised:
        Query.parse(text)
    error = raised.value
    assert text[error.position : error.end] == place
    assert isinstance(error, CallError)
    assert type(from_wire(error.code, error.message)) is QueryError


def test_what_is_too_long_or_too_deep_is_refused() -> None:
    for text in ("a " * 1001, "(" * 500, "(" * 21 + "a" + ")" * 21, "/" + "a" * 201 + "/"):
        with pytest.raises(QueryError):
            Query.parse(text)
    assert Query.parse("-" * 1999 + "a") == Query.parse("-a")


#: A name on which an expression that backtracks without end would be noticed.
HARD = "a" * 28 + "!"


@pytest.mark.parametrize("source", ["(a+)+$", "(a*)*$", "(a|aa)+$", "(a+){2,}$", "((a+)b?)*$", "([ab]+)*$"])
def test_expressions_that_would_take_for_ever_are_refused(source: str) -> None:
    with pytest.raises(QueryError, match="for ever"):
        Query.parse(f"/{source}/")


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "source", ["(fx|lgt)_v\\d+", "(ab){3}c*", "[a+*|]+b", "\\(a+\\)+", "a{2,3}.*", "(\\d{4}_)+"]
)
def test_ordinary_expressions_are_taken_and_end(source: str) -> None:
    test = job_filter(f"/{source}/", CONTEXT)
    test(job_row(name=HARD))


# -- chips, doubts, completion ------------------------------------------------------------------------


def test_chips_mirror_the_text() -> None:
    text = "mine  state:failed,blocked (fx or lgt) -proxy age<2d"
    query = Query.parse(text)
    chips = query.chips()
    assert [text[chip.start : chip.end] for chip in chips] == [
        "mine", "state:failed,blocked", "(fx or lgt)", "-proxy", "age<2d",
    ]  # fmt: skip
    assert [chip.text for chip in chips] == [text[chip.start : chip.end] for chip in chips]
    assert [chip.negated for chip in chips] == [False, False, False, True, False]
    assert chips[1].words == "state is 'failed' or 'blocked'"
    assert query.explain() == (
        "jobs where mine and state is 'failed' or 'blocked' and ('fx' or 'lgt') and not 'proxy' "
        "and age is less than 2d"
    )
    assert str(query.without(2)) == "mine state:failed,blocked -proxy age<2d"
    assert query.moves
    assert not query.without(4).moves
    assert str(Query.parse("a or b").without(0)) == ""
    assert not Query.parse("  ")


def test_a_part_can_be_switched_on_and_off() -> None:
    query = Query.parse("fx")
    assert str(query.toggled("state:failed")) == "fx state:failed"
    assert query.toggled("state:failed").toggled("STATE:failed") == query
    assert query.toggled("state:failed").toggled("state:failed") == query
    assert str(query.toggled("fx")) == ""
    assert str(Query.parse("a or b").toggled("mine")) == "(a or b) mine"


def test_a_word_that_no_state_has_is_doubted_but_taken() -> None:
    (doubt,) = Query.parse("fx state:faild").doubts()
    assert doubt.message == "no state 'faild' is known; did you mean failed?"
    assert doubt.start == 3
    assert not Query.parse("state:FAILED renderer:new name:faild").doubts()


FACETS = {"state": {"failed": 3}, "user": {"kim": 5, "kira lee": 9, "bo": 1}, "project": {"film": 7}}


@pytest.mark.parametrize(
    ("typed", "found", "after"),
    [
        ("sta|", "state:", "state:|"),
        ("fx state:fai|", "failed", "fx state:failed |"),
        ("state:failed,bl| mine", "blocked", "state:failed,blocked |mine"),
        ("state:fa|,blocked", "failed", "state:failed|,blocked"),
        ("ki|", 'user:"kira lee"', 'user:"kira lee" |'),
        ('user:"kira l|', '"kira lee"', 'user:"kira lee" |'),
        ("-sta|", "state:", "-state:|"),
        ("(mi|)", "mine", "(mine|)"),
        ("stae|:failed", "", ""),
        ("age<|", "2h", "age<2h |"),
        ("archived:|", "no", "archived:no |"),
        ("a o|", "or", "a or |"),
    ],
)
def test_completion(typed: str, found: str, after: str) -> None:
    cursor = typed.index("|")
    text = typed.replace("|", "")
    completion = complete(text, cursor, JOBS, FACETS)
    candidates = {one.text: one for one in completion.candidates}
    if not found:
        assert not candidates
        return
    done, at = completion.apply(text, candidates[found])
    assert done[:at] + "|" + done[at:] == after


def test_what_the_farm_has_most_of_is_offered_first() -> None:
    assert [one.text for one in complete("user:", 5, JOBS, FACETS).candidates] == ['"kira lee"', "kim", "bo"]


# -- properties ---------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *'()"/\\,-:=<>.*',
        " ",
        " or ",
        " and ",
        "state:",
        "age<",
        "frame:",
        "priority:",
        "2d",
        "40..60",
        "1-9",
        "fx",
        "mine",
    ]
)
NOISE = st.one_of(st.text(max_size=40), st.lists(PIECES | st.text(max_size=2), max_size=12).map("".join))


@given(NOISE, st.sampled_from(VOCABULARIES))
@settings(max_examples=400)
@example("state:failed,", JOBS)
@example("/a\\", JOBS)
@example("-", NODES)
def test_any_text_parses_or_is_refused_at_a_place_in_it(text: str, vocabulary: Vocabulary) -> None:
    query, refused = None, None
    try:
        query = Query.parse(text, vocabulary)
    except QueryError as error:
        refused = error
    if query is None:
        assert refused is not None
        assert 0 <= refused.position < refused.end <= len(text)
        return
    again = Query.parse(str(query), vocabulary)
    assert again == query
    assert str(again) == str(query)
    for chip in query.chips():
        assert 0 <= chip.start < chip.end <= len(text)
        assert Query.parse(text[chip.start : chip.end], vocabulary) == Query.parse(chip.text, vocabulary)
    query.explain()
    query.doubts()


@given(NOISE, st.integers(-1, 50), st.sampled_from(VOCABULARIES))
def test_completion_takes_any_text(text: str, cursor: int, vocabulary: Vocabulary) -> None:
    completion = complete(text, cursor, vocabulary, FACETS)
    assert 0 <= completion.start <= completion.end <= len(text)
    for candidate in completion.candidates:
        done, at = completion.apply(text, candidate)
        assert candidate.text in done
        assert 0 <= at <= len(done)


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12))
def test_any_value_can_be_written_and_is_found(value: str) -> None:
    from farm.model.query.tree import quoted

    assert fits("name=" + quoted(value), name=value)
    assert fits(quoted(value), name=f"x{value}x")


# The oracle: a filter drawn as a structure, its text, and its meaning written out.

ROWS = st.builds(
    lambda **fields: job_row(steps=(step_row(frames=fields.pop("span")),), **fields),
    name=st.sampled_from(["fx_010", "FX 020", "lgt_or_v2", "(proxy)", "mine", "naïve-01", "-x,y"]),
    user=st.sampled_from(["kim", "bo", ""]),
    project=st.sampled_from(["film", "ad"]),
    state=st.sampled_from(["running", "failed", "done", "dreaming"]),
    priority=st.integers(0, 100),
    units=st.integers(0, 10),
    done=st.integers(0, 10),
    spend_nano=st.integers(0, 10**10),
    submitted_us=st.integers(0, 96).map(lambda hours: NOW_US - hours * HOUR_US),
    eta_high_us=st.none() | st.integers(-5, 30).map(lambda hours: NOW_US + hours * HOUR_US),
    archived=st.booleans(),
    span=st.sampled_from(["1-10", "5", "1-100x10", "20-11", ""]),
)
WORDS = st.sampled_from(
    ["fx", "FX", "lgt", "or", "mine", "proxy", "im", "film", "-x", "x,y", "(", "naïve", "kim"]
)


def _quote(word: str) -> str:
    return f'"{word}"'


@st.composite
def leaves(draw: st.DrawFn) -> tuple[str, Any]:
    """A term as text, and what it means."""
    kind = draw(st.integers(0, 8))
    if kind == 0:
        word = draw(WORDS)
        return _quote(word), lambda row: any(
            word.lower() in text.lower() for text in (row.name, row.user, row.project)
        )
    if kind == 1:
        words = draw(st.lists(WORDS, min_size=1, max_size=3))
        return "name:" + ",".join(map(_quote, words)), lambda row: any(
            word.lower() in row.name.lower() for word in words
        )
    if kind == 2:
        states = draw(
            st.lists(st.sampled_from(["running", "FAILED", "done", "dreaming"]), min_size=1, max_size=3)
        )
        return "state:" + ",".join(states), lambda row: row.state in [state.lower() for state in states]
    if kind == 3:
        number = draw(st.integers(0, 100))
        sign = draw(st.sampled_from(["<", "<=", ">", ">="]))
        return f"priority{sign}{number}", lambda row: {
            "<": row.priority < number,
            "<=": row.priority <= number,
            ">": row.priority > number,
            ">=": row.priority >= number,
        }[sign]
    if kind == 4:
        hours = draw(st.integers(0, 96))
        return f"age<{hours}h", lambda row: NOW_US - row.submitted_us < hours * HOUR_US
    if kind == 5:
        percent = draw(st.integers(0, 120))
        return f"progress>={percent}%", lambda row: row.units > 0 and row.done * 100 >= percent * row.units
    if kind == 6:
        first, last = sorted(draw(st.tuples(st.integers(0, 120), st.integers(0, 120))))
        spans = {
            "1-10": range(1, 11),
            "5": [5],
            "1-100x10": range(1, 101, 10),
            "20-11": range(11, 21),
            "": [],
        }
        text = draw(
            st.sampled_from(
                [f"frame:{first}-{last}", f"(frame>={first} frame>={first} frame:{first}-{last})"]
            )
        )
        return text, lambda row: any(first <= frame <= last for frame in spans[row.steps[0].frames])
    if kind == 7:
        hours = draw(st.integers(-5, 30))
        return (
            f"eta>{hours}h",
            lambda row: row.eta_high_us is not None and row.eta_high_us - NOW_US > hours * HOUR_US,
        )
    return "mine", lambda row: row.user == "kim"


def _joined(parts: list[tuple[str, Any]], word: str) -> tuple[str, Any]:
    join = all if word == " " else any
    return "(" + word.join(text for text, _ in parts) + ")", lambda row: join(test(row) for _, test in parts)


FILTERS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        inner.map(lambda one: ("-" + one[0], lambda row: not one[1](row))),
        st.tuples(st.lists(inner, min_size=1, max_size=3), st.sampled_from([" ", " or "])).map(
            lambda drawn: _joined(*drawn)
        ),
    ),
    max_leaves=8,
)


@given(FILTERS, st.lists(ROWS, min_size=1, max_size=5))
@settings(max_examples=300)
def test_it_agrees_with_the_obvious_reading(drawn: tuple[str, Any], rows: list[Any]) -> None:
    text, means = drawn
    query = Query.parse(text)
    for test in (
        query.predicate(JOB_FIELDS, CONTEXT),
        Query.parse(str(query)).predicate(JOB_FIELDS, CONTEXT),
    ):
        assert [test(row) for row in rows] == [means(row) for row in rows]


@pytest.mark.parametrize("kind", [Kind.COUNT, Kind.PERCENT, Kind.MEMORY, Kind.MONEY, Kind.DURATION])
@given(text=st.text(st.sampled_from("0123456789.kmgtwdhs%$-+ "), max_size=8))
def test_amounts_never_raise_anything_else(kind: Kind, text: str) -> None:
    try:
        assert abs(read_amount(kind, text)) < float("inf")
    except CallError:
        pass


def test_every_kind_of_field_is_there_and_says_what_it_is() -> None:
    for vocabulary in VOCABULARIES:
        assert vocabulary.searched
        for field in vocabulary.fields:
            assert not field.help.endswith(".")
            assert vocabulary.find(field.name.upper()) is field
    kinds = {field.kind for vocabulary in VOCABULARIES for field in vocabulary.fields}
    assert kinds == set(Kind)


@pytest.mark.parametrize(
    "source",
    ["(a|aa)" * 30 + "!", "a?" * 40 + "b", "(.?){40}!", ".*.*.*.*!", "(a|b){2}", "a?a?a?a?.*.*", "(x*){3}"],
)
def test_an_expression_that_could_take_for_ever_is_refused(source: str) -> None:
    with pytest.raises(QueryError, match="for ever"):
        Query.parse(f"name:/{source}/", JOBS)


@pytest.mark.parametrize("source", [r"fx_v\d+", r"(fx|comp|light|anim)_v\d+", r"^sh\d{4}_.*_v?\d+$", "a|b|c"])
def test_an_expression_people_write_is_taken_and_ends(source: str) -> None:
    query = Query.parse(f"name:/{source}/", JOBS)
    assert str(Query.parse(str(query), JOBS)) == str(query)
