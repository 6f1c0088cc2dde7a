"""What work there is: `farm jobs`, `job`, `frames`, `attempts`, `history`, `log`, `preview`, and their JSON.

What belongs here: reading jobs and their frames, as people and as scripts.  Why work waits is in
test_cli_why, what stays on the screen in test_cli_status.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.protocol import client as wire
from tests.support.cli_rig import Run
from tests.support.fake_broker import T0_US, FakeBroker, job_row

# -- jobs and frames ---------------------------------------------------------------------------------


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
                "rank": 0,
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
                        "rank": 0,
                        "first": "",
                        "last": "",
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


# -- filters -----------------------------------------------------------------------------------------


def test_jobs_that_fit_a_filter(run: Run, broker: FakeBroker) -> None:
    result = run("jobs", "--filter", "mine state:running,failed")
    assert [line.split()[0] for line in result.out.splitlines()[1:]] == ["J12"]
    assert result.err == "1 of 2 jobs fit; archived ones were not looked at, --archived does\n"
    assert run("jobs", "--filter=-mine", "--json").json["searched"] == 2
    assert run("jobs", "--filter", "nothing").out == "no jobs\n"
    assert [
        row["job"] for row in run("jobs", "--filter", "/^SHOT/", "--user", "lee", "--json").json["jobs"]
    ] == ["J13"]


def test_a_filter_looks_through_every_page(run: Run, broker: FakeBroker) -> None:
    broker.jobs = {number: wire_job(number, number % 1000 == 7) for number in range(1, 3501)}
    document = run("jobs", "--filter", "name:needle", "--json").json
    assert [row["job"] for row in document["jobs"]] == ["J3007", "J2007", "J1007", "J7"]
    assert (document["more"], document["searched"]) == (False, 3500)
    pages = [request for request in broker.requests if isinstance(request, wire.JobsReq)]
    assert [page.limit for page in pages] == [1000] * 4
    result = run("jobs", "--filter", "needle", "--limit", "2")
    assert "`farm jobs --before J2007`" in result.err
    assert [
        row["job"] for row in run("jobs", "--filter", "needle", "--before", "J2007", "--json").json["jobs"]
    ] == ["J1007", "J7"]


def wire_job(number: int, needle: bool) -> wire.JobRow:
    return job_row(number, name=f"needle_{number}" if needle else f"hay_{number}")


def test_a_filter_about_the_archive_looks_into_it(run: Run, broker: FakeBroker) -> None:
    broker.jobs[5] = job_row(5, name="old", archived=True)
    assert run("jobs", "--filter", "old").out == "no jobs\n"
    result = run("jobs", "--filter", "old archived:yes")
    assert result.out.splitlines()[1].startswith("J5 ")
    assert result.err == "1 of 3 jobs fit\n"
    assert run("jobs", "--filter", "old", "--archived").err == "1 of 3 jobs fit\n"


def test_a_filter_that_is_wrong_is_refused_before_anybody_is_asked(run: Run, broker: FakeBroker) -> None:
    result = run("jobs", "--filter", "fx stae:failed")
    assert result.code == 2
    assert "--filter: jobs have no field 'stae', at character 4: stae\n  did you mean state?" in result.err
    assert broker.requests == []
    assert run("jobs", "--filter", "(", "--json").json["error"]["code"] == "call"
    result = run("jobs", "--filter", "state:faild")
    assert "no state 'faild' is known; did you mean failed?" in result.err
    assert run("nodes", "--filter", "priority>5").code == 2


def test_nodes_and_frames_that_fit_a_filter(run: Run, broker: FakeBroker) -> None:
    assert [row["name"] for row in run("nodes", "--filter", "gpus>0", "--json").json["nodes"]] == ["ws-12"]
    assert [row["name"] for row in run("nodes", "--filter", "state:drained", "--json").json["nodes"]] == [
        "ws-13"
    ]
    assert run("nodes", "--filter", "ram>1t").out == "none of 2 nodes fits\n"
    frames = run("frames", "J12", "--filter", "tries>0 -verified:yes", "--json").json
    assert [row["frame"] for row in frames["frames"]] == [2, 3]
    assert [
        row["frame"] for row in run("frames", "J12", "--filter", "frame:3-9", "--json").json["frames"]
    ] == [3, 4]
    broker.units[12, "beauty"] = [
        wire.FrameRow(unit=index, frame=index, state="queued") for index in range(2500)
    ]
    document = run(
        "frames", "J12", "--filter", "frame>=1990", "--offset", "10", "--limit", "5", "--json"
    ).json
    assert [row["frame"] for row in document["frames"]] == [2000, 2001, 2002, 2003, 2004]
    assert document["more"]
    assert (
        len(run("frames", "J12", "--filter", "frame>=1990", "--limit", "0", "--json").json["frames"]) == 510
    )
