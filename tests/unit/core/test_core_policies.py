"""Changing the policy by dotted keys: what is refused, what is stored, who is told, and what limits hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.events import PolicyEvent
from farm.core.policies import changed, flat, limits_now, settable
from farm.core.rows import HistoryRow, PolicyRow
from farm.model.errors import CallError, UnknownName
from farm.model.policy import LimitRule, Policy, SiteRule
from tests.support.core_rig import Rig, step


def put(rig: Rig, **values: str) -> Any:
    """Sets fields; two underscores stand for a dot."""
    keys = {key.replace("__", "."): value for key, value in values.items()}
    return rig.handle(PolicyEvent(rig.now_us, changed(rig.core.farm.policy, keys), "", "wim")).reply


def test_text_becomes_what_the_field_is() -> None:
    policy = changed(
        Policy(),
        {
            "limits.nuke.total": "10",
            "limits.nuke.per": "node",
            "projects.film": "3",
            "user_max_cores.*": "64",
            "half_life_h": "12.5",
            "tail.copies": "false",
            "preempt.on": "true",
            "sites.cloud.projects": "film, ads",
            "reservations": "4",
        },
    )
    assert policy.limits == {"nuke": LimitRule(total=10, per="node")}
    assert (policy.projects, policy.user_max_cores) == ({"film": 3}, {"*": 64})
    assert (policy.half_life_h, policy.tail.copies, policy.preempt.on) == (12.5, False, True)
    assert (policy.sites, policy.reservations) == ({"cloud": SiteRule(projects=("film", "ads"))}, 4)


def test_names_may_have_dots_and_an_empty_value_takes_an_entry_away() -> None:
    policy = changed(Policy(), {"limits.v.ray.total": "2", "users.ann.b": "5"})
    assert (policy.limits, policy.users) == ({"v.ray": LimitRule(total=2)}, {"ann.b": 5})
    assert changed(policy, {"limits.v.ray": "", "users.ann.b": ""}) == Policy()


@pytest.mark.parametrize(
    ("key", "value", "error", "words"),
    [
        ("speed", "1", UnknownName, "no 'speed'"),
        ("limits", "nuke", UnknownName, "no 'limits'"),
        ("limits.nuke", "10", UnknownName, "no 'limits.nuke'"),
        ("limits.nuke.per", "node", CallError, "limits.nuke.total is missing"),
        ("limits.nuke.total", "many", CallError, "limits.nuke.total"),
        ("limits.nuke.total", "-1", CallError, "limits.nuke.total"),
        ("limits.nuke.per", "farm", CallError, "limits.nuke"),
        ("tail.straggle", "2", UnknownName, "tail.straggle"),
        ("tail.straggler", "1", CallError, "straggler"),
        ("preempt.at", "soon", CallError, "preempt.at"),
        ("half_life_h", "0", CallError, "half_life_h"),
        ("projects.film", "0", CallError, "projects"),
    ],
)
def test_a_wrong_key_or_value_is_refused_by_name(
    key: str, value: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        changed(Policy(), {"reservations": "4", key: value})


def test_a_key_that_does_not_exist_brings_the_list_of_those_that_do() -> None:
    with pytest.raises(UnknownName) as caught:
        changed(Policy(), {"limit.nuke": "1"})
    for key in ("limits.NAME.total", "tail.copies", "half_life_h", "user_max_cores.NAME"):
        assert key in caught.value.hint
        assert key in settable()


def test_each_field_that_differs_is_told_with_old_and_new() -> None:
    rig = Rig()
    reply = put(rig, limits__nuke__total="10", projects__film="3")
    told = [(row.what, row.old, row.new, row.who) for row in rig.out.rows if isinstance(row, HistoryRow)]
    assert told == [
        ("policy projects.film", "", "3", "wim"),
        ("policy limits.nuke.total", "", "10", "wim"),
        ("policy limits.nuke.per", "", "lease", "wim"),
    ]
    assert reply.changed == 3
    assert "projects.film is 3 (was not set)" in reply.message
    assert put(rig, projects__film="3").changed == 0
    assert not rig.out.rows


def test_a_restart_knows_the_policy() -> None:
    rig = Rig()
    put(rig, limits__nuke__total="10")
    rig.checkpoint()
    put(rig, limits__nuke__total="4", users__ann="2")
    policy = rig.core.farm.policy
    rig.restart()
    assert rig.core.farm.policy == policy == Policy(limits={"nuke": LimitRule(total=4)}, users={"ann": 2})


def test_the_row_holds_the_whole_policy() -> None:
    rig = Rig()
    put(rig, limits__nuke__total="10")
    (row,) = [row for row in rig.out.rows if isinstance(row, PolicyRow)]
    assert msgspec.json.decode(row.policy, type=Policy) == rig.core.farm.policy


@given(
    st.dictionaries(st.sampled_from(["a", "b.c", "*"]), st.integers(1, 1000), max_size=3),
    st.dictionaries(st.sampled_from(["nuke", "v.ray"]), st.integers(0, 99), max_size=2),
    st.booleans(),
)
def test_what_is_shown_can_be_set_again(users: dict[str, int], limits: dict[str, int], copies: bool) -> None:
    policy = Policy(
        users=users,
        limits={name: LimitRule(total=total) for name, total in limits.items()},
        tail=msgspec.structs.replace(Policy().tail, copies=copies),
    )
    shown = {key: value for key, value in flat(policy).items() if value}
    assert changed(Policy(), shown) == policy


# ---------------------------------------------------------------- limits


def test_limits_say_who_holds_them_and_who_waits() -> None:
    rig = Rig()
    for number in range(3):
        rig.join(f"n{number}")
    put(rig, limits__nuke__total="2")
    rig.submit(step(frames="1-4", limits={"nuke": 1}))
    rig.submit(step("comp", "1-2", limits={"nuke": 1}), user="bob")
    leases = rig.dispatch()
    assert len(leases) == 2
    (use,) = limits_now(rig.core.farm)
    assert (use.name, use.total, use.per, use.used) == ("nuke", 2, "lease", 2)
    assert sum(use.holders.values()) == 2
    assert "J2/comp" in use.waiting
    for lease in leases:
        rig.done(lease)
    assert limits_now(rig.core.farm)[0].used == 0


def test_a_limit_that_is_lowered_below_its_use_lets_running_work_finish() -> None:
    rig = Rig()
    for number in range(3):
        rig.join(f"n{number}")
    put(rig, limits__nuke__total="3")
    rig.submit(step(frames="1-9", limits={"nuke": 1}))
    leases = rig.dispatch()
    put(rig, limits__nuke__total="1")
    assert len(leases) == 3
    for lease in leases:
        rig.done(lease)
    assert len(rig.dispatch()) == 1


def test_what_nobody_named_is_listed_while_work_asks_for_it() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step(limits={"ghost": 1}))
    (use,) = limits_now(rig.core.farm)
    assert (use.total, use.waiting) == (None, ("J1/beauty",))
    put(rig, limits__ghost__total="1")
    assert len(rig.dispatch()) == 1
