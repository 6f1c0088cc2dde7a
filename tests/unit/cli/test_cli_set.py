"""`farm set`, `resubmit`, `policy`, `limits`, `estimate`, words of `submit`: sent, printed, refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from farm.cli.main import main
from farm.model.errors import UnknownName
from farm.model.policy import LimitRule, Policy
from farm.protocol import client as wire
from farm.sdk.client import Farm
from tests.support.fake_broker import T0_US, FakeBroker, job_row


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
    monkeypatch.delenv("OVERCRANK_FARM", raising=False)
    made = FakeBroker()
    made.jobs = {12: job_row(12)}
    monkeypatch.setattr(Farm, "connect", classmethod(lambda cls, name=None, timeout_s=None: made.farm()))
    yield made
    assert all(link.closed for link in made.links), "a connection was left open"


Run = Callable[..., Result]


@pytest.fixture
def run(broker: FakeBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*argv: str) -> Result:
        code = main(list(argv))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


# -- set ---------------------------------------------------------------------------------------------


def test_set_sends_all_values_at_once_as_they_were_typed(broker: FakeBroker, run: Run) -> None:
    result = run("set", "J12/beauty", "frames=1-240", "chunk=4", "limits.nuke=1", "--reason", "longer")
    assert result.code == 0, result.err
    (request,) = broker.requests
    assert (request.action, request.address, request.reason) == ("set", "J12/beauty", "longer")
    assert json.loads(request.value) == {"frames": "1-240", "chunk": "4", "limits.nuke": "1"}


def test_sizes_may_have_units(broker: FakeBroker, run: Run) -> None:
    run("set", "J12/beauty", "resources.ram_mib=24GiB", "resources.disk_mib=100")
    assert json.loads(broker.requests[0].value) == {
        "resources.ram_mib": 24 * 1024,
        "resources.disk_mib": "100",
    }
    result = run("set", "J12/beauty", "resources.ram_mib=lots")
    assert (result.code, "resources.ram_mib" in result.err) == (2, True)


def test_a_value_may_hold_an_equals_sign_and_may_be_empty(broker: FakeBroker, run: Run) -> None:
    run("set", "J12/beauty", "version=>=4,<5", "pools=", "attributes=os=linux,rack=r2")
    assert json.loads(broker.requests[0].value) == {
        "version": ">=4,<5",
        "pools": "",
        "attributes": "os=linux,rack=r2",
    }


def test_set_as_json(run: Run) -> None:
    document = run("set", "J12", "priority=70", "--json").json
    assert document["action"] == "set"
    assert document["results"][0]["address"] == "J12"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("J12", "priority"), "is not KEY=VALUE"),
        (("J12", "=70"), "is not KEY=VALUE"),
        (("J12", "priority=1", "priority=2"), "set twice"),
        (("J12/beauty/1-4", "chunk=1"), "say J12/beauty"),
        (("J12/beauty@3", "chunk=1"), "say J12/beauty"),
        (("twelve", "chunk=1"), "is not an address"),
    ],
)
def test_a_wrong_set_is_refused_before_anything_is_sent(
    broker: FakeBroker, run: Run, words: tuple[str, ...], told: str
) -> None:
    result = run("set", *words)
    assert (result.code, result.out) == (2, "")
    assert told in result.err
    assert not broker.requests


def test_what_the_broker_refuses_is_said_with_its_hint(broker: FakeBroker, run: Run) -> None:
    broker.errors[wire.ActReq] = UnknownName("'speed' cannot be set", hint="what can be set of a job: name")
    result = run("set", "J12", "speed=1")
    assert result.code == 2
    assert "'speed' cannot be set" in result.err
    assert "what can be set" in result.err


# -- submit ------------------------------------------------------------------------------------------


def write_job(tmp_path: Path, **fields: Any) -> str:
    (tmp_path / "out").mkdir(exist_ok=True)
    steps = [
        {
            "name": "beauty",
            "renderer": "command",
            "frames": "1-9",
            "params": {"command": ["true", "{frame}"]},
            "outputs": [{"pattern": f"{tmp_path}/out/b.####.txt"}],
        },
        {
            "name": "film",
            "kind": "single",
            "renderer": "stitch",
            "after": ["beauty"],
            "params": {"input": {"step": "beauty", "output": 0}, "rate": "24/1", "encode": "h264"},
            "outputs": [{"pattern": f"{tmp_path}/out/film.mp4", "kind": "movie"}],
        },
    ]
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"overcrank_job": 1, "name": "shot", "user": "kim", "steps": steps} | fields))
    return str(path)


def test_submit_takes_a_start_scouts_a_cap_and_force(broker: FakeBroker, run: Run, tmp_path: Path) -> None:
    when = "2030-01-31T18:00:00+01:00"
    result = run(
        "submit", write_job(tmp_path), "--start-after", when, "--scout", "3", "--max-cores", "8", "--force"
    )
    assert result.code == 0, result.err
    (request,) = broker.requests
    job = json.loads(request.job)
    assert (job["start_after"], job["scout"], job["max_cores"]) == (when, 3, 8)
    assert request.force is True


def test_submit_without_them_asks_for_nothing_special(broker: FakeBroker, run: Run, tmp_path: Path) -> None:
    run("submit", write_job(tmp_path))
    (request,) = broker.requests
    assert not {"start_after", "scout", "max_cores", "paused"} & set(json.loads(request.job))
    assert request.force is False


@pytest.mark.parametrize("when", ["2030-01-31T18:00:00", "tomorrow", "2030-01-31"])
def test_a_start_without_an_offset_is_refused(
    broker: FakeBroker, run: Run, tmp_path: Path, when: str
) -> None:
    result = run("submit", write_job(tmp_path), "--start-after", when)
    assert result.code == 2
    assert "start_after" in result.err
    assert "2030-01-31T17:00:00Z" in result.err
    assert not broker.requests


@pytest.mark.parametrize("flags", [("--scout", "-1"), ("--scout", "5000"), ("--max-cores", "-1")])
def test_figures_out_of_range_are_refused(
    broker: FakeBroker, run: Run, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    result = run("submit", write_job(tmp_path), *flags)
    assert result.code == 2
    assert not broker.requests


def test_limits_of_a_submit_go_to_the_step_that_renders(broker: FakeBroker, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "o.####.txt"
    program = ("--", "true", "{frame}", "{output}")
    result = run(
        "submit", "--frames", "1-3", "--limit", "nuke=1", "--limit", "maya=2", "-o", str(out), *program
    )
    assert result.code == 0, result.err
    job = json.loads(broker.requests[0].job)
    assert job["steps"][0]["limits"] == {"nuke": 1, "maya": 2}
    assert run("submit", "--frames", "1", "--limit", "nuke", "-o", str(out), *program).code == 2
    assert run("submit", "--frames", "1", "--limit", "nuke=some", "-o", str(out), *program).code == 2


# -- resubmit ----------------------------------------------------------------------------------------


@pytest.fixture
def old_job(broker: FakeBroker, tmp_path: Path) -> FakeBroker:
    path = write_job(tmp_path, token="first", scout=3, paused=True, priority=70)
    broker.specs[12] = Path(path).read_bytes()
    broker.units[12, "beauty"] = [
        wire.FrameRow(unit=unit, frame=unit + 1, state="failed" if unit in (1, 4, 5) else "done")
        for unit in range(9)
    ]
    broker.units[12, "film"] = [wire.FrameRow(unit=0, frame=None, state="blocked")]
    return broker


def sent(broker: FakeBroker) -> dict[str, Any]:
    job: dict[str, Any] = json.loads(broker.requests[-1].job)
    return job


def test_resubmit_makes_a_new_job_of_all_of_it(old_job: FakeBroker, run: Run) -> None:
    result = run("resubmit", "J12")
    assert result.code == 0, result.err
    job = sent(old_job)
    assert [one["name"] for one in job["steps"]] == ["beauty", "film"]
    assert job["token"] != "first"
    assert not {"scout", "paused"} & set(job)
    assert (job["priority"], job["user"]) == (70, "kim")
    assert "beauty 1-9, film" in result.out


def test_resubmit_of_some_frames_lets_other_steps_go(old_job: FakeBroker, run: Run) -> None:
    run("resubmit", "J12/beauty/2-4,9", "--set", "resources.ram_mib=2GiB", "--set", "priority=10")
    job = sent(old_job)
    (step,) = job["steps"]
    assert (step["name"], step["frames"], step["resources"]["ram_mib"]) == ("beauty", "2-4,9", 2048)
    assert job["priority"] == 10


def test_resubmit_of_what_failed(old_job: FakeBroker, run: Run) -> None:
    run("resubmit", "J12", "--failed", "--paused")
    job = sent(old_job)
    assert [(one["name"], one["frames"]) for one in job["steps"]] == [("beauty", "2,5-6")]
    assert job["paused"] is True


def test_resubmit_of_a_step_waits_for_the_old_job_and_reads_its_files(
    old_job: FakeBroker, run: Run, tmp_path: Path
) -> None:
    run("resubmit", "J12/film")
    (step,) = sent(old_job)["steps"]
    assert step["after"] == [{"step": "beauty", "job": "J12"}]
    assert step["params"]["input"] == f"{tmp_path}/out/b.####.txt"
    assert step["params"]["frames"] == "1-9"


def test_resubmit_of_a_step_of_an_archived_job_waits_for_nothing(
    old_job: FakeBroker, run: Run, tmp_path: Path
) -> None:
    # Nothing of the old job changes any more, and no job may wait for it.
    old_job.jobs[12] = job_row(12, archived=True)
    assert run("resubmit", "J12/film").code == 0
    (step,) = sent(old_job)["steps"]
    assert not step.get("after")
    assert step["params"]["input"] == f"{tmp_path}/out/b.####.txt"


def test_resubmit_of_an_artist_is_the_artists_own(old_job: FakeBroker, run: Run) -> None:
    old_job.role = "artist"
    old_job.specs[12] = old_job.specs[12].replace(b'"user": "kim"', b'"user": "lee"')
    run("resubmit", "J12")
    assert sent(old_job)["user"] == "kim"
    old_job.role = "wrangler"
    run("resubmit", "J12")
    assert sent(old_job)["user"] == "lee"


def test_a_dry_run_prints_the_job_file_and_sends_nothing(old_job: FakeBroker, run: Run) -> None:
    document = run("resubmit", "J12/beauty/1", "--dry-run").json
    assert document["steps"][0]["frames"] == "1"
    assert not any(isinstance(request, wire.SubmitReq) for request in old_job.requests)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("J12/comp",), "no step 'comp'"),
        (("J12/beauty/8-12",), "no frames 10-12"),
        (("J12/film/1",), "without frames"),
        (("J12/film", "--failed"), "nothing of J12/film has failed"),
        (("J12", "--set", "speed=1"), "'speed' cannot be set"),
        (("J12", "--set", "frames=1-4"), "one unit without frames"),
        (("J12", "--set", "max_cores=many"), "max_cores"),
        (("J12", "--set", "start_after=soon"), "start_after"),
        (("J12/beauty@1",), "is an attempt"),
    ],
)
def test_a_wrong_resubmit_is_refused(
    old_job: FakeBroker, run: Run, words: tuple[str, ...], told: str
) -> None:
    result = run("resubmit", *words)
    assert result.code == 2
    assert told in result.err
    assert not any(isinstance(request, wire.SubmitReq) for request in old_job.requests)


# -- policy and limits -------------------------------------------------------------------------------


def test_policy_show_prints_every_field_and_what_limits_hold(broker: FakeBroker, run: Run) -> None:
    broker.policy = Policy(limits={"nuke": LimitRule(total=10)}, projects={"film": 3})
    broker.limits = (wire.LimitRow(name="nuke", total=10, per="lease", used=7, holders={"kim": 7}),)
    lines = {line.split()[0]: line for line in run("policy", "show").out.splitlines()}
    assert "10" in lines["limits.nuke.total"]
    assert "7 in use" in lines["limits.nuke.total"]
    assert "3" in lines["projects.film"]
    for field in ("half_life_h", "tail.copies", "preempt.on", "quarantine_users"):
        assert field in lines
    document = run("policy", "show", "--json").json
    assert document["policy"]["limits"]["nuke"]["total"] == 10
    assert document["limits"][0]["holders"] == {"kim": 7}


def test_policy_set_sends_text_by_key(broker: FakeBroker, run: Run) -> None:
    result = run("policy", "set", "limits.nuke.total=10", "user_max_cores.*=64", "--reason", "new licences")
    assert result.code == 0, result.err
    (request,) = broker.requests
    assert request.values == {"limits.nuke.total": "10", "user_max_cores.*": "64"}
    assert request.reason == "new licences"
    assert run("policy", "set", "half_life_h").code == 2


def test_policy_load_reads_toml_and_finds_mistakes_itself(
    broker: FakeBroker, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('half_life_h = 12\n[limits.nuke]\ntotal = 10\nper = "node"\n[projects]\nfilm = 3\n')
    assert run("policy", "load", str(path)).code == 0
    whole = json.loads(broker.requests[0].whole)
    assert whole == {
        "half_life_h": 12.0,
        "limits": {"nuke": {"total": 10, "per": "node"}},
        "projects": {"film": 3},
    }
    for text, told in (
        ("half_life = 12", "half_life"),
        ("[limits.nuke]\nper='node'", "total"),
        ("a = ", "no TOML"),
    ):
        path.write_text(text)
        result = run("policy", "load", str(path))
        assert result.code == 2
        assert str(path) in result.err
        assert told in result.err
    assert "cannot be read" in run("policy", "load", str(tmp_path / "none.toml")).err
    assert len(broker.requests) == 1


def test_policy_history_is_only_of_the_policy(broker: FakeBroker, run: Run) -> None:
    broker.history = [
        wire.HistoryRow(
            at_us=T0_US, what="policy projects.film", old="1", new="3", reason="deadline", who="wim"
        ),
        wire.HistoryRow(at_us=T0_US, what="node ws-12", old="online", new="lost", reason="silent"),
    ]
    out = run("policy", "history").out
    assert "projects.film" in out
    assert "ws-12" not in out
    assert len(run("policy", "history", "--json").json["history"]) == 1
    broker.history = []
    assert "never changed" in run("policy", "history").out


def test_limits(broker: FakeBroker, run: Run) -> None:
    assert "no limits" in run("limits").out
    broker.limits = (
        wire.LimitRow(
            name="nuke", total=10, per="lease", used=3, holders={"kim": 2, "lee": 1}, waiting=("J12/comp",)
        ),
        wire.LimitRow(name="ghost", total=None, per="lease", used=0, waiting=("J13/comp",)),
    )
    lines = run("limits").out.splitlines()
    assert lines[1].split()[:4] == ["nuke", "3", "10", "lease"]
    assert "kim 2, lee 1" in lines[1]
    assert "J12/comp" in lines[1]
    assert "not named" in lines[2]
    assert run("limits", "--json").json["limits"][1]["total"] is None


# -- estimate ----------------------------------------------------------------------------------------


def test_estimate_prints_ranges_and_submits_nothing(broker: FakeBroker, run: Run, tmp_path: Path) -> None:
    broker.estimated = {
        "frames": 9,
        "low_s": 60.0,
        "high_s": 120.0,
        "cost_low_nano": 10**8,
        "cost_high_nano": 2 * 10**8,
        "unknown": ("film",),
        "warnings": ("unknown key x",),
    }
    result = run("estimate", write_job(tmp_path))
    assert result.code == 0, result.err
    assert result.out.splitlines() == [
        "frames  9",
        "time    1 m 00 s to 2 m 00 s",
        "cost    0.100000 to 0.200000 USD",
        "without film: nothing like that was rendered here yet",
    ]
    assert "unknown key x" in result.err
    document = run("estimate", write_job(tmp_path), "--json").json
    assert (document["time_low_s"], document["cost_high_usd"]) == (60.0, "0.200000")
    assert all(isinstance(request, wire.EstimateReq) for request in broker.requests)


def test_estimate_says_that_nothing_is_known_and_what_would_tell(
    broker: FakeBroker, run: Run, tmp_path: Path
) -> None:
    broker.estimated = {"frames": 9, "unknown": ("beauty", "film")}
    out = run("estimate", write_job(tmp_path)).out
    assert "neither time nor cost is known" in out
    assert "--scout 3" in out
    assert run("estimate", write_job(tmp_path), "--json").json["time_low_s"] is None


def test_estimate_says_when_no_node_could_do_it(broker: FakeBroker, run: Run, tmp_path: Path) -> None:
    broker.estimated = {"frames": 9}
    out = run("estimate", write_job(tmp_path)).out
    assert "time    unknown: no node in service can take it" in out
