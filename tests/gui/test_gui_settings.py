"""What the client remembers: typed, written in time, and never lost to a broken file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from client_gui import settings as module
from client_gui.settings import ASIDE, DENSE, LOOK, WINDOWS, ZOOM, Setting, Settings, open_settings

NAMES: Setting[list[Any]] = Setting("jobs/columns", ["name"])
VIEWS: Setting[dict[str, Any]] = Setting("jobs/views", {})


def test_what_nobody_chose_is_the_default_and_what_was_chosen_comes_back(
    tmp_path: Path, qapp: QApplication
) -> None:
    path = tmp_path / "gui.ini"
    first = open_settings(path)
    assert first.trouble == ""
    assert (first.get(LOOK), first.get(ZOOM), first.get(NAMES)) == ("system", 1.0, ["name"])
    first.set(LOOK, "light")
    first.set(ZOOM, 1.25)
    first.set(NAMES, ["name", "käse; = [x]"])
    assert first.write()
    second = open_settings(path)
    assert second.trouble == ""
    assert (second.get(LOOK), second.get(ZOOM), second.get(NAMES)) == (
        "light",
        1.25,
        ["name", "käse; = [x]"],
    )


def test_it_is_written_once_a_while_after_the_last_change(
    tmp_path: Path, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WRITE_AFTER_MS", 30)
    path = tmp_path / "gui.ini"
    settings = open_settings(path)
    told: list[str] = []
    settings.changed.connect(told.append)
    for n in range(50):
        settings.set(ZOOM, 1 + n / 100)
    assert not path.exists(), "nothing is written while somebody still turns the knob"
    assert told == ["look/zoom"] * 49, "each change is told at once; the first value was no change"
    qtbot.waitUntil(path.exists)
    assert open_settings(path).get(ZOOM) == 1.49


def test_choosing_the_same_again_tells_nobody(qapp: QApplication) -> None:
    settings = Settings()
    told: list[str] = []
    settings.changed.connect(told.append)
    settings.set(DENSE, False)
    settings.set(DENSE, True)
    settings.set(DENSE, True)
    assert told == ["look/dense"]


def test_a_list_that_is_changed_outside_is_not_changed_inside(qapp: QApplication) -> None:
    settings = Settings()
    found = settings.get(NAMES)
    found.append("eta")
    assert settings.get(NAMES) == ["name"]
    mine = ["a"]
    settings.set(NAMES, mine)
    mine.append("b")
    assert settings.get(NAMES) == ["a"]


@pytest.mark.parametrize(
    ("setting", "text", "found"),
    [
        (ZOOM, "2", 2.0),
        (ZOOM, '"large"', 1.0),
        (ZOOM, "true", 1.0),
        (DENSE, "1", False),
        (LOOK, "[]", "system"),
        (LOOK, "{broken", "system"),
        (WINDOWS, '{"a": 1}', []),
        (WINDOWS, "null", []),
    ],
)
def test_a_value_of_another_type_is_taken_for_the_default(
    tmp_path: Path, qapp: QApplication, setting: Setting[Any], text: str, found: object
) -> None:
    path = tmp_path / "gui.ini"
    store = QSettings(str(path), QSettings.Format.IniFormat)
    store.setValue(setting.name, text)
    store.setValue("good/one", json.dumps("kept"))
    store.sync()
    settings = open_settings(path)
    assert settings.trouble == "", "one broken value is no reason to give up the others"
    assert settings.get(setting) == found
    assert type(settings.get(setting)) is type(setting.default)
    assert settings.get(Setting("good/one", "")) == "kept"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\x00\x01" * 50,
        b"PK\x03\x04\0\0\0",
        b"this is no ini file\nat all\n",
        b"[a]\nb=1, 2\nc=@Rect(1 2 3 4)\n",
    ],
    ids=["bytes", "zip", "prose", "foreign"],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_put_aside_and_everything_is_as_at_first(
    tmp_path: Path, qapp: QApplication, data: bytes
) -> None:
    path = tmp_path / "gui.ini"
    path.write_bytes(data)
    settings = open_settings(path)
    assert str(path) in settings.trouble
    assert "put aside" in settings.trouble
    aside = [one for one in tmp_path.iterdir() if one.name.startswith("gui.ini.broken-")]
    assert [one.read_bytes() for one in aside] == [data], "nothing of it is lost"
    assert settings.get(LOOK) == "system"
    settings.set(LOOK, "dark")
    assert settings.write()
    assert open_settings(path).get(LOOK) == "dark"


def test_an_empty_file_is_no_trouble(tmp_path: Path, qapp: QApplication) -> None:
    path = tmp_path / "gui.ini"
    path.write_text("")
    assert open_settings(path).trouble == ""


def test_where_nothing_can_be_written_choices_last_until_the_end(tmp_path: Path, qapp: QApplication) -> None:
    folder = tmp_path / "gone"
    folder.write_text("a file where the folder should be")
    settings = open_settings(folder / "gui.ini")
    assert "choices last until the client ends" in settings.trouble
    settings.set(LOOK, "light")
    settings.write()
    assert settings.get(LOOK) == "light"
    assert folder.read_text() == "a file where the folder should be"


def test_a_folder_that_went_away_is_told_and_what_was_chosen_is_kept_for_a_later_try(
    tmp_path: Path, qapp: QApplication
) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    settings = open_settings(folder / "gui.ini")
    settings.set(LOOK, "light")
    folder.rmdir()
    folder.write_text("in the way")  # a folder that is only gone is made again
    assert not settings.write()
    assert "cannot be written" in settings.trouble
    folder.unlink()
    folder.mkdir()
    assert settings.write()
    assert open_settings(folder / "gui.ini").get(LOOK) == "light"


def test_in_memory_nothing_is_written(qapp: QApplication) -> None:
    settings = Settings()
    settings.set(LOOK, "contrast")
    assert settings.write()
    assert settings.get(LOOK) == "contrast"
    assert settings.get(ASIDE) == []


@given(
    st.dictionaries(
        st.text(max_size=20),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=5,
    )
)
def test_whatever_is_kept_comes_back_the_same(
    tmp_path_factory: pytest.TempPathFactory, qapp: QApplication, value: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("kept") / "gui.ini"
    settings = open_settings(path)
    settings.set(VIEWS, value)
    assert settings.write()
    assert open_settings(path).get(VIEWS) == value
