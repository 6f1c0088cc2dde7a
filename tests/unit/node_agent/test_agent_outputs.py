"""Attempt folders and publishing: nothing escapes, whoever's fault it is is named."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from farm.model.errors import OutputError
from farm.model.reports import DONE, FAILED
from farm.model.states import FailureClass
from node_agent.outputs import AttemptFiles, Expected, remove_folder
from node_agent.troubles import Superseded, WorkTrouble, destination_trouble
from tests.support.agent_rig import COPY, Rig, folders_left, make_picture, python_step
from tests.support.tmpfs import small_disk

NAME = ".overcrank-J1-beauty-1-00000000000000ff"
OLD = ".overcrank-J1-beauty-1-00000000000000aa"


def files_in(out: Path, *names: str) -> AttemptFiles:
    return AttemptFiles(NAME, [Expected(0, n, f"{out}/{name}", "sequence") for n, name in enumerate(names)])


def written(files: AttemptFiles) -> list[str]:
    files.make_folders()
    for file in files.expected:
        Path(files.path_of(file)).write_bytes(b"data")
    return [file.final for file in files.expected]


def test_publishing_replaces_what_was_there_and_asks_before_each_file(tmp_path: Path) -> None:
    files = files_in(tmp_path, "a.bin", "b.bin")
    (tmp_path / "a.bin").write_bytes(b"old")
    finals = written(files)
    asked = iter([True, False])
    assert files.publish(finals, lambda: next(asked)) == 1
    assert (tmp_path / "a.bin").read_bytes() == b"data"
    assert not (tmp_path / "b.bin").exists()
    assert files.publish(finals[1:], lambda: True) == 1
    files.remove()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.bin", "b.bin"]


def test_a_link_at_the_final_name_is_replaced_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.bin").symlink_to(victim)
    files = files_in(out, "a.bin")
    files.publish(written(files), lambda: True)
    assert victim.read_bytes() == b"precious"
    assert not (out / "a.bin").is_symlink()
    assert (out / "a.bin").read_bytes() == b"data"


def test_a_link_planted_as_the_attempts_folder_leads_nowhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.bin").write_bytes(b"secret")
    out = tmp_path / "out"
    out.mkdir()
    (out / NAME).symlink_to(elsewhere)
    with pytest.raises(WorkTrouble, match="already has the name") as trouble:
        files_in(out, "a.bin").make_folders()
    assert trouble.value.failure is FailureClass.PATH
    (out / NAME).unlink()
    files = files_in(out, "a.bin")
    finals = written(files)
    (out / NAME).rename(tmp_path / "moved")
    (out / NAME).symlink_to(elsewhere)
    with pytest.raises(WorkTrouble):
        files.publish(finals, lambda: True)
    assert (elsewhere / "a.bin").read_bytes() == b"secret"
    files.remove()
    assert (elsewhere / "a.bin").exists(), "only the link itself may go"
    assert not (out / NAME).is_symlink()


def test_a_folder_exchanged_for_another_is_noticed(tmp_path: Path) -> None:
    files = files_in(tmp_path, "a.bin")
    finals = written(files)
    (tmp_path / NAME).rename(tmp_path / "moved")
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / "a.bin").write_bytes(b"forged")
    with pytest.raises(WorkTrouble, match="not the folder this attempt made"):
        files.publish(finals, lambda: True)


def test_an_emptied_folder_means_that_another_attempt_took_over(tmp_path: Path) -> None:
    files = files_in(tmp_path, "a.bin")
    finals = written(files)
    remove_folder(str(tmp_path), NAME)
    with pytest.raises(Superseded):
        files.publish(finals, lambda: True)
    again = files_in(tmp_path, "a.bin")
    again.make_folders()
    with pytest.raises(Superseded):
        again.publish(finals, lambda: True)


def test_only_the_farms_own_folders_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "renders").mkdir()
    for name in ("renders", "..", ".", "", f"{NAME}/../renders", ".overcrank-J1-beauty-1-xyz"):
        with pytest.raises(WorkTrouble, match="not the name"):
            remove_folder(str(tmp_path), name)
    assert (tmp_path / "renders").exists()
    remove_folder(str(tmp_path), NAME)
    remove_folder(str(tmp_path / "nowhere"), NAME)


def test_a_folder_that_a_lost_attempt_still_fills_is_emptied_until_nothing_comes_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / OLD).mkdir()
    plain, looked = shutil.rmtree, []

    def filling(name: str, *, dir_fd: int) -> None:
        looked.append(name)
        plain(name, dir_fd=dir_fd)
        if len(looked) < 4:
            (tmp_path / OLD).mkdir()
            (tmp_path / OLD / f"late-{len(looked)}.exr").touch()
            raise OSError(errno.ENOTEMPTY if len(looked) % 2 else errno.ENOENT, "still written to")

    monkeypatch.setattr(shutil, "rmtree", filling)
    remove_folder(str(tmp_path), OLD)
    assert len(looked) == 4
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_never_stops_filling_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(name: str, *, dir_fd: int) -> None:
        raise OSError(errno.ENOTEMPTY, "Directory not empty")

    (tmp_path / OLD).mkdir()
    monkeypatch.setattr(shutil, "rmtree", refuses)
    with pytest.raises(WorkTrouble, match=f"cannot remove .*{OLD}: it fills again"):
        remove_folder(str(tmp_path), OLD, 0.05)


def test_removal_does_not_follow_links_inside(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_bytes(b"x")
    (tmp_path / OLD).mkdir()
    (tmp_path / OLD / "link").symlink_to(precious)
    remove_folder(str(tmp_path), OLD)
    assert (precious / "file").exists()
    assert not (tmp_path / OLD).exists()


def test_kept_files_stay_and_the_rest_goes(tmp_path: Path) -> None:
    files = files_in(tmp_path, "a.bin", "b.bin")
    finals = written(files)
    (tmp_path / NAME / "junk").mkdir()
    files.keep_only(finals[:1])
    assert [entry.name for entry in (tmp_path / NAME).iterdir()] == ["a.bin"]


def test_adoption_takes_only_what_is_there(tmp_path: Path) -> None:
    (tmp_path / OLD).mkdir()
    (tmp_path / OLD / "a.bin").write_bytes(b"kept")
    files = files_in(tmp_path, "a.bin", "b.bin")
    files.make_folders()
    files.adopt(OLD, files.expected[:1])
    assert Path(files.path_of(files.expected[0])).read_bytes() == b"kept"
    with pytest.raises(OutputError, match="not there any more"):
        files.adopt(OLD, files.expected[1:])


@pytest.mark.parametrize(
    ("number", "failure"),
    [
        ("ENOSPC", FailureClass.PATH),
        ("EROFS", FailureClass.PATH),
        ("EACCES", FailureClass.PATH),
        ("ENOENT", FailureClass.PATH),
        ("EDQUOT", FailureClass.PATH),
        ("EIO", FailureClass.NODE),
        ("ESTALE", FailureClass.NODE),
    ],
)
def test_whose_fault_an_error_is(number: str, failure: FailureClass) -> None:
    import errno

    error = OSError(getattr(errno, number), os.strerror(getattr(errno, number)))
    trouble = destination_trouble(error, "/out", "cannot write to")
    assert trouble.failure is failure
    assert trouble.message.startswith("cannot write to /out: ")


# ------------------------------------------------------------------ with a whole agent


def test_a_missing_destination_is_made_and_an_impossible_one_is_the_jobs_fault(tmp_path: Path) -> None:
    source = make_picture(tmp_path / "source.png")
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "out" / "f.0001.png").mkdir(parents=True)
    with Rig(tmp_path) as rig:

        def outcome(pattern: str) -> tuple[int, str, str]:
            step = python_step(COPY, str(source), "{output}", outputs=[pattern])
            unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
            return unit.outcome, unit.failure, unit.reason

        assert outcome(f"{tmp_path}/new/deep/f.####.png")[0] == DONE
        assert (tmp_path / "new" / "deep" / "f.0001.png").exists()
        found = outcome(f"{tmp_path}/file/f.####.png")
        assert found[:2] == (FAILED, "path")
        assert f"{tmp_path}/file" in found[2]
        found = outcome(f"{tmp_path}/out/f.####.png")
        assert found[:2] == (FAILED, "path")
        assert "a folder has that name" in found[2]
        assert folders_left(tmp_path / "out") == []
        found = outcome("/proc/nowhere/f.####.png")
        assert found[:2] == (FAILED, "path")


def test_a_read_only_destination_is_the_jobs_fault(tmp_path: Path) -> None:
    source = make_picture(tmp_path / "source.png")
    with small_disk(tmp_path / "disk", "1m") as disk, Rig(tmp_path) as rig:
        disk.read_only(True)
        step = python_step(COPY, str(source), "{output}", outputs=[f"{disk.path}/f.####.png"])
        unit = rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "path")
        assert "read-only" in unit.reason


def test_a_full_destination_is_the_jobs_fault_not_the_renderers(tmp_path: Path) -> None:
    source = make_picture(tmp_path / "source.png", size=(256, 256))
    with small_disk(tmp_path / "disk", "1m") as disk, Rig(tmp_path) as rig:
        step = python_step(COPY, str(source), "{output}", outputs=[f"{disk.path}/f.####.png"])
        assert rig.broker.closed(rig.broker.lease(step, [1]).attempt)[0].outcome == DONE
        disk.fill()
        unit = rig.broker.closed(rig.broker.lease(step, [2]).attempt)[0]
        assert (unit.outcome, unit.failure) == (FAILED, "path"), unit
        assert "full" in unit.reason
        disk.free()
        assert rig.broker.closed(rig.broker.lease(step, [3]).attempt)[0].outcome == DONE


@pytest.mark.allow_log(r"event=outbox-trouble|^WARNING event=")
def test_the_agents_own_full_disk_is_the_nodes_fault(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk, Rig(disk.path) as rig:
        disk.fill()
        units = [
            rig.broker.closed(rig.broker.lease(python_step("pass", kind="single")).attempt)[0]
            for _ in range(40)
        ]
        failed = [unit for unit in units if unit.outcome == FAILED]
        assert failed
        assert {unit.failure for unit in failed} == {"node"}
        disk.free()
        rig.agent.keeper.look()
        good = rig.broker.closed(rig.broker.lease(python_step("pass", kind="single")).attempt)[0]
        assert good.outcome == DONE
