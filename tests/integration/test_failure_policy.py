"""A step's own failure rules on a real farm: pre, post, silence, taking back, licences, quarantine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from farm.model.errors import OvercrankError
from farm.protocol.client import FrameRow
from tests.support.farmhouse import Farmhouse
from tests.support.truth import attempt_folders, expected_names, folder_names, job_file
from tests.support.waiting import eventually


def _python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", code.replace("{", "{{").replace("}", "}}"), *arguments]


def _step(frames: str, code: str, pattern: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    """A step that runs Python per frame: argv is the frame, the output, and the rest."""
    return {
        "name": "render",
        "renderer": "command",
        "frames": frames,
        "chunk": 1,
        "params": {"command": _python(code, "{frame}", "{output}", *arguments)},
        "outputs": [{"pattern": pattern}],
    } | fields


WRITE = "import sys\nopen(sys.argv[2], 'w').write(sys.argv[1])\n"


def _frames(house: Farmhouse, number: int) -> list[FrameRow]:
    return list(house.ask(lambda farm: farm.frames(f"J{number}/render")).steps["render"])


def test_pre_and_post_run_round_every_chunk(shared: Farmhouse, tmp_path: Path) -> None:
    out, told = tmp_path / "out", tmp_path / "told"
    told.mkdir()
    pattern = f"{out}/f.####.txt"
    tell = (
        "import os, sys\n"
        f"name = os.path.join({str(told)!r}, sys.argv[1] + '-' + sys.argv[2] + '-%d' % os.getpid())\n"
        "open(name, 'w').close()\nprint('this is', sys.argv[1])"
    )
    step = _step(
        "1-4",
        WRITE,
        pattern,
        chunk=2,
        pre=_python(tell, "pre", "{frames}"),
        post=_python(tell, "post", "{frames}"),
    )
    number = shared.admin.submit(job_file(step)).job
    shared.wait_job(number)
    kinds = sorted(path.name.rpartition("-")[0] for path in told.iterdir())
    assert kinds == ["post-1-2", "post-3-4", "pre-1-2", "pre-3-4"]
    assert folder_names(pattern) == expected_names(pattern, "1-4")
    log = b"".join(shared.admin.log_stream(number, "render", 1, follow=True))
    assert log.index(b"this is pre") < log.index(b"this is post")


def test_a_failing_pre_fails_the_frames_with_its_name_and_code(shared: Farmhouse, tmp_path: Path) -> None:
    step = _step("1", WRITE, f"{tmp_path}/out/f.####.txt", pre=_python("raise SystemExit(9)"))
    number = shared.admin.submit(job_file(step)).job
    shared.wait_job(number, "failed")
    (frame,) = _frames(shared, number)
    assert (frame.failure, frame.attempts) == ("renderer", 3)
    assert "the pre command" in frame.reason
    assert "exit code 9" in frame.reason


def test_a_command_for_a_chunk_cannot_name_one_frame(shared: Farmhouse, tmp_path: Path) -> None:
    step = _step("1", WRITE, f"{tmp_path}/out/f.####.txt", post=["/bin/echo", "{frame}"])
    with pytest.raises(OvercrankError, match=r"steps\[0\]\.post\[1\].*\{frame\}") as caught:
        shared.admin.submit(job_file(step))
    assert "{frames}" in caught.value.hint


def test_a_node_whose_administrator_allows_no_commands_gets_no_step_with_its_own(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    house.agent("strict", deny_renderers=("command",))
    house.wait_online()
    step = {
        "name": "film",
        "renderer": "stitch",
        "kind": "single",
        "params": {"input": f"{tmp_path}/in.####.png", "frames": "1-2", "rate": "24/1"},
        "outputs": [{"pattern": f"{tmp_path}/film.mp4", "kind": "movie"}],
        "pre": ["/bin/true"],
    }
    with pytest.raises(OvercrankError, match="runs no commands"):
        house.admin.submit(job_file(step))


def test_a_program_that_hangs_in_silence_is_ended_once_the_median_is_known(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    house.agent("only", cores=1)
    house.wait_online()
    pattern = f"{tmp_path}/out/f.####.txt"
    code = WRITE.replace("open", "import time\nif sys.argv[1] == '3': time.sleep(600)\nopen", 1)
    step = _step("1-3", code, pattern, attempts=1, failure={"silent_x": 5})
    number = house.admin.submit(job_file(step)).job
    house.wait_job(number, "failed")
    *good, hung = _frames(house, number)
    assert [frame.state for frame in good] == ["done", "done"]
    assert hung.failure == "silent"
    assert "no output for" in hung.reason
    assert "no disk I/O" in hung.reason
    assert not attempt_folders(tmp_path / "out")


def test_a_frame_that_is_too_fast_fails_with_the_reason(shared: Farmhouse, tmp_path: Path) -> None:
    step = _step("1", WRITE, f"{tmp_path}/out/f.####.txt", attempts=1, failure={"min_run_s": 30})
    number = shared.admin.submit(job_file(step)).job
    shared.wait_job(number, "failed")
    (frame,) = _frames(shared, number)
    assert frame.failure == "renderer"
    assert "at least 30 s" in frame.reason
    assert not (tmp_path / "out" / "f.0001.txt").exists()


def test_an_idle_node_gets_frames_that_a_slow_chunk_has_not_begun(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    house.admin.set_policy({"tail.least_s": "0", "tail.copies": "false"})
    house.agent("first", cores=1)
    house.wait_online()
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    begun.mkdir()
    pattern = f"{tmp_path}/out/f.####.txt"
    code = (
        "import os, sys, time\n"
        "number = os.environ['OVERCRANK_ATTEMPT'].partition('@')[2]\n"
        f"open(os.path.join({str(begun)!r}, sys.argv[1] + '-' + number), 'w').close()\n"
        f"time.sleep(0.5)\nwhile sys.argv[1] == '3' and not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
        "open(sys.argv[2], 'w').write(sys.argv[1])"
    )
    number = house.admin.submit(job_file(_step("1-8", code, pattern, chunk=8))).job
    eventually(lambda: (begun / "3-1").exists(), "the first node is at frame 3")
    house.agent("second", cores=1)
    house.wait_online()
    eventually(
        lambda: any(not path.name.endswith("-1") for path in begun.iterdir()), "the second node has a frame"
    )
    gate.touch()
    house.wait_job(number)
    names = sorted(path.name for path in begun.iterdir())
    assert sorted(name.partition("-")[0] for name in names) == [str(n) for n in range(1, 9)], (
        f"every frame was rendered once: {names}"
    )
    assert {"1-1", "2-1", "3-1"} <= set(names)
    assert folder_names(pattern) == expected_names(pattern, "1-8")
    assert {frame.node for frame in _frames(house, number)} == {"first", "second"}


def test_a_missing_licence_waits_and_spends_no_attempt(shared: Farmhouse, tmp_path: Path) -> None:
    token, pattern = tmp_path / "token", f"{tmp_path}/out/f.####.txt"
    code = (
        "import os, sys\n"
        f"if not os.path.exists({str(token)!r}):\n"
        "    sys.exit('ERROR: could not check out a render license (-4)')\n"
        "open(sys.argv[2], 'w').write(sys.argv[1])"
    )
    number = shared.admin.submit(job_file(_step("1", code, pattern, attempts=1))).job
    row = eventually(
        lambda: next((frame for frame in _frames(shared, number) if frame.failure == "licence"), None),
        "the licence is missed",
    )
    assert row is not None
    assert row.state == "queued", "one attempt is all it has, and none is spent"
    assert "could not check out a render license" in row.reason
    assert all(node.enabled for node in shared.nodes())
    token.touch()
    shared.wait_job(number)
    assert folder_names(pattern) == expected_names(pattern, "1")


def test_a_node_that_fails_the_work_of_three_users_is_taken_out_of_service(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    house.agent("bad", cores=1, env={"BROKEN": "1"})
    house.wait_online()
    code = "import os, sys\nif 'BROKEN' in os.environ: sys.exit(5)\nopen(sys.argv[2], 'w').write(sys.argv[1])"
    for user in ("ann", "bob"):
        step = _step("1", code, f"{tmp_path}/{user}/f.####.txt", attempts=1)
        number = house.client("artist", user).submit(job_file(step, user=user)).job
        house.wait_job(number, "failed")
        assert house.node("bad").enabled, "two users prove nothing yet"
    house.agent("good", cores=1)
    house.wait_online()
    pattern = f"{tmp_path}/eve/f.####.txt"
    number = house.client("artist", "eve").submit(job_file(_step("1-2", code, pattern), user="eve")).job
    house.wait_job(number)
    row = house.node("bad")
    assert not row.enabled
    assert row.reason == (
        "quarantined: J1/render of ann, J2/render of bob, J3/render of eve failed here"
        " and nothing worked since"
    )
    assert house.node("good").enabled
    house.admin.node_act("node-enable", "bad")
    house.wait_job(house.admin.submit(job_file(_step("1", code, f"{tmp_path}/x/f.####.txt"))).job)
    assert house.node("bad").enabled, "it was vouched for: the count begins anew"
