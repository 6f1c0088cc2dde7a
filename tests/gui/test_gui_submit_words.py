"""The command that the Submit dock offers, and the name it offers for a file: both are safe to take."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.views.submit_parts.judge import command_lines, file_command
from client_gui.views.submit_parts.saving import file_name
from farm.sdk.submit_inputs import make_job
from farm.sdk.submit_options import SubmitOptions

posix = pytest.mark.skipif(sys.platform == "win32", reason="words of a shell of there are cut otherwise")

NASTY = "/shots/it's $(touch owned); farm submit/a b.json"


@posix
@pytest.mark.parametrize("force", [False, True])
def test_a_saved_file_is_one_word_of_the_command(force: bool) -> None:
    words = shlex.split(file_command(NASTY, force=force))
    assert words == ["farm", "submit", *(["--force"] if force else []), NASTY]


@posix
def test_a_shell_does_just_that(tmp_path: Path) -> None:
    (tmp_path / "farm").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "farm").chmod(0o700)
    told = subprocess.run(
        ["/bin/sh", "-c", file_command(NASTY, force=True)],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.splitlines() == ["submit", "--force", NASTY]
    assert not (tmp_path / "owned").exists()


@posix
def test_force_is_a_word_of_the_call_and_not_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my farm submit && farm submit"
    folder.mkdir()
    job, _ = make_job(SubmitOptions(program=("echo", "farm submit"), frames="1-3"), str(folder))
    plain, forced = command_lines(job)
    assert shlex.split(plain)[:5] == ["cd", str(folder), "&&", "farm", "submit"]
    words = shlex.split(forced)
    assert words[:6] == ["cd", str(folder), "&&", "farm", "submit", "--force"]
    assert words[6:] == shlex.split(plain)[5:]


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("sh010 v3", "sh010 v3.json"),
        ("ä.b", "ä.b.json"),
        ("../../.bashrc", "bashrc.json"),
        ("-rf", "rf.json"),
        ("C:\\Windows\\x", "C-Windows-x.json"),
        ("a\x00b\n\x1b[31mc", "a b  [31mc.json"),
        ("", "job.json"),
        ("...", "job.json"),
        ("con", "job-con.json"),
        ("LPT1.txt", "job-LPT1.txt.json"),
    ],
)
def test_names_of_files_that_are_offered(name: str, offered: str) -> None:
    assert file_name(name) == offered


@given(st.text())
def test_no_name_leaves_the_folder_hides_or_is_an_option(name: str) -> None:
    found = file_name(name)
    assert PurePosixPath(found).name == PureWindowsPath(found).name == found
    assert found.isprintable()
    assert found[0] not in ".-~ "
    assert len(found.encode()) < 255
