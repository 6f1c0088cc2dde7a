"""Cells under way: they end when the farm shows it, refuses it, or says nothing for too long; never later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.actions.context import UnitsOf
from client_gui.actions.facts import job_facts, units_facts
from client_gui.actions.pending import LOOKS_US, MOST_US, SETTLES_US, PendingCells
from client_gui.actions.plan import Cell, make_plan
from client_gui.actions.possible import Who, why_not_one
from client_gui.actions.records import BY_ID
from client_gui.actions.results import Fate, Outcome, tell
from client_gui.store.activity import Level
from client_gui.store.farmstore import FarmStore, Link
from client_gui.store.undo import Act
from farm.model.roles import Role
from farm.model.states import UnitState
from farm.protocol.client import JobRow, SnapshotMsg, StepRow

T0 = 1_000_000
ANA = Who(Role.ARTIST, "ana", True)


def step_row(counts: tuple[int, ...], name: str = "beauty", frames: str = "1-10") -> StepRow:
    return StepRow(
        name=name, kind="render", renderer="blender", state="running", frames=frames, units=sum(counts),
        counts=counts,
    )  # fmt: skip


def job_row(number: int = 1, *steps: StepRow, **fields: object) -> JobRow:
    base: dict[str, object] = {
        "name": "shot",
        "user": "ana",
        "project": "",
        "priority": 50,
        "state": "running",
        "reason": "",
        "submitted_us": 1,
        "started_us": 1,
        "ended_us": 0,
        "units": 10,
        "done": 0,
        "failed": 0,
        "running": 0,
        "spend_nano": 0,
        "waste_nano": 0,
    }
    return JobRow(job=number, steps=steps, **(base | fields))  # type: ignore[arg-type]


def farm(*rows: JobRow, maps: dict[str, bytes] | None = None, n: int = 1) -> FarmStore:
    store = FarmStore()
    for row in rows:
        store.open_job(row.job)
    store.snapshot(SnapshotMsg(id=1, n=n, jobs=rows, maps=maps or {}), T0)
    store.connection(Link.LIVE)
    store.n = n
    return store


def priority_cell(job: int = 1, wanted: int = 70) -> Cell:
    def reached(store: FarmStore) -> bool:
        slot = store.jobs.slot(job)
        return slot < 0 or store.jobs.get(slot, "priority") == wanted

    return Cell("jobs", job, "priority", str(wanted), reached)


def test_a_cell_ends_when_the_row_shows_it() -> None:
    cells = PendingCells()
    store = farm(job_row())
    cells.add(1, [priority_cell()], T0)
    assert cells.shown("jobs", 1, "priority") == "70"
    assert cells.shown("jobs", 1, "state") is None
    assert cells.shown("jobs", 2, "priority") is None
    assert not cells.reconcile(store, T0)
    store.snapshot(SnapshotMsg(id=1, n=2, jobs=(job_row(priority=70),)), T0)
    assert cells.reconcile(store, T0)
    assert cells.shown("jobs", 1, "priority") is None
    assert len(cells) == 0


def test_once_confirmed_the_next_news_counts_whatever_it_says() -> None:
    cells, store = PendingCells(), farm(job_row(), n=5)
    cells.add(1, [priority_cell()], T0)
    store.n = 6
    assert not cells.reconcile(store, T0, news=True), "not confirmed yet: the news may be older"
    assert not cells.confirmed(1, store, T0)
    assert not cells.reconcile(store, T0, news=True), "no news since then"
    store.n = 7
    assert cells.reconcile(store, T0, news=True)


def test_a_confirmed_cell_does_not_wait_for_ever_for_news() -> None:
    cells, store = PendingCells(), farm(job_row())
    cells.add(1, [priority_cell()], T0)
    assert not cells.confirmed(1, store, T0)
    assert not cells.reconcile(store, T0 + SETTLES_US - 1)
    assert cells.reconcile(store, T0 + SETTLES_US)


def test_a_refused_cell_shows_again_what_is_and_what_was_asked_before() -> None:
    cells = PendingCells()
    cells.add(1, [priority_cell(wanted=60)], T0)
    cells.add(2, [priority_cell(wanted=70)], T0)
    assert cells.shown("jobs", 1, "priority") == "70"
    assert cells.refused(2)
    assert cells.shown("jobs", 1, "priority") == "60"
    assert cells.refused(1)
    assert not cells.refused(1)
    assert cells.shown("jobs", 1, "priority") is None


def test_without_an_answer_a_cell_is_unsure_and_ends() -> None:
    cells, store = PendingCells(), farm(job_row())
    cells.add(1, [priority_cell()], T0)
    assert not cells.unsure("jobs", 1, "priority")
    cells.unknown(1, T0)
    assert cells.unsure("jobs", 1, "priority")
    assert cells.shown("jobs", 1, "priority") == "70"
    assert cells.reconcile(store, T0 + LOOKS_US)
    assert len(cells) == 0


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "confirm", "refuse", "unknown", "news"]), st.integers(1, 5)),
        max_size=30,
    )
)
def test_nothing_is_under_way_for_ever(steps: list[tuple[str, int]]) -> None:
    cells, store = PendingCells(), farm(*(job_row(n) for n in range(1, 6)))
    now_us = T0
    for what, key in steps:
        now_us += 100_000
        match what:
            case "add":
                cells.add(key, [priority_cell(key)], now_us)
            case "confirm":
                cells.confirmed(key, store, now_us)
            case "refuse":
                cells.refused(key)
            case "unknown":
                cells.unknown(key, now_us)
            case _:
                store.n = (store.n or 0) + 1
                cells.reconcile(store, now_us, news=True)
    cells.reconcile(store, now_us + MOST_US)
    assert len(cells) == 0
    assert all(cells.shown("jobs", job, "priority") is None for job in range(1, 6))


def test_frames_are_under_way_one_by_one_until_all_are_there() -> None:
    states = bytes([1, 1, 3, 4, 1, 1, 1, 1, 1, 1])
    row = job_row(1, step_row((0, 8, 0, 1, 1, 0, 0)))
    store = farm(row, maps={"J1/beauty": states})
    facts = units_facts(store, UnitsOf(1, "beauty", (0, 2, 3), "1,3-4"))
    plan = make_plan(BY_ID["skip"], [facts], ANA)
    (item,) = plan.items
    assert item.act == Act("skip", "J1/beauty/1,3-4")
    cells = PendingCells()
    cells.add(1, item.cells, T0)
    shown = [cells.shown("units", ("J1/beauty", unit), "state") for unit in range(10)]
    assert shown == ["skipped", None, None, "skipped", *[None] * 6], "a done frame is not skipped"
    store.maps["J1/beauty"].put([(0, UnitState.SKIPPED)])
    assert not cells.reconcile(store, T0)
    store.maps["J1/beauty"].put([(3, UnitState.SKIPPED)])
    assert cells.reconcile(store, T0)


def test_only_what_was_queued_comes_back_from_a_skip() -> None:
    states = bytes([1, 0, 4, 1, 3, 3, 3, 3, 3, 3])
    row = job_row(1, step_row((1, 2, 0, 6, 1, 0, 0)))
    store = farm(row, maps={"J1/beauty": states})
    facts = units_facts(store, UnitsOf(1, "beauty", (0, 1, 2, 3), "1-4"))
    (item,) = make_plan(BY_ID["skip"], [facts], ANA).items
    assert item.undo == (
        (Act("skip", "J1/beauty/1,4"), "queued"),
        (Act("skip", "J1/beauty/2"), "blocked"),
    )


def test_retrying_names_only_frames_that_failed() -> None:
    states = bytes([3, 3, 4, 6, 1, 5, 4, 3, 3, 3])
    row = job_row(1, step_row((0, 1, 0, 5, 2, 1, 1)))
    store = farm(row, maps={"J1/beauty": states})
    all_of_it = UnitsOf(1, "beauty", tuple(range(10)), "1-10")
    facts = units_facts(store, all_of_it)
    (failed,) = make_plan(BY_ID["retry"], [facts], ANA).items
    assert failed.act == Act("retry", "J1/beauty/3-4,7")
    assert failed.frames == 3
    (every,) = make_plan(BY_ID["retry-selection"], [facts], ANA).items
    assert every.act == Act("retry", "J1/beauty/1-4,6-10"), "what waits anyway is not named"
    whole = units_facts(store, UnitsOf(1, "beauty"))
    (step,) = make_plan(BY_ID["retry"], [whole], ANA).items
    assert step.act == Act("retry", "J1/beauty")
    (again,) = make_plan(BY_ID["retry-selection"], [whole], ANA).items
    assert again.act == Act("retry", "J1/beauty/1-4,6-10"), "a whole step would mean its failed frames"


@pytest.mark.parametrize(
    ("counts", "paused", "asked", "reason"),
    [
        ((0, 5, 5, 0, 0, 0, 0), False, "pause", ""),
        ((0, 0, 0, 0, 10, 0, 0), False, "pause", ""),
        ((0, 0, 0, 10, 0, 0, 0), False, "pause", "J1 is done: nothing to pause"),
        ((0, 0, 0, 0, 0, 0, 10), False, "pause", "J1 is canceled: nothing to pause"),
        ((0, 5, 5, 0, 0, 0, 0), True, "pause", "J1 is paused already"),
        ((0, 5, 5, 0, 0, 0, 0), True, "resume", ""),
        ((0, 5, 5, 0, 0, 0, 0), False, "resume", "J1 is running, not paused"),
        ((0, 0, 0, 10, 0, 0, 0), False, "archive", ""),
        ((0, 0, 1, 9, 0, 0, 0), False, "archive", "J1 still has work; cancel it first"),
        ((0, 0, 0, 10, 0, 0, 0), False, "cancel", "J1 is done: nothing to cancel"),
        ((0, 0, 0, 9, 1, 0, 0), False, "cancel", "J1 is failed: nothing to cancel"),
        ((0, 0, 0, 9, 1, 0, 0), False, "retry", ""),
        ((0, 0, 0, 9, 0, 0, 1), False, "retry", ""),
        ((0, 0, 0, 9, 0, 1, 0), False, "retry", "J1 is done: nothing failed or was canceled"),
    ],
)
def test_reasons_are_of_the_state(counts: tuple[int, ...], paused: bool, asked: str, reason: str) -> None:
    from farm.model.states import shown_state

    state = shown_state(list(counts), paused=paused).value
    store = farm(job_row(1, step_row(counts), state=state))
    assert why_not_one(BY_ID[asked], job_facts(store, 1), ANA) == reason


def test_a_state_of_a_newer_farm_forbids_nothing() -> None:
    store = farm(job_row(1, step_row((0, 0, 0, 0, 0, 0, 0, 10)), state="thawing"))
    for action in ("pause", "resume", "cancel", "retry", "priority", "set"):
        assert why_not_one(BY_ID[action], job_facts(store, 1), ANA) == ""


def test_somebody_else_s_job_is_named_with_its_owner() -> None:
    store = farm(job_row(4, step_row((0, 10, 0, 0, 0, 0, 0)), user="bo", state="queued"))
    reason = why_not_one(BY_ID["pause"], job_facts(store, 4), ANA)
    assert reason == "J4 belongs to bo; artists act on their own jobs, ask a wrangler"
    assert why_not_one(BY_ID["pause"], job_facts(store, 4), Who(Role.WRANGLER, "wim", True)) == ""


def _items(*labels: str) -> list[Outcome]:
    store = farm(*(job_row(int(label[1:]), step_row((0, 10, 0, 0, 0, 0, 0))) for label in labels))
    plan = make_plan(BY_ID["pause"], [job_facts(store, int(label[1:])) for label in labels], ANA)
    return [Outcome(item, Fate.DONE, f"{item.label} is paused") for item in plan.items]


def test_one_sentence_says_what_became_of_many() -> None:
    done = _items(*(f"J{n}" for n in range(1, 40)))
    store = farm(*(job_row(n, step_row((0, 10, 0, 0, 0, 0, 0))) for n in range(1, 40)))
    plan = make_plan(BY_ID["pause"], [job_facts(store, n) for n in range(1, 40)], ANA)
    assert tell(plan, done).text == "Paused 39 jobs"
    mixed = [
        *done[:37],
        Outcome(done[37].item, Fate.REFUSED, "J38 is archived"),
        Outcome(done[38].item, Fate.REFUSED, "the farm is full"),
    ]
    told = tell(plan, mixed)
    assert told.text == "Paused 37 jobs, 2 refused: J38 is archived; and 1 more"
    assert told.level is Level.WARNING
    assert told.details == ("J38 is archived", "J39: the farm is full")
    lost = [*done[:10], Outcome(done[10].item, Fate.UNKNOWN, "no answer"),
            *(Outcome(one.item, Fate.UNSENT) for one in done[11:])]  # fmt: skip
    assert tell(plan, lost).text == (
        "Paused 10 jobs, 1 without an answer (J11): looking what became of it, 28 not sent"
    )
    (alone,) = _items("J7")
    assert tell(make_plan(BY_ID["pause"], [], ANA), [alone]).text == "J7 is paused"
    refused = tell(make_plan(BY_ID["pause"], [], ANA), [Outcome(alone.item, Fate.REFUSED, "no")])
    assert (refused.text, refused.level) == ("Could not pause J7: no", Level.ERROR)


def test_a_name_is_not_written_otherwise_at_the_beginning_of_a_sentence() -> None:
    (one,) = _items("J7")
    plan = make_plan(BY_ID["node-drain"], [], ANA)
    node = Outcome(replace(one.item, label="mac-1"), Fate.DONE, "mac-1 finishes 1 attempt and takes no more")
    assert tell(plan, [node]).text == node.text
    words = Outcome(one.item, Fate.DONE, "everything of J7 waits")
    assert tell(plan, [words]).text == "Everything of J7 waits"
