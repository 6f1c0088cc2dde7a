"""What waits for a farm that is away: what replaces what, and what is still wanted when it is back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.actions.facts import Facts, JobFacts, NodeFacts, facts_of
from client_gui.actions.judged import Judged, Verdict, dropped, held, judge, plan_of, whole_judged
from client_gui.actions.plan import make_plan
from client_gui.actions.possible import Who, why_not_here, why_not_one
from client_gui.actions.records import BY_ID, LATER_FIELDS, RECORDS, Record, Scope
from client_gui.actions.results import Fate, Outcome, tell
from client_gui.actions.waiting import Taken, Wait, Waits, may_wait, together
from client_gui.store.activity import Level
from client_gui.store.farmstore import FarmStore
from farm.model.roles import ACTIONS, Role
from farm.protocol.client import JobRow, NodeRow, SnapshotMsg
from tests.support.client_rows import job_row, node_row, step_row

T0 = 1_000_000_000
AWAY = Who(Role.WRANGLER, "wim", False, "no answer", waits=True)
BACK = Who(Role.WRANGLER, "wim", True)


class Bench:
    """A farm as it was heard of last, and what waits for it."""

    def __init__(self, *rows: JobRow | NodeRow) -> None:
        self.store = FarmStore()
        self.waits = Waits()
        self.now_us = T0
        self.n = 0
        self.hear(*rows)

    def hear(self, *rows: JobRow | NodeRow) -> None:
        """The whole state."""
        self.n += 1
        jobs = tuple(row for row in rows if isinstance(row, JobRow))
        nodes = tuple(row for row in rows if isinstance(row, NodeRow))
        self.store.snapshot(SnapshotMsg(id=1, n=self.n, jobs=jobs, nodes=nodes), T0, ("jobs", "nodes"))

    def facts(self, *rows: int, scope: str = "jobs") -> tuple[Facts, ...]:
        context = ActionContext(scope, jobs=rows) if scope == "jobs" else ActionContext(scope, nodes=rows)
        return tuple(map(self.waits.seen, facts_of(self.store, context)))

    def ask(self, action: str, *rows: int, value: str = "", scope: str = "jobs") -> Taken:
        """What pressing a key does while the farm is away."""
        self.now_us += 1_000_000
        plan = make_plan(BY_ID[action], self.facts(*rows, scope=scope), AWAY, value)
        assert may_wait(plan)
        return self.waits.take(plan, self.store, self.now_us)

    def texts(self) -> list[str]:
        return [one.text for one in self.waits]

    def judge(self, who: Who = BACK) -> dict[str, tuple[Verdict, str]]:
        return {one.wait.text: (one.verdict, one.text) for one in whole_judged(self.waits, self.store, who)}

    def only(self) -> Wait:
        (one,) = self.waits
        return one


# -- which may wait --------------------------------------------------------------------------------------


def test_what_says_how_something_shall_be_may_wait_and_nothing_else() -> None:
    safe = {record.id for record in RECORDS if record.later}
    assert safe == {
        "pause-toggle", "pause", "resume", "priority-up", "priority-down", "priority", "set",
        "node-drain", "node-enable",
    }  # fmt: skip
    for record in RECORDS:
        assert bool(record.only_now) == (record.changes and not record.later), record.id
        assert not record.later or record.changes
    assert LATER_FIELDS == ("name", "priority")


@pytest.mark.parametrize("record", [one for one in RECORDS if one.changes], ids=lambda one: one.id)
def test_without_a_connection_each_action_waits_or_says_why_it_does_not(record: Record) -> None:
    scope = next(scope.value for scope in Scope if scope in record.scopes)
    context = ActionContext(scope, jobs=(1,), units=(UnitsOf(1, "beauty"),), nodes=(1,))
    admin = Who(Role.ADMIN, "root", False, "no answer", waits=True)
    reason = why_not_here(record, context, admin)
    assert reason == (
        "" if record.later else f"not connected: no answer; it is not sent later: {record.only_now}"
    )
    refused = Who(Role.ADMIN, "root", False, "the key was revoked")
    assert why_not_here(record, context, refused) == "not connected: the key was revoked"


def test_settings_of_steps_and_limits_do_not_wait() -> None:
    bench = Bench(job_row(1))
    steps = ActionContext("steps", units=(UnitsOf(1, "beauty"),))
    assert "is not sent later" in why_not_here(BY_ID["set"], steps, AWAY)
    plan = make_plan(BY_ID["set"], bench.facts(1), AWAY, json.dumps({"name": "x", "max_cores": "8"}))
    assert plan.items == ()
    assert plan.left_out == (("J1", "max_cores is not sent later: work goes on meanwhile"),)
    plan = make_plan(BY_ID["set"], bench.facts(1), AWAY, json.dumps({"priority": "high"}))
    assert "a whole number" in plan.left_out[0][1]
    live = make_plan(BY_ID["set"], bench.facts(1), BACK, json.dumps({"max_cores": "8"}))
    assert live.items
    assert not may_wait(live), "also when the connection came back while somebody typed"


def test_what_a_role_may_not_do_does_not_wait_either() -> None:
    artist = Who(Role.ARTIST, "ana", False, "no answer", waits=True)
    nodes = ActionContext("nodes", nodes=(1,))
    assert "takes the role" in why_not_here(BY_ID["node-drain"], nodes, artist)
    bench = Bench(job_row(1, user="bo"))
    assert "belongs to bo" in why_not_one(BY_ID["pause"], bench.facts(1)[0], artist)
    assert ACTIONS["pause"].own_only


# -- what replaces what ----------------------------------------------------------------------------------


def test_pausing_and_resuming_is_nothing() -> None:
    bench = Bench(job_row(1), job_row(2, state="paused"))
    bench.ask("pause-toggle", 1)
    assert bench.texts() == ["Pause J1"]
    assert bench.waits.shown("jobs", 1, "state") == "paused"
    taken = bench.ask("pause-toggle", 1)
    assert taken == Taken((), ("J1",))
    assert len(bench.waits) == 0
    assert bench.waits.shown("jobs", 1, "state") is None
    bench.ask("pause-toggle", 2)
    assert bench.texts() == ["Resume J2"]
    assert bench.waits.shown("jobs", 2, "state") == "running", "as its frames will make it"


def test_priorities_are_what_they_shall_be_and_the_last_counts() -> None:
    bench = Bench(job_row(1, priority=50))
    bench.ask("priority-up", 1)
    bench.ask("priority-up", 1)
    one = bench.only()
    assert (one.text, one.before, one.value) == ("Priority 60 for J1", "50", "60")
    assert one.record is BY_ID["priority"], "never a step from wherever it is by then"
    bench.ask("priority", 1, value="7")
    assert bench.texts() == ["Priority 7 for J1"]
    bench.ask("set", 1, value=json.dumps({"priority": "090", "name": "hero"}))
    assert bench.texts() == ["Priority 90 for J1", "Call J1 hero"]
    bench.ask("priority", 1, value="50")
    assert bench.texts() == ["Call J1 hero"], "it is 50 as it was"


def test_different_fields_wait_side_by_side_in_the_order_they_were_asked() -> None:
    bench = Bench(job_row(1), job_row(2), node_row(3))
    bench.ask("priority-up", 1, 2)
    bench.ask("pause", 2)
    bench.ask("node-drain", 3, scope="nodes")
    bench.ask("priority-up", 1)
    assert bench.texts() == ["Priority 55 for J2", "Pause J2", "Drain rack-003", "Priority 60 for J1"]


def test_nodes_are_drained_and_enabled() -> None:
    bench = Bench(node_row(1), node_row(2, enabled=False), node_row(3, enabled=False, disabled=True))
    bench.ask("node-drain", 1, scope="nodes")
    bench.ask("node-enable", 2, 3, scope="nodes")
    assert bench.texts() == ["Drain rack-001", "Enable rack-002", "Enable rack-003"]
    assert [one.before for one in bench.waits] == ["enabled", "drained", "disabled"]
    drained = bench.facts(1, scope="nodes")[0]
    assert isinstance(drained, NodeFacts)
    assert drained.service == "drained"
    assert "already" in why_not_one(BY_ID["node-drain"], drained, AWAY)
    bench.ask("node-enable", 1, scope="nodes")
    assert len(bench.waits) == 2


def test_taking_back_the_last_brings_back_what_it_replaced() -> None:
    bench = Bench(job_row(1, priority=50), job_row(2, priority=50))
    bench.ask("priority-up", 1, 2)
    bench.ask("priority-up", 1)
    bench.ask("pause", 2)
    assert [one.text for one in bench.waits.remove_last()] == ["Pause J2"]
    bench.waits.remove_last()
    assert sorted(bench.texts()) == ["Priority 55 for J1", "Priority 55 for J2"]
    assert len(bench.waits.remove_last()) == 2
    assert bench.waits.remove_last() == ()


def test_one_that_is_taken_back_takes_what_it_replaced_with_it() -> None:
    bench = Bench(job_row(1, priority=50))
    bench.ask("priority-up", 1)
    bench.ask("priority-up", 1)
    bench.waits.remove({bench.only().number})
    assert len(bench.waits) == 0
    bench.ask("priority-up", 1)
    assert bench.only().wanted == "55"


def test_what_is_sent_now_replaces_what_waits_for_the_same() -> None:
    bench = Bench(job_row(1), job_row(2))
    bench.ask("priority-up", 1, 2)
    bench.ask("pause", 1)
    plan = make_plan(
        BY_ID["priority"], tuple(facts_of(bench.store, ActionContext("jobs", jobs=(1,)))), BACK, "9"
    )
    assert [one.text for one in bench.waits.remove_meant(plan)] == ["Priority 55 for J1"]
    other = make_plan(BY_ID["cancel"], tuple(facts_of(bench.store, ActionContext("jobs", jobs=(1,)))), BACK)
    assert bench.waits.remove_meant(other) == ()


#: Keys, and the priority that one sets.
KEYS = {"pause-toggle": 0, "priority-up": 5, "priority-down": -5, "priority 10": 10, "priority 60": 60}


@given(st.lists(st.tuples(st.sampled_from(sorted(KEYS)), st.sampled_from([1, 2])), max_size=30))
def test_what_waits_is_what_the_keys_would_have_done(keys: list[tuple[str, int]]) -> None:
    """An oracle: the jobs as they would be had the farm answered every key."""
    bench = Bench(job_row(1, priority=50), job_row(2, priority=95, state="paused"))
    start = {1: (50, False), 2: (95, True)}
    jobs = dict(start)
    for key, job in keys:
        priority, paused = jobs[job]
        action, _, number = key.partition(" ")
        if action == "pause-toggle":
            jobs[job] = (priority, not paused)
        elif (wanted := int(number) if number else min(100, max(0, priority + KEYS[key]))) != priority:
            jobs[job] = (wanted, paused)
        else:
            continue  # the rules say so, and nothing is asked
        bench.ask(action, job, value=number)
    for job, (priority, paused) in jobs.items():
        (seen,) = bench.facts(job)
        assert isinstance(seen, JobFacts)
        assert (seen.priority, seen.paused) == (priority, paused)
    differs = sum(was != now for job in jobs for was, now in zip(start[job], jobs[job], strict=True))
    assert len(bench.waits) == differs, "nothing waits that would change nothing"


# -- whether it is still wanted --------------------------------------------------------------------------


def test_what_is_as_it_was_is_sent_with_fresh_requests() -> None:
    bench = Bench(job_row(1, priority=50), node_row(3))
    bench.ask("priority", 1, value="60")
    bench.ask("pause", 1)
    bench.ask("node-drain", 3, scope="nodes")
    judged = whole_judged(bench.waits, bench.store, BACK)
    assert {one.verdict for one in judged} == {Verdict.SEND}
    plan = plan_of(judged)
    acts = [(item.act.action, item.act.target, item.act.value) for item in plan.items]
    assert acts == [("priority", "J1", "60"), ("pause", "J1", ""), ("node-drain", "3", "")]
    outcomes = [Outcome(item, Fate.DONE, "done") for item in plan.items]
    assert tell(plan, outcomes).text == "Sent 3 waiting actions"
    assert [before for item in plan.items for _, before in item.undo] == ["50", "running", "enabled"]


def test_several_of_one_kind_are_told_as_that() -> None:
    bench = Bench(job_row(1), job_row(2))
    bench.ask("pause", 1, 2)
    plan = plan_of(whole_judged(bench.waits, bench.store, BACK))
    assert plan.record is BY_ID["pause"]
    assert tell(plan, [Outcome(item, Fate.DONE) for item in plan.items]).text == "Paused 2 jobs"


def test_what_is_so_already_or_makes_no_sense_any_more_is_dropped_with_the_reason() -> None:
    bench = Bench(*(job_row(n, priority=50) for n in range(1, 6)), node_row(1))
    bench.ask("pause", 1, 2, 3)
    bench.ask("priority", 4, 5, value="60")
    bench.ask("node-drain", 1, scope="nodes")
    gone = (0, 0, 0, 100, 0, 0, 0)
    bench.hear(
        job_row(1, state="paused"),
        job_row(2, state="done", done=100, running=0, steps=(step_row(state="done", counts=gone),)),
        job_row(4, priority=60),
        job_row(5, priority=50, state="canceled"),
        node_row(1, enabled=False, disabled=True),
    )
    assert bench.judge() == {
        "Pause J1": (Verdict.SO, "J1 is paused already"),
        "Pause J2": (Verdict.IDLE, "J2 is done: nothing to pause"),
        "Pause J3": (Verdict.IDLE, "J3 is not in the list any more"),
        "Priority 60 for J4": (Verdict.SO, "J4 has priority 60 already"),
        "Priority 60 for J5": (Verdict.IDLE, "J5 is canceled by now"),
        "Drain rack-001": (Verdict.IDLE, "rack-001 is disabled already"),
    }
    told = dropped(whole_judged(bench.waits, bench.store, BACK))
    assert told is not None
    assert told.level is Level.WARNING
    assert told.text == "6 actions that waited were not sent any more: J1 is paused already; and 5 more"
    assert "Pause J2: J2 is done: nothing to pause" in told.details


def test_all_that_is_so_already_is_no_warning() -> None:
    bench = Bench(job_row(1))
    bench.ask("pause", 1)
    bench.hear(job_row(1, state="paused"))
    told = dropped(whole_judged(bench.waits, bench.store, BACK))
    assert told is not None
    assert (told.level, told.text) == (Level.INFO, "“Pause J1” was not sent any more: J1 is paused already")


def test_what_was_asked_of_a_job_that_was_over_already_is_still_meant() -> None:
    bench = Bench(job_row(1, state="canceled", priority=50))
    bench.ask("priority", 1, value="60")
    assert bench.judge() == {"Priority 60 for J1": (Verdict.SEND, "")}


def test_what_somebody_else_changed_meanwhile_is_not_changed_back_unasked() -> None:
    bench = Bench(job_row(1, priority=50), job_row(2), node_row(1, enabled=False))
    bench.ask("priority", 1, value="60")
    bench.ask("set", 2, value=json.dumps({"name": "mine"}))
    bench.ask("node-enable", 1, scope="nodes")
    bench.hear(job_row(1, priority=70), job_row(2, name="theirs"), node_row(1, enabled=False, disabled=True))
    assert bench.judge() == {
        "Priority 60 for J1": (Verdict.CHANGED, "J1 has priority 70 by now, not 50: somebody else set it"),
        "Call J2 mine": (Verdict.CHANGED, "J2 is called theirs by now: somebody else called it so"),
        "Enable rack-001": (
            Verdict.CHANGED,
            "rack-001 is disabled by now, not drained: somebody else has seen to it",
        ),
    }
    assert {judge(one, bench.store, BACK, anyway=True).verdict for one in bench.waits} == {Verdict.SEND}
    told = held(whole_judged(bench.waits, bench.store, BACK))
    assert told is not None
    assert told.text.startswith("3 actions that waited were not sent: J1 has priority 70 by now")


def test_a_role_that_is_less_by_now_is_asked_again() -> None:
    bench = Bench(job_row(1, user="bo", priority=50), node_row(1))
    bench.ask("pause", 1)
    bench.ask("priority", 1, value="95")
    bench.ask("node-drain", 1, scope="nodes")
    found = bench.judge(Who(Role.ARTIST, "wim", True))
    assert {verdict for verdict, _ in found.values()} == {Verdict.IDLE}
    assert "belongs to bo" in found["Pause J1"][1]
    assert "takes the role wrangler" in found["Drain rack-001"][1]


def test_one_that_is_held_counts_no_more_until_it_is_asked_anew() -> None:
    bench = Bench(job_row(1, priority=50))
    bench.ask("priority", 1, value="60")
    bench.hear(job_row(1, priority=70))
    (found,) = whole_judged(bench.waits, bench.store, BACK)
    bench.waits.hold(found.wait.number, found.text)
    assert bench.waits.shown("jobs", 1, "priority") is None, "the cell shows what is"
    bench.ask("priority-up", 1)
    one = bench.only()
    assert (one.before, one.wanted, one.held) == ("70", "75", "")


def test_what_could_not_be_sent_waits_again_where_it_stood_unless_something_newer_does() -> None:
    bench = Bench(job_row(1), job_row(2), job_row(3))
    bench.ask("pause", 1, 2)
    sent = tuple(bench.waits)
    bench.waits.remove({one.number for one in sent})
    bench.ask("priority-up", 3)
    bench.ask("pause", 2)
    newer = {one.number for one in bench.waits}
    assert [one.text for one in bench.waits.give_back(sent)] == ["Pause J1"]
    assert bench.texts() == ["Pause J1", "Priority 55 for J3", "Pause J2"]
    assert newer < {one.number for one in bench.waits}


def test_several_are_told_together() -> None:
    bench = Bench(job_row(1), job_row(2), job_row(3, state="paused"))
    bench.ask("pause", 1, 2)
    assert together(tuple(bench.waits)) == "Pause 2 jobs"
    bench.ask("resume", 3)
    assert together(tuple(bench.waits)) == "3 actions"
    bench.waits.clear()
    bench.ask("priority", 1, 2, value="60")
    assert together(tuple(bench.waits)) == "Priority 60 for 2 jobs"


def test_nothing_is_told_of_nothing() -> None:
    assert dropped(()) is None
    assert held(()) is None
    none: tuple[Judged, ...] = ()
    assert plan_of(none).items == ()
