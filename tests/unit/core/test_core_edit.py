"""Changing a job that is on the farm: what is refused whole, and what each field does.

What belongs here: fields of jobs and steps.  Frames, and times to start at, have tests of their own.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farm.core import invariants
from farm.core.rows import JobStateRow
from farm.model.errors import CallError, UnknownName
from farm.model.resources import Resources
from tests.support.core_edits import edit, farm
from tests.support.core_rig import Rig, step

# ---------------------------------------------------------------- refused whole


@pytest.mark.parametrize(
    ("address", "values", "error", "words"),
    [
        ("J1/beauty", {"speed": 1}, UnknownName, "'speed' cannot be set"),
        ("J1", {"speed": 1}, UnknownName, "'speed' cannot be set"),
        ("J1/beauty", {"resources.nvlink": "require"}, UnknownName, "resources.nvlink"),
        ("J1/beauty", {"resources.": 1}, UnknownName, "cannot be set"),
        ("J1/beauty", {"limits.": 1}, UnknownName, "cannot be set"),
        ("J1/beauty", {"priority": 1}, CallError, "of the whole job"),
        ("J1/comp", {"chunk": 1}, UnknownName, "no step"),
        ("J1/beauty/2", {"chunk": 1}, CallError, "frames have no settings"),
        ("J1/beauty", {}, CallError, "nothing is to be set"),
        ("J1", {"priority": 101}, CallError, "0 to 100"),
        ("J1", {"priority": "high"}, CallError, "0 to 100"),
        ("J1", {"priority": "\u0663"}, CallError, "0 to 100"),
        ("J1/beauty", {"resources.gpus": 4}, CallError, "no node can take it: asks for 4 GPUs"),
        ("J1/beauty", {"pools": "nope"}, CallError, "no node can take it: nearest is n0"),
        ("J1", {"priority": True}, CallError, "0 to 100"),
        ("J1", {"name": ""}, CallError, "1 to 255"),
        ("J1", {"max_cores": -1}, CallError, "max_cores"),
        ("J1", {"start_after": "tomorrow"}, CallError, "not a moment"),
        ("J1", {"start_after": "2030-01-31T18:00:00"}, CallError, "time zone"),
        ("J1/beauty", {"frames": "1-"}, CallError, "frames"),
        ("J1/beauty", {"chunk": 0}, CallError, "chunk"),
        ("J1/beauty", {"chunk": "some"}, CallError, "chunk"),
        ("J1/beauty", {"resources.cores": 0}, CallError, "core"),
        ("J1/beauty", {"resources.ram_mib": "lots"}, CallError, "ram_mib"),
        ("J1/beauty", {"limits": "nuke"}, CallError, "NAME=VALUE"),
        ("J1/beauty", {"limits.nuke": 1}, CallError, "no limit 'nuke'"),
        ("J1/beauty", {"version": ">=4"}, CallError, "no application"),
        ("J1/beauty", {"attempts": 101}, CallError, "attempts"),
        ("J1/beauty", {"failure.silent_x": -1}, CallError, "silent_x"),
        ("J1/beauty", {"timeout_s": "long"}, CallError, "timeout_s"),
    ],
)
def test_a_wrong_value_is_refused_and_leaves_no_trace(
    address: str, values: dict[str, Any], error: type[Exception], words: str
) -> None:
    rig = farm(nodes=2)
    rig.dispatch()
    before, seq = invariants.digest(rig.core.farm), rig.core.farm.seq
    # A right one beside the wrong one: a set is applied whole or not at all.
    mixed = {"site": "", **values} if values and address != "J1" else values
    text = msgspec.json.encode(mixed).decode()
    with pytest.raises(error, match=words):
        rig.act("set", address, text)
    assert invariants.digest(rig.core.farm) == before
    assert rig.core.farm.seq == seq


def test_what_is_no_object_is_refused() -> None:
    rig = farm()
    for text in ("", "[1]", "chunk=1", "[" * 100_000):
        with pytest.raises(CallError):
            rig.act("set", "J1", text)


def test_a_right_value_beside_a_wrong_one_is_not_set() -> None:
    rig = farm()
    with pytest.raises(CallError):
        edit(rig, "J1", priority=70, max_cores="many")
    with pytest.raises(CallError):
        edit(rig, "J1", name="new name", chunk=0)
    assert rig.job().priority == 50
    assert rig.job().spec.name == "job"


def test_the_refusal_lists_what_can_be_set() -> None:
    rig = farm()
    with pytest.raises(UnknownName) as caught:
        edit(rig, "J1/beauty", frame="1-4")
    for name in ("frames", "resources.ram_mib", "failure.min_run_s", "start_after", "limits", "pools"):
        assert name in caught.value.hint


def test_a_field_of_a_step_needs_the_step_when_there_are_several() -> None:
    rig = Rig()
    rig.join()
    rig.submit(step("a"), step("b"))
    with pytest.raises(CallError, match="of a step") as caught:
        edit(rig, "J1", chunk=2)
    assert "J1/a or J1/b" in caught.value.hint


# ---------------------------------------------------------------- fields


def test_fields_of_a_job_are_stored_one_by_one_and_its_job_file_follows() -> None:
    rig = farm()
    reply = edit(rig, "J1", name="shot 9", project="film", priority="70", max_cores=8)
    rows = [row for row in rig.out.rows if isinstance(row, JobStateRow)]
    assert [(row.what, row.old, row.new, row.who) for row in rows] == [
        ("name", "job", "shot 9", "ann"),
        ("project", "", "film", "ann"),
        ("priority", "50", "70", "ann"),
        ("max_cores", "0", "8", "ann"),
    ]
    assert reply.changed == 4
    assert "name is shot 9 (was job)" in reply.message
    source = msgspec.json.decode(rig.job().source)
    assert (source["name"], source["project"], source["priority"], source["max_cores"]) == (
        "shot 9",
        "film",
        70,
        8,
    )
    rig.restart()
    assert rig.job().spec.name == "shot 9"


def test_setting_what_is_so_already_stores_nothing() -> None:
    rig = farm()
    assert edit(rig, "J1", name="job", priority=50).changed == 0
    assert not rig.out.rows
    assert edit(rig, "J1/beauty", frames="1-4", chunk=1).changed == 0
    assert not rig.out.rows


def test_text_is_read_as_what_the_field_is() -> None:
    rig = farm()
    rig.join("big", 8, pool="film", attributes={"os": "linux", "rack": "r2"}, vram=(8_000,))
    edit(
        rig,
        "J1/beauty",
        force=True,  # no node has such a card
        chunk="3",
        resources__cores="2",
        resources__tokens="card=1",
        pools="film, anim",
        attributes="rack=r2",
        timeout_s="90.5",
        attempts="5",
        failure__min_run_s="2",
        site="local",
        order="reverse",
    )
    spec = rig.step("J1/beauty").spec
    assert (spec.chunk, spec.pools, spec.attributes) == (3, ("film", "anim"), {"rack": "r2"})
    assert spec.resources == Resources(cores=2, tokens={"card": 1})
    assert (spec.timeout_s, spec.attempts, spec.failure.min_run_s) == (90.5, 5, 2.0)
    edit(rig, "J1/beauty", resources__tokens__card="", attributes__rack="", pools="", chunk="auto")
    spec = rig.step("J1/beauty").spec
    assert (spec.resources.tokens, spec.attributes, spec.pools, spec.chunk) == ({}, {}, (), "auto")
    rig.restart()
    assert rig.step("J1/beauty").spec == spec


def test_new_needs_count_from_the_next_lease_on() -> None:
    rig = farm("1-6", nodes=0)
    rig.join("small", 1)
    first = rig.lease()
    edit(rig, "J1/beauty", resources__cores=4, force=True)
    attempt = rig.core.farm.attempts[first.attempt]
    assert attempt.cores == 1
    rig.done(first)
    assert not rig.dispatch(), "the small node is not able any more"
    big = rig.join("big", 8)
    leases = rig.dispatch()
    assert [(lease.node_id, lease.resources.cores) for lease in leases] == [(big, 4), (big, 4)]
    edit(rig, "J1/beauty", resources__cores=1)
    assert len(rig.dispatch()) == 1, "the small node takes it again"
    rig.restart()
    rig.done(leases[0])


def test_a_step_moved_to_another_pool_is_not_leased_where_it_was() -> None:
    rig = Rig()
    rig.join("a", pool="a")
    b = rig.join("b", pool="b")
    rig.submit(step(pools=("a",)))
    edit(rig, "J1/beauty", pools="b")
    assert [lease.node_id for lease in rig.dispatch()] == [b]
    edit(rig, "J1/beauty", pools="nowhere", force=True)
    edit(rig, "J1/beauty", pools="b")
    edit(rig, "J1/beauty", pools="")
    assert len(rig.dispatch()) == 1
    rig.restart()


def test_a_cap_below_what_a_step_asks_is_refused() -> None:
    rig = Rig()
    rig.join("big", 8)
    rig.submit(step(resources=Resources(cores=4)))
    with pytest.raises(CallError, match="4 cores J1/beauty asks for"):
        edit(rig, "J1", max_cores=2)
    edit(rig, "J1", max_cores=4)
    with pytest.raises(CallError, match="max_cores of the job is 4"):
        edit(rig, "J1/beauty", resources__cores=5)
    edit(rig, "J1", max_cores=8, resources__cores=8)
    assert rig.step("J1/beauty").resources.cores == 8


# ---------------------------------------------------------------- what no node can take


def test_what_no_node_can_take_is_set_by_force_and_the_answer_warns() -> None:
    rig = farm()
    with pytest.raises(CallError) as refused:
        edit(rig, "J1/beauty", pools="nope")
    assert "--force" in refused.value.hint
    answer = edit(rig, "J1/beauty", pools="nope", force=True)
    assert "warning: steps[0].pools: step 'beauty': no node can take it" in answer.message
    assert not rig.dispatch()
    # It is on its way: what does not lead to a node yet is no reason to refuse it, but is said.
    answer = edit(rig, "J1/beauty", chunk=2, site="local")
    assert "warning: " in answer.message
    answer = edit(rig, "J1/beauty", chunk=1)
    assert "warning: " not in answer.message, "it changes nothing about where it can run"
    answer = edit(rig, "J1/beauty", pools="")
    assert "warning: " not in answer.message
    assert rig.dispatch()


def test_a_farm_without_nodes_refuses_no_needs() -> None:
    rig = farm(nodes=0)
    assert "warning: " not in edit(rig, "J1/beauty", resources__gpus=4).message
