"""What deleted jobs left is removed off the loop, also after a restart, and nothing else is touched."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from farm.broker.broom import Broom
from farm.model.errors import CallError
from farm.storage.logs import ASIDE, LogStore
from farm.storage.previews import PreviewStore
from tests.support.waiting import PATIENCE_S, eventually


def filled(root: Path) -> tuple[LogStore, PreviewStore]:
    """Logs, short and long, and previews of two jobs."""
    logs, previews = LogStore(root / "logs"), PreviewStore(root / "previews")
    for job in (1, 2):
        logs.append(job, "beauty", 1, 0, b"short", end=True)
        logs.append(job, "beauty", 2, 0, b"x" * 20_000)
        previews.put(job, "beauty", 0, 1, b"jpeg")
    return logs, previews


def test_a_job_s_files_are_out_of_the_way_at_once_and_removed_soon(tmp_path: Path) -> None:
    logs, previews = filled(tmp_path)
    (tmp_path / "logs" / "note").write_text("somebody's")
    outside = tmp_path / "picture.exr"
    outside.write_text("kept")
    (tmp_path / "logs" / "J1" / "link").symlink_to(tmp_path)
    assert logs.set_aside(1)
    assert previews.set_aside(1)
    assert not logs.set_aside(1), "there is nothing left"
    assert logs.read(1, "beauty", 1).data == logs.read(1, "beauty", 2).data == b""
    assert previews.get(1, "beauty", 0) == b""
    assert logs.read(2, "beauty", 1).data == b"short"
    assert previews.get(2, "beauty", 0) == b"jpeg"
    assert (tmp_path / "logs" / f"{ASIDE}J1").is_dir()
    # A broker that starts anew finds what the last one left.
    broom = Broom(ASIDE, tmp_path / "logs", tmp_path / "previews", tmp_path / "nowhere")
    broom.start()
    try:
        eventually(lambda: not list(tmp_path.glob(f"*/{ASIDE}*")), "the first job is gone")
        logs.set_aside(2)
        broom.sweep()
        eventually(lambda: not list(tmp_path.glob(f"*/{ASIDE}*")), "the second job is gone")
    finally:
        broom.stop()
        logs.close()
    assert outside.read_text() == "kept"
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["note"]
    assert previews.total == 4


def test_what_is_in_the_way_already_is_not_overwritten(tmp_path: Path) -> None:
    logs, _ = filled(tmp_path)
    (tmp_path / "logs" / f"{ASIDE}J1").mkdir()
    assert logs.set_aside(1)
    assert (tmp_path / "logs" / f"{ASIDE}J1.2" / "beauty").is_dir()
    with pytest.raises(CallError):
        logs.set_aside(-1)
    logs.close()


@pytest.mark.parametrize("sweeps", [0, 1])
def test_it_ends_though_it_is_told_so_just_before_it_clears_its_wake(tmp_path: Path, sweeps: int) -> None:
    broom = Broom(ASIDE, tmp_path)
    looked, go = threading.Event(), threading.Event()
    left = [sweeps]

    class Wake(threading.Event):
        """Takes the thread off the CPU right before its flag is cleared, as the system may."""

        def clear(self) -> None:
            if left[0]:
                left[0] -= 1
            else:
                looked.set()
                assert go.wait(PATIENCE_S)
            super().clear()

    broom._wake = Wake()
    broom.start()

    def reached() -> bool:
        if sweeps:
            broom.sweep()
        return looked.is_set()

    eventually(reached, "it is about to clear its wake")
    stopper = threading.Thread(target=broom.stop, daemon=True)
    stopper.start()
    eventually(lambda: broom._stopping and broom._wake.is_set(), "it is told to stop")
    go.set()
    stopper.join(PATIENCE_S / 3)
    ended = not stopper.is_alive()
    broom._wake.set()  # one that forgot what it was told would wait for ever
    stopper.join(PATIENCE_S)
    assert ended
