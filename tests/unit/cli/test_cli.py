"""The command line against a broker in memory: what it prints, its JSON, its errors and exit codes."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from farm.cli import console as console_module
from farm.cli import watch as watch_module
from farm.cli.main import main
from farm.cli.verbs import VERBS
from farm.model.errors import Denied, FarmUnreachable, IllegalMove, SessionRefused
from farm.protocol import client as wire
from farm.sdk.client import Farm
from tests.support.fake_broker import T0_US, FakeBroker, FakeLink, job_row, node_row, step_row


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBroker]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    made = FakeBroker()
    made.jobs = {12: job_row(12), 13: job_row(13, name="shot020", user="lee", state="done", reason="")}
    made.nodes = [
        node_row(),
        node_row("ws-13", node=4, gpus=0, gpu_names=(), enabled=False, reason="fan is loud"),
    ]
    made.units[12, "beauty"] = [
        wire.FrameRow(unit=0, frame=1, state="done", attempts=1, attempt=1, node="ws-12", elapsed_s=12.5,
                      cost_nano=1_500_000, verified=True, files=("/out/b.0001.png",)),
        wire.FrameRow(unit=1, frame=2, state="failed", reason="the file is black", attempts=3, attempt=7,
                      failure="output", verified=False),
        wire.FrameRow(unit=2, frame=3, state="running", attempts=1, attempt=8, node="ws-12", progress=0.5),
        wire.FrameRow(unit=3, frame=4, state="queued"),
    ]  # fmt: skip
    monkeypatch.setattr(Farm, "connect", classmethod(lambda cls, name=None, timeout_s=None: made.farm()))
    yield made
    monkeypatch.undo()
    time.tzset()
    assert all(link.closed for link in made.links), "a connection was left open"


@pytest.fixture
def run(broker: FakeBroker, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    def call(*argv: str) -> Result:
        code = main(list(argv))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


Run = Callable[..., Result]


# -- reading -----------------------------------------------------------------------------------------


def test_jobs(run: Run) -> None:
    result = run("jobs")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == [
        "JOB",
        "STATE",
        "DONE",
        "FAILED",
        "PRIO",
        "USER",
        "PROJECT",
        "NAME",
        "SUBMITTED",
        "USD",
        "REASON",
    ]
    assert lines[1].split()[:3] == ["J13", "done", "6/10"]
    assert lines[2].split() == [
        "J12",
        "running",
        "6/10",
        "1",
        "50",
        "kim",
        "film",
        "shot010",
        "2030-03-17",
        "17:46",
        "0.001235",
    ]


def test_jobs_as_json_is_stable(run: Run) -> None:
    document = run("jobs", "--json", "--user", "kim").json
    assert document == {
        "jobs": [
            {
                "job": "J12",
                "name": "shot010",
                "user": "kim",
                "project": "film",
                "priority": 50,
                "state": "running",
                "reason": "",
                "submitted": "2030-03-17T17:46:40.000000Z",
                "started": "2030-03-17T17:46:41.000000Z",
                "ended": None,
                "units": 10,
                "done": 6,
                "failed": 1,
                "running": 1,
                "spend_usd": "0.001235",
                "waste_usd": "0.000235",
                "eta_low": None,
                "eta_high": None,
                "cost_low_usd": None,
                "cost_high_usd": None,
                "not_estimated": [],
                "archived": False,
                "steps": [
                    {
                        "address": "J12/beauty",
                        "name": "beauty",
                        "kind": "per_frame",
                        "renderer": "blender",
                        "state": "running",
                        "reason": "",
                        "frames": "1-10",
                        "units": 10,
                        "counts": {
                            "blocked": 0,
                            "queued": 2,
                            "running": 1,
                            "done": 6,
                            "failed": 1,
                            "skipped": 0,
                            "canceled": 0,
                        },
                        "mean_frame_s": 12.5,
                        "expected_frame_s": 0.0,
                        "attempts": 4,
                    }
                ],
            }
        ],
        "more": False,
    }


def test_jobs_can_be_narrowed_and_paged(run: Run, broker: FakeBroker) -> None:
    assert [row["job"] for row in run("jobs", "--json", "--state", "done,failed").json["jobs"]] == ["J13"]
    assert [row["job"] for row in run("jobs", "--json", "--before", "J13").json["jobs"]] == ["J12"]
    result = run("jobs", "--limit", "1")
    assert "`farm jobs --before J13`" in result.err
    broker.jobs.clear()
    assert run("jobs").out == "no jobs\n"


def test_job(run: Run, broker: FakeBroker) -> None:
    result = run("job", "J12")
    assert result.out.startswith("J12 shot010: running\n  user kim, project film, priority 50\n")
    assert "spent 0.001235 USD, of it wasted 0.000235 USD" in result.out
    assert "J12/beauty" in result.out
    assert run("job", "j12", "--json").json["job"] == "J12"
    broker.specs[12] = b'{"overcrank_job": 1}'
    assert run("job", "J12", "--spec").json == {"overcrank_job": 1}


def test_frames(run: Run, broker: FakeBroker) -> None:
    lines = run("frames", "J12").out.splitlines()
    assert lines[1].split() == ["beauty/1", "done", "1", "ws-12", "12", "s", "0.001500"]
    assert lines[2].endswith("the file is black")
    assert "running 50%" in lines[3]
    document = run("frames", "J12/beauty/1-2", "--json").json
    assert [row["address"] for row in document["frames"]] == ["J12/beauty/1", "J12/beauty/2"]
    assert document["frames"][1]["attempt"] == "J12/beauty@7"
    assert document["frames"][0]["cost_usd"] == "0.001500"
    assert run("frames", "J12", "--state", "queued", "--json").json["frames"][0]["frame"] == 4


def test_frames_pages_as_far_as_asked(run: Run, broker: FakeBroker) -> None:
    broker.units[12, "beauty"] = [
        wire.FrameRow(unit=index, frame=index, state="queued") for index in range(12_000)
    ]
    assert len(run("frames", "J12", "--limit", "0", "--json").json["frames"]) == 12_000
    result = run("frames", "J12", "--limit", "10")
    assert len(result.out.splitlines()) == 11
    assert "--offset 10" in result.err


def test_attempts_and_history(run: Run, broker: FakeBroker) -> None:
    broker.attempts = [
        wire.AttemptRow(attempt=70, no=7, step="beauty", node="ws-12", kind="render", frames="2",
                        started_us=T0_US, ended_us=T0_US + 65_000_000, outcome="failed", reason="black",
                        charge_nano=5_000_000, waste_nano=5_000_000)
    ]  # fmt: skip
    broker.history = [
        wire.HistoryRow(at_us=T0_US, what="priority", old="50", new="75", reason="urgent", who="kim")
    ]
    assert "1 m 05 s" in run("attempts", "J12/beauty").out
    assert run("attempts", "J12", "--json").json["attempts"][0]["attempt"] == "J12/beauty@7"
    assert "urgent" in run("history", "J12").out
    assert run("history", "--json").json == {
        "history": [
            {
                "at": "2030-03-17T17:46:40.000000Z",
                "what": "priority",
                "old": "50",
                "new": "75",
                "reason": "urgent",
                "who": "kim",
            }
        ]
    }


def test_status(run: Run) -> None:
    result = run("status")
    assert result.out.splitlines() == [
        "farm local, Overcrank 0.1.0, up 1 h 02 m",
        "  jobs   1 running, 2 done",
        "  frames 40 queued, 2 running, 58 done",
        "  nodes  1 online",
        "  spent  1.234568 USD, now 0.500000 USD/h",
        "  ! budget of project film: 80 % spent",
    ]
    assert run("--json", "status").json["spend_usd"] == "1.234568"


def test_nodes_and_gpus(run: Run) -> None:
    lines = run("nodes").out.splitlines()
    assert lines[1].split()[:5] == ["ws-12", "online", "gpu", "local", "12/16"]
    assert "32 GiB" in lines[1]
    assert "online, drained" in lines[2]
    assert lines[2].endswith("fan is loud")
    assert "1/2  2 x RTX 6000" in run("gpus").out
    assert run("gpus", "--json").json["nodes"][0]["gpus_free"] == 1
    assert run("nodes", "--json").json["nodes"][0]["rate_usd_h"] == "0.500000"


def test_spend_adds_up(run: Run, broker: FakeBroker) -> None:
    broker.spend = [
        wire.SpendLine(
            key="J12", total_nano=3, useful_nano=1, waste_nano=1, idle_nano=1, busy_s=61.0, frames=4
        ),
        wire.SpendLine(key="J13", total_nano=10**9, useful_nano=10**9, waste_nano=0, idle_nano=0, frames=6),
    ]
    lines = run("spend").out.splitlines()
    assert lines[0].split() == ["JOB", "USD", "USEFUL", "WASTE", "IDLE", "BUSY", "FRAMES"]
    assert lines[-1].split()[:2] == ["total", "1.000000"]
    document = run("spend", "J12", "--by", "user", "--json").json
    assert document["by"] == "user"
    assert broker.requests[-1].job == 12


def test_why_of_work_that_waits_names_causes_nodes_and_a_start(run: Run, broker: FakeBroker) -> None:
    verdicts = [
        wire.WhyNodes(filter="room", reason="has 2 of 16 cores free", cure="", nodes=("ws-12",), count=1),
        wire.WhyNodes(
            filter="service",
            reason="is disabled by ann: fan is loud",
            cure="farm nodes enable ws-13",
            nodes=("ws-13", "ws-14"),
            count=5,
        ),
        *(
            wire.WhyNodes(filter="hours", reason=f"opens at {hour}:00", cure="", nodes=(f"h{hour}",), count=2)
            for hour in range(10, 18)
        ),
    ]
    row = wire.WhyRow(
        address="J12/beauty",
        state="queued",
        units=10,
        causes=(wire.WhyCause("J9 has priority 90", "farm priority J12 91"), wire.WhyCause("no licence")),
        nodes=tuple(verdicts),
        start_low_us=1,
        start_high_us=2,
        ahead=340,
        share=0.25,
    )
    broker.why["J12"] = {"rows": (row,), "more": True}
    result = run("why", "J12")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[:6] == [
        "J12 shot010 is running",
        "J12/beauty is queued (10 frames)",
        "  J9 has priority 90  -> farm priority J12 91",
        "  no licence",
        "  ws-12: has 2 of 16 cores free",
        "  ws-13, ws-14 and 3 more: is disabled by ann: fan is loud  -> farm nodes enable ws-13",
    ]
    # Eight verdicts are told; what is left out is counted, not hidden.
    assert lines[6:12] == [f"  h{hour} and 1 more: opens at {hour}:00" for hour in range(10, 16)]
    assert lines[12:] == [
        "  and 4 nodes for 2 other reasons",
        "  expected to start now; its user may expect 25% of the farm while others want it too",
        "(only the first frames were looked at; name fewer to see others)",
    ]


def test_why_of_frames_that_failed_says_where_and_how_often(run: Run, broker: FakeBroker) -> None:
    row = wire.WhyRow(
        address="J12/beauty/2",
        state="failed",
        units=1,
        causes=(wire.WhyCause("the file is black", "farm log J12/beauty@7"),),
        failure="output",
        failed_on=("ws-12", "ws-13"),
        tries=3,
    )
    broker.why["J12/beauty/2"] = {"rows": (row,)}
    assert run("why", "J12/beauty/2").out.splitlines()[1:] == [
        "J12/beauty/2 is failed [output]",
        "  the file is black  -> farm log J12/beauty@7",
        "  failed on ws-12, ws-13, 3 times in all",
    ]
    # Nobody reads it from the log or the list of frames: one answer, by the broker alone.
    asked = [type(request) for request in broker.requests]
    assert asked == [wire.JobReq, wire.WhyReq]
    document = run("why", "J12/beauty/2", "--json").json
    assert (document["address"], document["complete"]) == ("J12/beauty/2", True)
    assert document["job"] == {"state": "running", "reason": ""}
    (answer,) = document["answers"]
    assert answer["causes"] == [{"what": "the file is black", "cure": "farm log J12/beauty@7"}]
    assert (answer["start_low_us"], answer["failed_on"]) == (None, ["ws-12", "ws-13"])


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (7000.5, None, "expected to start in 117 min at the earliest"),
        (7200.5, 36000.5, "expected to start between 2.0 h and 10.0 h from now"),
        (-5, 60.5, "expected to start within 60 s"),
        (119.5, 119.6, "expected to start in about 120 s"),
        (-9, None, "may start at any moment"),
    ],
)
def test_a_start_is_told_as_far_as_it_is_known(
    run: Run,
    broker: FakeBroker,
    monkeypatch: pytest.MonkeyPatch,
    low_s: float,
    high_s: float | None,
    words: str,
) -> None:
    monkeypatch.setattr("farm.cli.verbs_why.time.time", lambda: T0_US / 1e6)
    low, high = (None if value is None else T0_US + int(value * 1e6) for value in (low_s, high_s))
    row = wire.WhyRow(address="J12/beauty/4", state="queued", units=1, start_low_us=low, start_high_us=high)
    broker.why["J12/beauty/4"] = {"rows": (row,)}
    assert run("why", "J12/beauty/4").out.splitlines()[-1] == f"  {words}"


def test_no_start_is_promised_to_what_stands_still(run: Run, broker: FakeBroker) -> None:
    row = wire.WhyRow(address="J12/beauty/4", state="queued", units=1, share=0.5)
    broker.why["J12/beauty/4"] = {"rows": (row,)}
    assert run("why", "J12/beauty/4").out.splitlines() == [
        "J12 shot010 is running",
        "J12/beauty/4 is queued",
    ]
    broker.jobs[12] = job_row(12, state="paused", reason="paused by ann")
    assert run("why", "J12/beauty/4").out.splitlines()[0] == "J12 shot010 is paused: paused by ann"


def test_why_a_node_is_idle(run: Run, broker: FakeBroker) -> None:
    work = wire.WhyWork("J13/comp", "needs 32 cores, has 16", "ask for fewer cores")
    broker.why["ws-12"] = {"node": "ws-12", "work": (work,), "waiting": 3}
    assert run("why", "--node", "ws-12").out.splitlines() == [
        "ws-12 is in service and has room",
        "  3 steps wait in the farm (the first 1 in order); not here, because:",
        "  J13/comp: needs 32 cores, has 16  -> ask for fewer cores",
    ]
    assert run("why", "--node", "ws-12", "--json").json == {
        "node": "ws-12",
        "reason": "",
        "waiting": 3,
        "work": [{"address": "J13/comp", "reason": "needs 32 cores, has 16", "cure": "ask for fewer cores"}],
    }
    broker.why["ws-13"] = {"node": "ws-13", "reason": "is disabled: fan is loud"}
    assert run("why", "--node", "ws-13").out == "ws-13 is disabled: fan is loud\n"
    for argv in ((), ("J12", "--node", "ws-12")):
        result = run("why", *argv)
        assert (result.code, result.out) == (2, "")
        assert "say an address or --node NAME" in result.err
    assert "there is no node 'ws-99'" in run("why", "--node", "ws-99").err


# -- logs --------------------------------------------------------------------------------------------


def test_log_of_a_frame_is_its_last_attempt_s(run: Run, broker: FakeBroker) -> None:
    broker.logs[12, "beauty", 7] = (b"Fra:2\nblack\n", True)
    broker.logs[12, "beauty", 3] = (b"older\n", True)
    assert run("log", "J12/beauty/2").out == "Fra:2\nblack\n"
    assert run("log", "J12/beauty@3").out == "older\n"
    assert run("log", "J12/beauty/2", "--json").json == {
        "attempt": "J12/beauty@7",
        "offset": 0,
        "size": 12,
        "ended": True,
        "text": "Fra:2\nblack\n",
    }


@pytest.mark.parametrize(("lines", "expected"), [(1, "c\n"), (2, "b\nc\n"), (9, "a\nb\nc\n"), (0, "")])
def test_tail(run: Run, broker: FakeBroker, lines: int, expected: str) -> None:
    broker.logs[12, "beauty", 7] = (b"a\nb\nc\n", True)
    assert run("log", "J12/beauty/2", "-n", str(lines)).out == expected


def test_tail_of_a_long_log_reads_only_its_end(run: Run, broker: FakeBroker) -> None:
    text = b"".join(b"line %d\n" % number for number in range(200_000))
    broker.logs[12, "beauty", 7] = (text, True)
    assert run("log", "J12/beauty/2", "-n", "2").out == "line 199998\nline 199999\n"
    assert all(getattr(request, "offset", -1) != 0 for request in broker.requests[1:])


def test_log_of_what_never_ran(run: Run) -> None:
    result = run("log", "J12/beauty/4")
    assert result.code == 2
    assert result.err == (
        "farm: J12/beauty/4 was not attempted yet, so there is no log\n  see `farm why J12/beauty/4`\n"
    )
    assert run("log", "J12").code == 2


def test_preview(run: Run, broker: FakeBroker, tmp_path: Path) -> None:
    broker.previews[12, "beauty", 1] = b"\xff\xd8jpeg"
    target = tmp_path / "p.jpg"
    assert run("preview", "J12/beauty/2", "-o", str(target)).code == 0
    assert target.read_bytes() == b"\xff\xd8jpeg"
    assert run("preview", "J12/beauty/1-2", "-o", str(target)).code == 2
    assert run("preview", "J12/beauty/2", "-o", str(tmp_path / "no" / "p.jpg")).code == 3


# -- acting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["pause", "resume", "cancel", "retry", "skip", "mark-done", "archive"])
def test_actions_reach_the_broker_as_they_are(run: Run, broker: FakeBroker, action: str) -> None:
    result = run(action, "J12", "J13", "--reason", "because")
    assert (result.code, result.out) == (0, f"J12 {action}\nJ13 {action}\n")
    assert [(r.action, r.address, r.reason) for r in broker.requests] == [
        (action, "J12", "because"),
        (action, "J13", "because"),
    ]


def test_delete_asks_where_somebody_can_answer(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acted() -> list[str]:
        return [request.address for request in broker.requests if isinstance(request, wire.ActReq)]

    typed = io.StringIO("y\n")
    monkeypatch.setattr("sys.stdin", typed)
    for words in (("J12",), ("J12", "--json")):
        result = run("delete", *words)
        assert result.code == 2
        assert "say --yes" in (result.err or result.out)
    monkeypatch.setattr(typed, "isatty", lambda: True, raising=False)
    assert run("delete", "J12", "--json").code == 2, "nobody is asked in the middle of a document"
    assert acted() == []
    result = run("delete", "J12")
    assert (result.code, acted()) == (0, ["J12"])
    assert "Delete? [y/N]" in result.err
    assert "J12 " in result.err
    for answer in ("n\n", "", "yes please\n"):
        refusing = io.StringIO(answer)
        monkeypatch.setattr(refusing, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", refusing)
        result = run("delete", "J12")
        assert (result.code, result.err.splitlines()[-1]) == (2, "farm: nothing was deleted")
    assert run("delete", "J12", "J13", "--yes", "--reason", "old").out == "J12 delete\nJ13 delete\n"
    assert acted() == ["J12", "J12", "J13"]
    assert run("delete", "J12/beauty", "--yes").code == 2


def test_priority(run: Run, broker: FakeBroker) -> None:
    assert run("priority", "J12", "75", "--json").json == {
        "action": "priority",
        "results": [{"address": "J12", "changed": 1, "message": "J12 priority 75"}],
    }
    assert run("priority", "J12", "101").code == 2
    assert run("priority", "J12", "high").code == 2
    assert run("priority", "J12/beauty", "5").code == 2


def test_node_actions(run: Run, broker: FakeBroker) -> None:
    assert run("node", "drain", "ws-12", "--reason", "fan").out == "ws-12: node-drain\n"
    assert broker.requests[-1].reason == "fan"
    result = run("node", "forget", "ws-99")
    assert (result.code, result.err) == (2, "farm: there is no node 'ws-99'\n")


def test_keys(run: Run, broker: FakeBroker) -> None:
    broker.keys = [
        wire.KeyRow(
            public="k" * 40, role="artist", user="kim", pool="", site="", label="kim@ws", revoked=False
        )
    ]
    assert "kim@ws" in run("keys", "list").out
    result = run("keys", "invite", "--role", "agent", "--pool", "gpu", "--ttl-s", "60")
    assert result.out == "ovc1-abc\n"
    assert "valid for 1 m 00 s" in result.err
    assert (broker.requests[-1].role, broker.requests[-1].pool, broker.requests[-1].ttl_s) == (
        "agent",
        "gpu",
        60.0,
    )
    assert run("keys", "invite", "--role", "artist").code == 2
    assert run("keys", "invite", "--role", "agent", "--user", "kim").code == 2
    assert run("keys", "revoke", "kim@ws").out == "revoked: kim@ws\n"
    assert run("keys", "list", "--json").json["keys"][0]["user"] == "kim"
    assert run("keys").code == 2


def test_shutdown(run: Run, broker: FakeBroker) -> None:
    result = run("shutdown", "--reason", "kernel")
    assert "the broker of local stops" in result.out
    assert "2 frames still running" in result.out
    assert broker.requests[-1].reason == "kernel"


# -- submitting --------------------------------------------------------------------------------------


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    path = tmp_path / "scene.blend"
    path.write_bytes(b"BLENDER")
    return path


def test_submit_sends_a_checked_job_with_a_token(run: Run, broker: FakeBroker, scene: Path) -> None:
    broker.warnings = ("the farm says so",)
    result = run(
        "submit", str(scene), "--frames", "1-12", "-o", str(scene.parent), "--param", "engine=CYCLES"
    )
    assert (result.code, result.out, result.err) == (0, "J1\n", "warning: the farm says so\n")
    sent = json.loads(broker.requests[-1].job)
    assert sent["token"]
    assert sent["steps"][0]["frames"] == "1-12"


def test_submit_of_a_command_keeps_its_arguments(run: Run, broker: FakeBroker, tmp_path: Path) -> None:
    result = run(
        "submit", "--renderer", "command", "--frames", "1-2", "-o", f"{tmp_path}/f.####.txt", "--",
        "python3", "x.py", "--json", "{frame}", "--farm", "--", "{output}",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "J1\n")
    sent = json.loads(broker.requests[-1].job)
    assert sent["steps"][0]["params"]["command"] == [
        "python3",
        "x.py",
        "--json",
        "{frame}",
        "--farm",
        "--",
        "{output}",
    ]


def test_submit_dry_run_sends_nothing(run: Run, broker: FakeBroker, scene: Path) -> None:
    result = run("submit", str(scene), "--frames", "1-2", "-o", str(scene.parent), "--dry-run")
    assert result.json["steps"][0]["renderer"] == "blender"
    assert broker.requests == []


def test_submit_again_with_a_token_says_so(run: Run, scene: Path) -> None:
    argv = ("submit", str(scene), "--frames", "1", "-o", str(scene.parent), "--token", "t")
    assert run(*argv).out == "J1\n"
    assert run(*argv).out == "J1 (submitted before)\n"


def test_the_reply_file_tells_success(run: Run, broker: FakeBroker, scene: Path, tmp_path: Path) -> None:
    job = tmp_path / "jöb.json"
    job.write_text(
        json.dumps(
            {
                "overcrank_job": 1,
                "name": "ñ",
                "steps": [
                    {"name": "s", "kind": "single", "renderer": "command", "params": {"command": ["true"]}}
                ],
            }
        ),
        encoding="utf-8",
    )
    reply = tmp_path / "reply.json"
    assert run("submit", str(job), "--reply", str(reply)).code == 0
    raw = reply.read_bytes()
    assert raw.isascii()
    assert json.loads(raw) == {
        "job": {"address": "J1", "number": 1, "name": "ñ", "farm": "local"},
        "again": False,
        "warnings": [],
    }
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no.json",), "call", "cannot be read"),
        (("scene.blend",), "call", "which frames"),
        (("scene.blend", "--frames", "1-"), "frame-range", "character"),
    ],
)
def test_the_reply_file_tells_errors(
    run: Run,
    tmp_path: Path,
    scene: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: tuple[str, ...],
    code: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = (
        run("submit", *argv, "-o", "out", "--reply", "reply.json")
        if argv[0] != "no.json"
        else run("submit", *argv, "--reply", "reply.json")
    )
    assert result.code == 2
    error = json.loads((tmp_path / "reply.json").read_text(encoding="ascii"))["error"]
    assert error["code"] == code
    assert words in error["message"]


def test_the_reply_file_tells_of_a_farm_that_is_away(
    run: Run, scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(cls: type[Farm], name: str | None = None, timeout_s: float | None = None) -> Farm:
        raise FarmUnreachable("no farm answers at 127.0.0.1:7460", hint="start one with `farm broker`")

    monkeypatch.setattr(Farm, "connect", classmethod(away))
    reply = tmp_path / "r.json"
    result = run("submit", str(scene), "--frames", "1", "-o", str(tmp_path), "--reply", str(reply))
    assert result.code == 3
    assert result.err == "farm: no farm answers at 127.0.0.1:7460\n  start one with `farm broker`\n"
    assert json.loads(reply.read_text())["error"] == {
        "code": "unreachable",
        "message": "no farm answers at 127.0.0.1:7460",
        "hint": "start one with `farm broker`",
    }


def test_submit_wait_ends_as_the_job_does(run: Run, broker: FakeBroker, scene: Path) -> None:
    argv = ("submit", str(scene), "--frames", "1-10", "-o", str(scene.parent), "--wait")
    broker.jobs[1] = job_row(1)

    def end(state: str, failed: int) -> Callable[[FakeLink], None]:
        def step(link: FakeLink) -> None:
            broker.jobs[1] = job_row(1, state=state, running=0, failed=failed, done=10 - failed)
            broker.delta(link, jobs=(broker.jobs[1],))

        return step

    broker.script.append(end("done", 0))
    result = run(*argv)
    assert result.code == 0
    assert result.out.splitlines() == ["J1", "J1 shot010: done, 10 of 10 frames done"]
    broker.jobs[2] = job_row(2)
    broker.jobs[1] = job_row(1)
    broker.tokens.clear()
    broker.script.append(end("failed", 3))
    result = run(*argv)
    assert result.code == 1
    assert "3 failed" in result.out


# -- watching ----------------------------------------------------------------------------------------


def test_watch_in_a_pipe_prints_each_change_once(run: Run, broker: FakeBroker) -> None:
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(done=7),)))
    broker.script.append(lambda link: None)
    broker.script.append(lambda link: broker.delta(link, jobs=(job_row(done=10, state="done", running=0),)))
    result = run("job", "J12", "--watch", "--json")
    assert result.code == 0
    documents = [json.loads(line) for line in result.out.splitlines()]
    assert [(row["state"], row["done"]) for row in documents] == [
        ("running", 6),
        ("running", 7),
        ("done", 10),
    ]


def test_ctrl_c_ends_a_watch_quietly(run: Run, broker: FakeBroker) -> None:
    def interrupt(link: FakeLink) -> None:
        raise KeyboardInterrupt

    broker.script.append(interrupt)
    result = run("jobs", "--watch")
    assert result.code == 130
    assert "J12" in result.out
    assert result.err == "\n"


def test_watch_tells_that_the_connection_is_lost(run: Run, broker: FakeBroker) -> None:
    broker.script.append(FakeLink.drop)

    def interrupt(link: FakeLink) -> None:
        raise KeyboardInterrupt

    broker.script.append(interrupt)
    result = run("nodes", "--watch")
    assert "connection to 127.0.0.1:7460 was lost" in result.err


def test_status_can_be_watched(run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(link: FakeLink) -> None:
        raise KeyboardInterrupt

    broker.script.extend([lambda link: broker.delta(link, jobs=(job_row(done=7),)), interrupt])
    result = run("status", "--watch")
    assert result.out.count("farm local") == 1  # nothing of it changed
    assert watch_module.__doc__


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("jbos",), 2, "did you mean `farm jobs`"),
        (("jobs", "--state", "runing"), 2, "there is no state 'runing'"),
        (("jobs", "--limit", "0"), 2, "--limit: 0 is not between 1 and 1000"),
        (("jobs", "--limit", "x"), 2, "invalid int value"),
        (("jobs", "--nope"), 2, "unrecognized arguments: --nope"),
        (("job",), 2, "the following arguments are required: JOB"),
        (("job", "12"), 2, "'12' is not an address"),
        (("job", "J12/beauty"), 2, "is not a job"),
        (("job", "J99"), 2, "there is no job J99"),
        (("frames", "J12/beauty/1-"), 2, "no number follows"),
        (("cancel", "J12/beauty@7"), 2, "is an attempt"),
        (("why", "J12/beuty"), 2, "J12 has no step 'beuty'"),
        (("schema", "renderer"), 2, "which renderer?"),
        (("schema", "renderer", "maya"), 2, "there is no renderer 'maya'"),
    ],
)
def test_wrong_calls_are_told_in_words(run: Run, argv: tuple[str, ...], code: int, words: str) -> None:
    result = run(*argv)
    assert result.code == code
    assert words in result.err
    assert result.err.startswith("farm: ")
    assert "Traceback" not in result.err
    assert result.out == ""
    document = run("--json", *argv)
    assert document.code == code
    assert set(document.json["error"]) >= {"code", "message", "hint"}
    assert document.err == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (IllegalMove("a done unit cannot become canceled"), 2),
        (Denied("lee may not cancel J12"), 2),
        (FarmUnreachable("away"), 3),
        (SessionRefused("the farm does not know this key"), 3),
    ],
)
def test_exit_codes_follow_the_error(run: Run, broker: FakeBroker, error: Exception, code: int) -> None:
    broker.errors[wire.ActReq] = error  # type: ignore[assignment]
    assert run("cancel", "J12").code == code


@pytest.mark.parametrize("name", [verb.name for verb in VERBS if not verb.module])
def test_what_is_not_built_is_refused_by_name(run: Run, name: str) -> None:
    result = run(name, "whatever")
    assert result.code == 2
    assert f"`farm {name}` is not built yet" in result.err


def test_a_bug_is_one_line_and_a_kept_traceback(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("farm.cli.verbs_work._show_jobs", lambda console, rows: {}["nothing"])
    result = run("jobs")
    assert result.code == 1
    assert result.err.count("\n") == 1
    kept = next(tmp_path.glob("overcrank-error-*.txt"))
    assert str(kept) in result.err
    assert "KeyError: 'nothing'" in kept.read_text()


def test_a_reader_that_goes_away_is_no_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: console_module.Console, *rest: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(console_module.Console, "table", broken)
    monkeypatch.setattr("farm.cli.main._drop_stdout", lambda: None)
    result = run("jobs")
    assert (result.code, result.err) == (0, "")


def test_names_from_others_cannot_move_the_cursor(run: Run, broker: FakeBroker) -> None:
    broker.jobs = {12: job_row(12, name="\x1b[2Jboo\nbar", steps=(step_row("beauty", reason="\x07"),))}
    for argv in (("jobs",), ("job", "J12")):
        out = run(*argv).out
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "boo" in out


# -- help --------------------------------------------------------------------------------------------


def test_help_lists_every_verb(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    for verb in VERBS:
        assert f"  {verb.name} " in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 110
    assert run().code == 2


@pytest.mark.parametrize("name", [verb.name for verb in VERBS if verb.module])
def test_every_verb_has_help_with_examples(
    run: Run, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from farm.cli.main import load_command
    from farm.cli.verbs import find_verb

    verb = find_verb(name)
    assert verb is not None
    load_command(verb)
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert f"usage: farm {name}" in out
    assert "examples:" in out
    assert f"farm {name}" in out.partition("examples:")[2]


@pytest.mark.parametrize("name", [verb.name for verb in VERBS if verb.module])
def test_a_call_without_arguments_means_the_same_without_argparse(name: str) -> None:
    from farm.cli.main import load_command, make_parser
    from farm.cli.plain import plain_arguments
    from farm.cli.verbs import find_verb
    from farm.model.errors import CallError

    verb = find_verb(name)
    assert verb is not None
    command = load_command(verb)
    plain = plain_arguments(command.setup)
    try:
        parsed = vars(make_parser(verb, command).parse_args([]))
    except CallError:
        assert plain is None
        return
    assert plain is None or vars(plain) | {"farm": None, "json": False} == parsed
    assert plain is not None or name not in ("jobs", "status", "nodes", "gpus", "spend")


def test_farm_can_be_named_before_or_after_the_verb(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str | None] = []

    def connect(cls: type[Farm], name: str | None = None, timeout_s: float | None = None) -> Farm:
        named.append(name)
        return broker.farm()

    monkeypatch.setattr(Farm, "connect", classmethod(connect))
    run("--farm", "studio", "jobs")
    run("jobs", "--farm", "other")
    run("--farm=third", "jobs")
    run("jobs")
    assert named == ["studio", "other", "third", None]


def test_schema(run: Run) -> None:
    assert "JobSpec" in json.dumps(run("schema", "job").json)
    assert "samples" in run("schema", "renderer", "blender").out
    assert {row["name"] for row in run("schema", "renderers", "--json").json["renderers"]} >= {
        "blender",
        "command",
    }
    assert any(row["name"] == "lost_s" for row in run("schema", "options", "--json").json["options"])


def test_the_reference_has_a_section_for_every_verb_and_its_json() -> None:
    from farm.cli.reference import reference

    text = reference()
    page = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"### `farm {verb.name}`" in text
        assert f"### `farm {verb.name}`" in page, "run python -m farm.cli.reference > docs/cli.md"
