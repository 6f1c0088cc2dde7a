"""The agent's smaller parts: judgement, environment, plans, reports of any size, memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.outputs import FileFacts
from farm.model.reports import DONE, FAILED, RELEASED, UnitReport
from farm.model.states import FailureClass
from farm.protocol.agent import BatchMsg, LeaseMsg, ReportMsg, StepTemplate
from farm.protocol.codec import encode
from farm.renderers.base import AppInstall, Problem
from node_agent.checker import FILES_REPORTED, _fitting
from node_agent.desk import Desk, _parts
from node_agent.environ import clean_environment
from node_agent.judge import WHOLE, End, Left, ended_by_us, fates
from node_agent.machine import Phase
from node_agent.outbox import Outbox
from node_agent.plan import choose_app
from node_agent.troubles import WorkTrouble
from tests.support.agent_far_end import FakeBroker
from tests.support.agent_rig import COPY, Rig, make_picture, programs_run, python_step

# ------------------------------------------------------------------ judgement

CRASH = End(FailureClass.RENDERER, "it crashed (SIGSEGV)", crashed=True)
WELL = End(None, "it ended well")


def left(*bad: str, begun: tuple[int, ...] = ()) -> list[Left]:
    return [Left(n, n + 100, n in begun, text) for n, text in enumerate(bad)]


def outcomes(units: list[Left], end: End, problems: tuple[Problem, ...] = (), *, outputs: bool = True) -> str:
    letters = {DONE: "d", FAILED: "f", RELEASED: "r"}
    return "".join(letters[fate.outcome] for fate in fates(units, end, problems, outputs=outputs))


@pytest.mark.parametrize(
    ("units", "end", "expected"),
    [
        (left("", ""), WELL, "dd"),
        (left("", ""), CRASH, "dd"),
        (left("gone", "gone"), WELL, "ff"),
        (left("gone", "gone", "gone"), CRASH, "frr"),
        (left("", "gone", "gone", begun=(0, 1)), CRASH, "dfr"),
        (left("cut", "gone", "gone", begun=(0, 1)), CRASH, "ffr"),
        (left("gone", "gone"), End(FailureClass.CONFIG, "no scene"), "ff"),
        (left("gone", "gone"), End(FailureClass.LICENCE, "no token"), "ff"),
        (left("gone", "gone", begun=(0,)), End(FailureClass.TIMEOUT, "too long", crashed=True), "fr"),
    ],
)
def test_who_is_charged(units: list[Left], end: End, expected: str) -> None:
    assert outcomes(units, end) == expected


LATE = End(FailureClass.TIMEOUT, "too long", crashed=True)


@pytest.mark.parametrize(
    ("units", "late", "expected"),
    [
        # The frame it was at has failed, however good its file looks and whenever it was written.
        (left(""), (), "f"),
        (left("", "", "gone", begun=(0, 1)), (), "dfr"),
        # Nothing tells which one it was at: the last with a file.
        (left("", "", "", "gone"), (), "ddfr"),
        (left("gone", "gone"), (), "fr"),
        # What a program wrote after it was told to end is given back.
        (left("", "", "", begun=(0,)), (1, 2), "frr"),
        (left("", "", "gone", begun=(0, 1)), (0, 1), "rfr"),
        (left("", "", ""), (1, 2), "dfr"),
    ],
)
def test_of_a_program_that_was_told_to_end_only_what_lay_there_before_counts(
    units: list[Left], late: tuple[int, ...], expected: str
) -> None:
    found = ended_by_us(units, late, "too long")
    assert outcomes(found, LATE) == expected
    charged = [fate for fate in fates(found, LATE, (), outputs=True) if fate.outcome == FAILED]
    assert [(fate.failure, fate.reason) for fate in charged] == [("timeout", "too long")]


def test_without_outputs_the_exit_code_alone_counts() -> None:
    assert outcomes(left("", ""), WELL, outputs=False) == "dd"
    assert outcomes(left("it crashed", "it crashed", begun=(0, 1)), CRASH, outputs=False) == "ff"
    assert outcomes(left("it crashed", "it crashed", begun=(0,)), CRASH, outputs=False) == "fr"


def test_a_full_disk_explains_a_crash_better_than_the_crash() -> None:
    units = [Left(0, 1, True, "the disk of /out is full", FailureClass.PATH)]
    fate = fates(units, CRASH, (), outputs=True)[0]
    assert (fate.failure, fate.reason) == ("path", "the disk of /out is full")


def test_a_fatal_line_vetoes_its_frame_only() -> None:
    problem = Problem(FailureClass.OUTPUT, "frame 100 was skipped", fatal=True, frame=100)
    assert outcomes(left("", ""), WELL, (problem,)) == "fd"
    everywhere = Problem(FailureClass.CONFIG, "the library is missing", fatal=True)
    assert outcomes(left("", ""), WELL, (everywhere,)) == "ff"
    mild = Problem(FailureClass.CONFIG, "look at this", fatal=True, warning=True)
    assert outcomes(left("", ""), WELL, (mild,)) == "dd"


@given(
    bad=st.lists(st.sampled_from(["", "gone"]), min_size=1, max_size=8),
    begun=st.sets(st.integers(0, 7)),
    failure=st.sampled_from([None, *FailureClass]),
    outputs=st.booleans(),
)
def test_every_unit_has_one_fate_and_no_failure_is_free(
    bad: list[str], begun: set[int], failure: FailureClass | None, outputs: bool
) -> None:
    if not outputs:
        bad = ["it failed" if failure else ""] * len(bad)
    units = left(*bad, begun=tuple(begun))
    found = fates(units, End(failure, "words", crashed=failure is not None), (), outputs=outputs)
    assert [fate.index for fate in found] == [unit.index for unit in units]
    for unit, fate in zip(units, found, strict=True):
        assert (fate.outcome == DONE) == (unit.bad == "")
        if fate.outcome == FAILED:
            assert fate.failure
            assert fate.reason
    failed = [fate for fate in found if fate.outcome == FAILED]
    released = [fate for fate in found if fate.outcome == RELEASED]
    # Giving frames back without charging any would have them leased and lost for ever.
    assert failed or not released
    if failure is None or failure in WHOLE:
        assert not released


# ------------------------------------------------------------------ environment


def test_the_agents_own_environment_stays_its_own() -> None:
    own = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "SECRET": "x",
        "OVERCRANK_TOKEN": "x",
        "LD_LIBRARY_PATH": "/l",
    }
    env = clean_environment(
        cores=3, gpus=(1, 3), scratch="/s", facts={"JOB": "J1"}, step_env={"OVERCRANK_JOB": "J9"}, own=own
    )
    assert "SECRET" not in env
    assert "OVERCRANK_TOKEN" not in env
    assert env["OVERCRANK_JOB"] == "J1"
    assert env["CUDA_VISIBLE_DEVICES"] == "1,3"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env["OMP_NUM_THREADS"] == "3"
    assert env["LD_LIBRARY_PATH"] == "/l"


def test_a_step_cannot_take_gpus_it_was_not_leased() -> None:
    env = clean_environment(
        cores=1,
        gpus=(),
        scratch="/s",
        facts={},
        step_env={"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "7"},
        own={},
    )
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert env["OMP_NUM_THREADS"] == "7"


# ------------------------------------------------------------------ plans


def test_the_newest_application_that_fits_is_taken() -> None:
    apps = [AppInstall("blender", version, ("b",)) for version in ("3.4.1", "4.2.0", "4.10.1", "odd")]
    assert choose_app(apps, "").version == "4.10.1"  # type: ignore[union-attr]
    assert choose_app(apps[:3], ">=4,<4.5").version == "4.2.0"  # type: ignore[union-attr]
    assert choose_app(apps[:3], ">=5") is None
    assert choose_app(apps[:3], "4.2").version == "4.2.0"  # type: ignore[union-attr]
    with pytest.raises(WorkTrouble, match="is not a version constraint"):
        choose_app(apps, "four")


def test_paths_of_the_artists_machine_are_mapped_here(tmp_path: Path) -> None:
    broker = FakeBroker()
    broker.path_rules = (("P:\\proj", str(tmp_path)),)
    source = make_picture(tmp_path / "in.0004.png")
    step = python_step(COPY, "{input}", "{output}", "{frame}", outputs=["P:\\proj\\out\\f.####.png"])
    from farm.protocol.agent import InputPlan

    step = msgspec.structs.replace(
        step,
        inputs={"input": InputPlan("P:\\proj\\in.####.png", "4-6")},
        params={**step.params, "input": "P:\\proj\\in.####.png"},
    )
    with Rig(tmp_path / "agent", broker=broker) as rig:
        unit = broker.closed(broker.lease(step, [4]).attempt)[0]
        assert unit.outcome == DONE, unit
        assert unit.files[0].path == f"{tmp_path}/out/f.0004.png"
        assert (tmp_path / "out" / "f.0004.png").read_bytes() == source.read_bytes()
        assert rig.agent.planner.site.mapper.rules


def test_a_broken_template_is_the_jobs_fault_and_the_agent_lives(tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    template = StepTemplate(job=1, step="a", kind="single", renderer="command", params={"command": deep})
    with Rig(tmp_path) as rig:
        unit = rig.broker.closed(rig.broker.lease(template).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "config")
        good = rig.broker.lease(python_step("pass", kind="single"))
        assert rig.broker.closed(good.attempt)[0].outcome == DONE


# ------------------------------------------------------------------ reports of any size


def test_reports_are_split_below_what_a_broker_takes() -> None:
    units = [UnitReport(n, RELEASED, "", "w" * 300) for n in range(20_000)]
    parts = _parts(units)
    assert [unit for part in parts for unit in part] == units
    assert max(len(encode(ReportMsg(1, 1, 1, part))) for part in parts) < 1 << 20
    assert _parts([]) == []


def test_a_unit_of_very_many_files_still_fits_a_message() -> None:
    files = tuple(FileFacts(f"/out/{n:06d}.png", 1, "0" * 64) for n in range(20_000))
    report = _fitting(UnitReport(0, DONE, files=files))
    assert len(report.files) == FILES_REPORTED
    assert "20000" in report.warning
    small = UnitReport(0, DONE, files=files[:10])
    assert _fitting(small) is small


def test_a_large_chunk_that_cannot_start_is_given_back_in_parts(tmp_path: Path) -> None:
    with Rig(tmp_path) as rig:
        step = StepTemplate(job=1, step="a", kind="per_frame", renderer="nonesuch", frames="1-5000")
        lease = rig.broker.lease(step, range(1, 5001))
        units = rig.broker.closed(lease.attempt)
        assert len(units) == 5000
        assert sum(1 for report in rig.broker.reports if report.attempt == lease.attempt) > 1


# ------------------------------------------------------------------ memory


def test_an_attempt_that_outgrows_the_node_is_ended_as_out_of_memory(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = f"import time\nx = bytearray(200 << 20)\nopen({str(ready)!r}, 'w').close()\ntime.sleep(600)"
    with Rig(tmp_path, ram_mib=100) as rig:
        lease = rig.broker.lease(python_step(code, "{frames}"), [1, 2])
        programs_run(rig)
        unit = rig.broker.closed(lease.attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "oom-ram")
        assert "the whole node has 100 MiB" in unit.reason
        assert unit.ram_mib >= 200
        assert rig.broker.units(lease.attempt)[1].outcome == RELEASED
        loads = [beat.load for _, beat in rig.broker.beats if beat.load is not None]
        assert loads
        assert loads[-1].ram_free_mib > 0


def test_the_desk_never_waits_for_the_disk(tmp_path: Path) -> None:
    """A heartbeat is made while a report is being written: the writer holds only its own lock."""
    outbox = Outbox(tmp_path / "outbox.db")
    desk = Desk(outbox)
    outbox.put(1, 1)
    with outbox._disk:
        assert desk.beat() == ((), ())
        assert desk.hello_attempts() == ((), (1,))
        outbox.ack([1])
        assert outbox.pending() == []
    outbox.close()


def test_an_attempt_stopped_while_a_file_is_looked_at_asks_for_nothing(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox.db")
    desk = Desk(outbox)
    units = (0, 1)
    lease = LeaseMsg(7, 1, 99, 0, units, units, msgspec.Raw(b"\xc0"), ask=True)
    (held,) = desk.apply(BatchMsg(1, leases=(lease,)))
    desk.online = True
    files = (FileFacts("/f.1.png", 1, "0" * 64),)
    for index in units:
        desk.machine.move(7, index, Phase.CHECKING)
    desk.verified(held, 0, files, ask=True)
    assert len(desk.outgoing()) == 1
    desk.stop_all("the agent was stopped")
    desk.verified(held, 1, files, ask=True)
    assert desk.outgoing() == []
    assert all(desk.settle(held, index) for index in units)
    desk.close(held, [UnitReport(index, RELEASED, "", "the agent was stopped") for index in units])
    outbox.close()
