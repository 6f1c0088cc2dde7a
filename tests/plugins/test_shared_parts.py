"""What every submitter shares, without any host: finding the farm, sending in the background, the disk."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.addon import Addon
from tests.support.waiting import eventually

JOB = {"overcrank_job": 1, "name": "Ñandú", "steps": []}
TAKEN = {
    "job": {"address": "J7", "number": 7, "name": "x", "farm": "studio"},
    "again": False,
    "warnings": ["slow"],
}


def program(path: Path, body: str, *, version: str = "overcrank 1") -> Path:
    """A program that stands for the farm: ``body`` is Python and knows ``argv``, ``job`` and ``reply``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys, pathlib\n"
        "argv = sys.argv[1:]\n"
        f"if argv == ['--version']:\n    print({version!r}); sys.exit(0)\n"
        "reply = pathlib.Path(argv[argv.index('--reply') + 1])\n"
        "job = json.loads(pathlib.Path(argv[argv.index('submit') + 1]).read_text())\n"
        f"{body}\n"
    )
    path.chmod(0o755)
    return path


def answering(path: Path, reply: dict[str, Any]) -> Path:
    return program(path, f"reply.write_text({json.dumps(reply)!r})")


def submission(addon: Addon, farm: Path, document: dict[str, Any] = JOB, **more: Any) -> Any:
    made = addon.shared.submission.Submission(document, more.pop("found", []), setting=str(farm), **more)
    made.start()
    return made


def codes(made: Any) -> list[tuple[str, str]]:
    return [(message.severity, message.code) for message in made.messages]


# -- finding the farm ------------------------------------------------------------------------------------


def test_the_farm_is_looked_for_in_order(addon: Addon, tmp_path: Path) -> None:
    find = addon.shared.farm_program.find_farm
    setting, variable, on_path = (program(tmp_path / name / "farm", "") for name in ("s", "v", "p"))
    installed = program(tmp_path / "i" / "farm", "")
    folder = tmp_path / "addon-folder"
    folder.mkdir()
    (folder / "installed.json").write_text(json.dumps({"command": [str(installed), "-x"]}))
    env = {"PATH": str(on_path.parent), "FARM_CLI": str(variable)}
    assert find(str(setting), str(folder), env) == [str(setting)]
    assert find(str(setting.parent), str(folder), env) == [str(setting)], "a folder that holds it will do"
    assert find("", str(folder), env) == [str(variable)]
    del env["FARM_CLI"]
    assert find("", str(folder), env) == [str(installed), "-x"]
    installed.unlink()
    assert find("", str(folder), env) == [str(on_path)]


def test_what_a_person_named_is_never_passed_over(addon: Addon, tmp_path: Path) -> None:
    parts = addon.shared.farm_program
    on_path = program(tmp_path / "p" / "farm", "")
    env = {"PATH": str(on_path.parent)}
    with pytest.raises(parts.NotFound, match="the add-on's preferences names /nowhere/farm"):
        parts.find_farm("/nowhere/farm", "", env)
    with pytest.raises(parts.NotFound, match="FARM_CLI names /nowhere"):
        parts.find_farm("", "", env | {"FARM_CLI": "/nowhere"})


def test_another_program_called_farm_is_not_ours(addon: Addon, tmp_path: Path) -> None:
    other = program(tmp_path / "other" / "farm", "", version="Farm Simulator 25")
    ours = program(tmp_path / "ours" / "farm", "")
    path = os.pathsep.join([str(other.parent), str(ours.parent)])
    assert addon.shared.farm_program.find_farm("", "", {"PATH": path}) == [str(ours)]


def test_the_hosts_own_python_and_libraries_are_left_out(
    addon: Addon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "BLENDER_SYSTEM_PYTHON"):
        monkeypatch.setenv(name, "/host/only")
    monkeypatch.setenv("LD_LIBRARY_PATH_ORIG", "/user/lib")
    monkeypatch.setenv("OVERCRANK_FARM", "studio")
    seen = tmp_path / "env.json"
    farm = program(
        tmp_path / "farm",
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps(dict(os.environ)))\nreply.write_text({json.dumps(TAKEN)!r})",
    )
    # LD_PRELOAD of this process would be complained about by the loader itself, so the farm is asked.
    assert submission(addon, farm).wait()
    env = json.loads(seen.read_text())
    assert not {"PYTHONHOME", "PYTHONPATH", "LD_PRELOAD", "BLENDER_SYSTEM_PYTHON"} & set(env)
    assert (env["LD_LIBRARY_PATH"], env["OVERCRANK_FARM"]) == ("/user/lib", "studio")


# -- sending ---------------------------------------------------------------------------------------------


def test_a_job_is_sent_and_the_answer_read(addon: Addon, tmp_path: Path) -> None:
    warning = addon.shared.messages.warning("x", "Käse", "Eat it")
    made = submission(addon, answering(tmp_path / "farm", TAKEN), found=[warning], farm_name="studio")
    assert made.wait()
    assert made.job["address"] == "J7"
    assert codes(made) == [("warning", "x"), ("warning", "farm-warning")]
    data = Path(made.job_file).read_bytes()
    assert data.isascii(), "a host or a farm with another code page must be able to read it"
    assert not data.startswith(b"\xef")
    document = json.loads(data)
    assert (document["name"], document["warnings"]) == ("Ñandú", ["Käse. Eat it"])
    assert document["token"]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (
            {"error": {"code": "job-file", "message": "steps[0]: no", "hint": "Do"}},
            "The farm refused the job: steps[0]: no. Do",
        ),
        (
            {"error": {"code": "unreachable", "message": "no farm answers", "hint": ""}},
            "The farm cannot be reached: no farm answers",
        ),
        ({"job": {}}, "The farm's answer names no job"),
    ],
)
def test_a_refusal_is_told_in_words(addon: Addon, tmp_path: Path, reply: dict[str, Any], words: str) -> None:
    made = submission(addon, answering(tmp_path / "farm", reply))
    assert not made.wait()
    assert [str(message) for message in made.messages] == [words]
    assert made.job is None


def test_a_farm_that_writes_no_reply_is_quoted(addon: Addon, tmp_path: Path) -> None:
    made = submission(addon, program(tmp_path / "farm", "print('kaputt'); sys.exit(3)"))
    assert not made.wait()
    assert str(made.messages[0]) == "The farm program gave no answer (exit code 3): kaputt"


def test_no_farm_at_all_is_said_with_its_cure(addon: Addon) -> None:
    made = submission(addon, Path("/nowhere/farm"))
    assert not made.wait()
    assert codes(made) == [("error", "farm-missing")]
    assert "farm plugin install" in str(made.messages[0])


def test_a_farm_that_hangs_is_given_up_killed_and_asked_again_with_the_same_token(
    addon: Addon, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    hangs = program(
        tmp_path / "hangs",
        f"pathlib.Path({str(pid)!r}).write_text(f\"{{job['token']}} {{os.getpid()}}\")\n"
        "import signal; signal.pause()",
    )
    document = JOB | {"name": "hangs"}
    made = submission(addon, hangs, document, timeout_s=8.0)
    eventually(lambda: pid.exists() and " " in pid.read_text(), "the farm is called")
    assert not made.done
    assert not made.wait()
    assert codes(made) == [("error", "time-out")]
    token, number = pid.read_text().split()
    eventually(lambda: not Path(f"/proc/{number}").exists(), "the farm program is gone")
    seen = tmp_path / "tokens"
    works = program(
        tmp_path / "works",
        f"open({str(seen)!r}, 'a').write(job['token'] + '\\n')\nreply.write_text({json.dumps(TAKEN)!r})",
    )
    for _ in range(2):
        assert submission(addon, works, document).wait()
    first, second = seen.read_text().split()
    assert first == token, "the same job after a lost answer is the same job"
    assert second != token, "after an answer it is a new one"


def test_a_file_server_that_hangs_holds_nobody_and_calls_no_farm_later(addon: Addon, tmp_path: Path) -> None:
    called = tmp_path / "called"
    farm = program(tmp_path / "farm", f"pathlib.Path({str(called)!r}).touch()")
    stuck, answered = threading.Event(), threading.Event()

    def numbers() -> set[int]:
        stuck.wait(20)
        answered.set()
        return set()

    look = {"look": "frames", "path": str(tmp_path / "a_0001.png"), "what": "sequence", "numbers": numbers}
    made = submission(addon, farm, looks=[look], timeout_s=0.5)
    assert not made.poll()
    assert not answered.is_set(), "nothing waits for the disk"
    assert not made.wait()
    assert codes(made) == [("error", "time-out")]
    stuck.set()
    made._thread.join(10)
    assert not called.exists()
    assert codes(made) == [("error", "time-out")]


def test_an_error_found_before_sends_nothing(addon: Addon, tmp_path: Path) -> None:
    called = tmp_path / "called"
    farm = program(tmp_path / "farm", f"pathlib.Path({str(called)!r}).touch()")
    look = {"look": "file", "path": "/nowhere/tex.png", "what": "texture wood", "severity": "error"}
    made = submission(addon, farm, looks=[look])
    assert not made.wait()
    assert "The texture wood /nowhere/tex.png does not exist" in str(made.messages[0])
    assert not called.exists()


def test_a_bug_reaches_the_artist_as_words(addon: Addon, tmp_path: Path) -> None:
    made = submission(addon, tmp_path / "farm", looks=[{"look": "nonsense"}])
    assert not made.wait()
    assert codes(made) == [("error", "bug")]


# -- the disk --------------------------------------------------------------------------------------------


def looked(addon: Addon, **one: Any) -> list[str]:
    return [message.text for message in addon.shared.disk.look([{"what": "it", **one}])]


def touch(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")


def test_missing_empty_and_strange_files_are_told_apart(addon: Addon, tmp_path: Path) -> None:
    touch(tmp_path, "good.png")
    (tmp_path / "empty.png").touch()
    assert looked(addon, look="file", path=str(tmp_path / "good.png")) == []
    assert looked(addon, look="file", path=str(tmp_path / "empty.png"))[0].endswith("is empty")
    assert looked(addon, look="file", path=str(tmp_path))[0].endswith("is a folder")
    assert looked(addon, look="file", path=str(tmp_path / "no.png"))[0].endswith("does not exist")


def test_every_needed_file_of_a_sequence_is_looked_for(addon: Addon, tmp_path: Path) -> None:
    touch(tmp_path, *(f"tex_{number:04d}.png" for number in (1, 2, 4)))
    one: dict[str, Any] = {"look": "frames", "path": str(tmp_path / "tex_0001.png")}
    assert looked(addon, **one, numbers={1, 2, 4}) == []
    assert looked(addon, **one, numbers={1, 2, 3, 4}) == [
        f"1 of 4 files of the it are missing: {tmp_path / 'tex_0003.png'}"
    ]


@pytest.mark.parametrize("tile", [1001, 1011, 1101, 9999])
def test_any_tile_from_1001_counts(addon: Addon, tmp_path: Path, tile: int) -> None:
    touch(tmp_path, f"skin.{tile}.exr")
    one: dict[str, Any] = {"look": "tiles", "path": str(tmp_path / "skin.<UDIM>.exr")}
    assert looked(addon, **one) == []
    assert looked(addon, **one, numbers=[tile]) == []
    assert "1002" in looked(addon, **one, numbers=[tile, 1002])[0]


def test_tiles_named_by_column_and_row_are_found(addon: Addon) -> None:
    tile_path = addon.shared.disk.tile_path
    assert tile_path("a.<UVTILE>.png", 1001) == "a.u1_v1.png"
    assert tile_path("a.<UVTILE>.png", 1012) == "a.u2_v2.png"


def test_an_output_folder_that_cannot_be_written_is_refused(
    addon: Addon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "file")
    assert "is a file" in looked(addon, look="output", path=str(tmp_path / "file" / "a_####.png"))[0]
    disk = addon.shared.disk
    monkeypatch.setattr(disk.os, "access", lambda path, mode: False)  # root may write everywhere
    assert "cannot be written" in looked(addon, look="output", path=str(tmp_path / "new" / "a_####.png"))[0]


def test_a_temporary_folder_as_output_is_warned_of(
    addon: Addon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = addon.shared.disk
    monkeypatch.setattr(disk.tempfile, "gettempdir", lambda: str(tmp_path))
    assert "only this machine sees" in looked(addon, look="output", path=str(tmp_path / "a_####.png"))[-1]


# -- remembering -----------------------------------------------------------------------------------------


def test_choices_are_remembered_by_file_and_scene(addon: Addon) -> None:
    choices = addon.shared.choices
    choices.remember("blender", "/p/a.blend", "Scene", {"priority": 70})
    choices.remember("blender", "/p/a.blend", "Zwei", {"priority": 20})
    assert choices.recall("blender", "/p/a.blend", "Scene") == {"priority": 70}
    assert choices.recall("blender", "/p/a.blend", "Zwei") == {"priority": 20}
    assert choices.recall("blender", "/p/b.blend", "Scene") == {}
    assert choices.recall("maya", "/p/a.blend", "Scene") == {}


def test_the_oldest_choices_go_first_and_a_damaged_file_is_no_trouble(addon: Addon) -> None:
    choices = addon.shared.choices
    for number in range(choices.KEPT + 2):
        choices.remember("blender", f"/p/{number}.blend", "Scene", {"priority": number})
    assert choices.recall("blender", "/p/1.blend", "Scene") == {}
    assert choices.recall("blender", "/p/2.blend", "Scene") == {"priority": 2}
    Path(choices._path("blender")).write_text("{")
    assert choices.recall("blender", "/p/2.blend", "Scene") == {}
    choices.remember("blender", "/p/2.blend", "Scene", {"priority": 3})
    assert choices.recall("blender", "/p/2.blend", "Scene") == {"priority": 3}


def test_old_job_files_are_forgotten(addon: Addon, tmp_path: Path) -> None:
    for number in range(6):
        path = tmp_path / str(number)
        path.touch()
        os.utime(path, (number, number))
    addon.shared.files.forget_old(str(tmp_path), kept=2)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["4", "5"]
