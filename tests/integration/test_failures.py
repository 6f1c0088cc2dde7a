"""What goes wrong in rendering, and what the farm makes of it: every class of the failure table, for real."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.model.failures import NODE_FAILURES_PER_STEP
from tests.support.farmhouse import Farmhouse
from tests.support.tmpfs import small_disk
from tests.support.truth import (
    Ledger,
    Renders,
    assert_exactly_once,
    attempt_folders,
    expected_names,
    folder_names,
    job_file,
)
from tests.support.waiting import eventually


def _shell(frames: str, script: str, pattern: str, *arguments: str, **fields: Any) -> dict[str, Any]:
    """A step that runs a line of shell per frame: $1 is the frame, $2 the output, the rest follow."""
    script = script.replace("{", "{{").replace("}", "}}")
    return {
        "name": "render",
        "renderer": "command",
        "frames": frames,
        "chunk": 1,
        "params": {"command": ["/bin/sh", "-c", script, "sh", "{frame}", "{output}", *arguments]},
        "outputs": [{"pattern": pattern}],
    } | fields


def _three_nodes(failures: list[tuple[str, int]], failure: str) -> None:
    """Three failures of that class, each on another node."""
    assert [word for word, _ in failures] == [failure] * 3
    assert len({node for _, node in failures}) == 3, f"tried again on a node it failed on: {failures}"


def test_a_frame_that_always_crashes_fails_after_three_nodes_and_the_job_ends(
    shared: Farmhouse, tmp_path: Path
) -> None:
    pattern = f"{tmp_path}/out/f.####.txt"
    script = '[ "$1" != 3 ] || { echo "the sky is falling" >&2; exit 7; }; echo "$1" > "$2"'
    number = shared.admin.submit(job_file(_shell("1-5", script, pattern))).job
    row = shared.wait_job(number, "failed")
    assert (row.done, row.failed, row.running) == (4, 1, 0)
    assert f"J{number}/render/3" in row.reason
    assert "exit code 7" in row.reason
    assert row.ended_us > 0
    _three_nodes(Ledger(shared.database).failures(number, "render")[2], "renderer")
    assert folder_names(pattern) == expected_names(pattern, "1-2,4-5")
    # What it said is in the log of its last attempt.
    (frame,) = shared.admin.frames(f"J{number}/render/3").steps["render"]
    assert (frame.state, frame.failure, frame.attempts, frame.verified) == ("failed", "renderer", 3, False)
    assert frame.attempt is not None
    log = b"".join(shared.admin.log_stream(number, "render", frame.attempt, follow=True))
    assert b"the sky is falling" in log
    # And rendering it again by hand gives it three new lives.
    shared.admin.act("retry", f"J{number}/render/3")
    assert shared.wait_job(number, "failed").failed == 1
    assert len(Ledger(shared.database).failures(number, "render")[2]) == 6


def test_a_node_that_always_fails_is_excluded_and_its_frames_go_elsewhere(
    new_house: Callable[..., Farmhouse], renders: Renders
) -> None:
    house = new_house()
    ledger = Ledger(house.database)
    house.agent("bad", cores=1, env={"BROKEN": "1"})
    house.agent("good")
    house.wait_online()
    bad = house.node("bad").node
    number = house.admin.submit(renders.job("1-20", gated=True)).job

    def failed_on_bad() -> list[tuple[str, int]]:
        return [pair for pairs in ledger.failures(number, "render").values() for pair in pairs]

    # The good node waits until the bad one has had its three chances.
    eventually(lambda: len(failed_on_bad()) == NODE_FAILURES_PER_STEP, "the bad node failed three times")
    renders.open_gate()
    row = house.wait_job(number)
    assert row.failed == 0
    assert failed_on_bad() == [("renderer", bad)] * NODE_FAILURES_PER_STEP
    assert sum(lease.node_id == bad for lease in ledger.leases(number, "render").values()) == (
        NODE_FAILURES_PER_STEP
    )
    assert_exactly_once(ledger, number, renders.pattern, "1-20")
    # It is shut out of that step only, not drained: the next one may try it again.
    assert house.node("bad").enabled
    other = Renders(house.folder, "other")
    second = house.admin.submit(other.job("1-4")).job
    house.wait_job(second)
    eventually(
        lambda: any(lease.node_id == bad for lease in ledger.leases(second, "render").values()), "it is tried"
    )


def _picture(path: Path, kind: str) -> Path:
    spec = oiio.ImageSpec(64, 48, 3, kind)
    out = oiio.ImageOutput.create(str(path))
    assert out is not None
    assert out.open(str(path), spec)
    pixels = np.random.default_rng(7).random((48, 64, 3), dtype=np.float32)
    assert out.write_image(pixels)
    assert out.close()
    return path


@pytest.mark.parametrize("what", ["missing", "empty", "png", "exr"])
def test_exit_code_0_without_a_good_file_is_no_frame(shared: Farmhouse, tmp_path: Path, what: str) -> None:
    suffix = {"png": "png", "exr": "exr"}.get(what, "txt")
    good, bad = tmp_path / f"good.{suffix}", tmp_path / f"bad.{suffix}"
    if suffix == "txt":
        good.write_text("good\n")
    else:
        _picture(good, "uint8" if what == "png" else "half")
    data = good.read_bytes()
    bad.write_bytes(b"" if what == "empty" else data[: len(data) * (9 if what == "png" else 5) // 10])
    script = 'if [ "$1" != 2 ]; then cp "$3" "$2"; elif [ "$5" != missing ]; then cp "$4" "$2"; fi'
    pattern = f"{tmp_path}/out/f.####.{suffix}"
    step = _shell("1-3", script, pattern, str(good), str(bad), what)
    number = shared.admin.submit(job_file(step)).job
    row = shared.wait_job(number, "failed")
    assert (row.done, row.failed) == (2, 1)
    _three_nodes(Ledger(shared.database).failures(number, "render")[1], "output")
    (frame,) = shared.admin.frames(f"J{number}/render/2").steps["render"]
    words = {"missing": "does not exist", "empty": "empty", "png": "cut off", "exr": "damaged or cut off"}[
        what
    ]
    assert words in frame.reason
    assert f"{tmp_path}/out/f.0002.{suffix}" in frame.reason
    # Nothing bad was ever given its final name, and no attempt left anything behind.
    assert folder_names(pattern) == expected_names(pattern, "1,3")


def test_pictures_unlike_the_first_one_are_refused(shared: Farmhouse, tmp_path: Path) -> None:
    first = _picture(tmp_path / "first.png", "uint8")
    other = _picture(tmp_path / "other.png", "uint16")
    pattern = f"{tmp_path}/out/f.####.png"
    script = 'if [ "$1" = 2 ]; then cp "$4" "$2"; else cp "$3" "$2"; fi'
    # Frame 2 waits for frame 1 to be the first one done.
    script = f'while [ "$1" = 2 ] && [ ! -e "{tmp_path}/out/f.0001.png" ]; do sleep 0.02; done; {script}'
    number = shared.admin.submit(job_file(_shell("1-3", script, pattern, str(first), str(other)))).job
    row = shared.wait_job(number, "failed")
    assert (row.done, row.failed) == (2, 1)
    assert "uint16" in row.reason
    assert folder_names(pattern) == expected_names(pattern, "1,3")


# -- path: the job's own destination -------------------------------------------------------------------


def _paused_itself(house: Farmhouse, number: int, words: str) -> None:
    """The job paused itself after one more node was tried; nobody was drained for it."""
    row = house.wait_job(number, "paused")
    assert words in row.reason, row.reason
    assert row.reason.startswith("paused itself")
    assert row.failed == 0
    house.wait_job(number, lambda row: row.running == 0)
    per_unit = Ledger(house.database).failures(number, "render")
    assert {word for pairs in per_unit.values() for word, _ in pairs} == {"path"}
    most = max(len(pairs) for pairs in per_unit.values())
    assert most == 2, f"one other node is tried: {dict(per_unit)}"
    for pairs in per_unit.values():
        assert len({node for _, node in pairs}) == len(pairs), "the other try is on another node"
    assert all(node.enabled for node in house.nodes())


def test_an_output_folder_that_cannot_be_written_pauses_the_job(shared: Farmhouse, tmp_path: Path) -> None:
    renders = Renders(tmp_path, "work")
    with small_disk(tmp_path / "disk") as disk:
        renders.out, renders.pattern = disk.path, f"{disk.path}/f.####.txt"
        disk.read_only(True)
        number = shared.admin.submit(renders.job("1")).job
        _paused_itself(shared, number, "read-only")
        disk.read_only(False)
        shared.admin.act("resume", f"J{number}")
        shared.wait_job(number)
        assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1")


def test_an_output_folder_whose_place_is_a_file_pauses_the_job(shared: Farmhouse, tmp_path: Path) -> None:
    renders = Renders(tmp_path)
    renders.out.write_text("not a folder")
    number = shared.admin.submit(renders.job("1-3")).job
    _paused_itself(shared, number, str(renders.out))
    renders.out.unlink()
    shared.admin.act("resume", f"J{number}")
    shared.wait_job(number)
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-3")


def test_a_full_output_disk_pauses_the_job(shared: Farmhouse, tmp_path: Path) -> None:
    renders = Renders(tmp_path, "work")
    with small_disk(tmp_path / "disk", "1m") as disk:
        renders.out, renders.pattern = disk.path, f"{disk.path}/f.####.txt"
        disk.fill()
        number = shared.admin.submit(renders.job("1")).job
        _paused_itself(shared, number, "full")
        assert not attempt_folders(disk.path)
        disk.free()
        shared.admin.act("resume", f"J{number}")
        shared.wait_job(number)
        assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1")


def test_an_output_folder_removed_while_it_is_rendered_into(shared: Farmhouse, tmp_path: Path) -> None:
    renders = Renders(tmp_path)
    number = shared.admin.submit(renders.job("1", gated=True)).job
    eventually(lambda: (1, 1) in renders.begun(), "the first attempt renders")
    shutil.rmtree(renders.out)
    renders.open_gate()
    # The other node makes the folder again, and the frame cost no attempt.
    shared.wait_job(number)
    ledger = Ledger(shared.database)
    assert_exactly_once(ledger, number, renders.pattern, "1")
    failures = ledger.failures(number, "render")[0]
    assert [word for word, _ in failures] == ["path"]
    (lease,) = [lease for lease in ledger.leases(number, "render").values() if lease.no == 2]
    assert lease.node_id != failures[0][1]


def test_an_output_folder_that_is_removed_every_time_pauses_the_job(
    shared: Farmhouse, tmp_path: Path
) -> None:
    pattern = f"{tmp_path}/out/f.####.txt"
    script = 'rm -rf "$3"; echo "$1" > "$2"'
    number = shared.admin.submit(job_file(_shell("1", script, pattern, f"{tmp_path}/out"))).job
    _paused_itself(shared, number, f"{tmp_path}/out")


# -- the rest of the table -----------------------------------------------------------------------------


def test_a_program_that_does_not_exist_fails_at_once(shared: Farmhouse, tmp_path: Path) -> None:
    step = _shell("1-2", "", f"{tmp_path}/out/f.####.txt")
    step["params"] = {"command": ["/no/such/renderer", "{frame}", "{output}"]}
    number = shared.admin.submit(job_file(step)).job
    row = shared.wait_job(number, "failed")
    assert row.failed == 2
    assert "/no/such/renderer" in row.reason
    failures = Ledger(shared.database).failures(number, "render")
    assert {unit: [word for word, _ in pairs] for unit, pairs in failures.items()} == {
        0: ["config"],
        1: ["config"],
    }


def test_a_frame_that_takes_too_long_times_out_with_its_children(shared: Farmhouse, tmp_path: Path) -> None:
    pattern = f"{tmp_path}/out/f.####.txt"
    # A child that ignores SIGTERM, below a shell that waits for it.
    script = """trap '' TERM; echo "$1" > "$2.part"; sh -c 'trap "" TERM; sleep 300' ; echo late"""
    number = shared.admin.submit(job_file(_shell("1", script, pattern, timeout_s=0.3))).job
    row = shared.wait_job(number, "failed")
    _three_nodes(Ledger(shared.database).failures(number, "render")[0], "timeout")
    assert "longer than its step allows" in row.reason
    assert all(not agent.descendants() for agent in shared.agents.values())
    assert folder_names(pattern) == set()


@pytest.mark.slow
def test_memory_far_over_the_node_s_is_killed_as_oom_ram(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    house.agent("small", ram_mib=256, cores=1)
    house.wait_online()
    hungry = (
        "import time; kept = bytearray(500 << 20); kept[::4096] = b'x' * (len(kept) // 4096); time.sleep(60)"
    )
    step = _shell("1", "", f"{tmp_path}/out/f.####.txt", resources={"ram_mib": 128})
    step["params"] = {"command": [sys.executable, "-S", "-c", hungry, "{frame}", "{output}"]}
    number = house.admin.submit(job_file(step)).job
    ledger = Ledger(house.database)
    failures = eventually(lambda: ledger.failures(number, "render")[0], "the frame is killed")
    assert failures[0][0] == "oom-ram"
    (frame,) = house.admin.frames(f"J{number}/render/1").steps["render"]
    assert "out of memory" in frame.reason or frame.state == "running"
    # It spends no ordinary attempt, and the node stays in service.
    row = house.wait_job(number, "failed")
    assert "out of memory" in row.reason
    # Put back three times at most.
    assert [word for word, _ in ledger.failures(number, "render")[0]] == ["oom-ram"] * 4
    assert house.node("small").enabled
