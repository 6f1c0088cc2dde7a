"""Looks: everything can be read in each of them, nothing else says a colour, and a change is seen at once."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPalette
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

import client_gui
from client_gui.style.dress import PICTURES, Dress, palette, style_sheet, wear
from client_gui.style.glyphs import NAMES, app_icon, glyph_paths, icon, paint_glyph, state_icon
from client_gui.style.theme import CHOICES, ZOOM_MOST, Theme
from client_gui.style.tokens import GLYPHS, LOOKS, Look, look_of
from farm.model.states import UnitState

EVERY_LOOK = [pytest.param(look_of(name, safe), id=f"{name}{'-safe' if safe else ''}")
              for name in LOOKS for safe in (False, True)]  # fmt: skip
BEHIND = ("window", "base", "raised", "selected", "hover", "shade")


def _linear(channel: int) -> float:
    part = channel / 255
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _rgb(colour: str) -> tuple[float, float, float]:
    found = QColor(colour)
    return _linear(found.red()), _linear(found.green()), _linear(found.blue())


def contrast(one: str, other: str) -> float:
    """Contrast as WCAG 2.2 defines it: (L1 + 0.05) / (L2 + 0.05) of relative luminances."""
    bright, dark = sorted(
        (0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (_rgb(one), _rgb(other))), reverse=True
    )
    return (bright + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_the_standard_says() -> None:
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21.0)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.005)  # the standard's own example
    assert contrast("#123456", "#123456") == 1.0


@pytest.mark.parametrize("look", EVERY_LOOK)
def test_words_can_be_read_on_everything_they_stand_on(look: Look) -> None:
    thin = {
        (token, behind): round(contrast(getattr(look, token), getattr(look, behind)), 2)
        for token in ("text", "dim")
        for behind in BEHIND
        if contrast(getattr(look, token), getattr(look, behind)) < 4.5
    }
    assert not thin
    # What is said in these colours stands in docks, tables and cards.
    thin = {
        (token, behind): round(contrast(getattr(look, token), getattr(look, behind)), 2)
        for token in ("accent", "good", "warn", "bad")
        for behind in ("window", "base", "raised")
        if contrast(getattr(look, token), getattr(look, behind)) < 4.5
    }
    assert not thin
    assert contrast(look.on_accent, look.accent) >= 4.5


@pytest.mark.parametrize("look", EVERY_LOOK)
def test_states_and_the_ring_of_the_keyboard_can_be_seen_on_everything(look: Look) -> None:
    thin = {
        (word, behind): round(contrast(colour, getattr(look, behind)), 2)
        for word, colour in [*look.states.items(), ("focus", look.focus)]
        for behind in BEHIND
        if contrast(colour, getattr(look, behind)) < 3.0
    }
    assert not thin
    thin = {
        (word, behind): round(contrast(colour, getattr(look, behind)), 2)
        for word, colour in look.states.items()
        for behind in ("window", "base", "shade")  # where the word itself is written in its colour
        if contrast(colour, getattr(look, behind)) < 4.5
    }
    assert not thin


def test_high_contrast_is_higher() -> None:
    look = LOOKS["contrast"]
    for token in ("text", "dim", "accent", "good", "warn", "bad"):
        assert contrast(getattr(look, token), look.window) >= 7.0, token
    assert contrast(look.line, look.window) >= 3.0, "edges of what can be pressed are seen, too"


@pytest.mark.parametrize("look", EVERY_LOOK)
def test_every_state_of_the_farm_has_a_colour_and_a_glyph(look: Look) -> None:
    words = {state.word for state in UnitState} | {"starting", "retry pending", "paused"}
    assert words <= set(look.states)
    assert words <= set(GLYPHS)
    assert words <= NAMES


#: How those see who lack red- or green-sensitive cones; Machado, Oliveira and Fernandes (2009), severity 1.
_SEEN_BY = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216),
                   (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413),
                     (-0.011820, 0.042940, 0.968881)),
}  # fmt: skip


def _lab(rgb: tuple[float, float, float]) -> tuple[float, float, float]:
    """CIE L*a*b* of linear sRGB under D65."""
    r, g, b = (min(1.0, max(0.0, part)) for part in rgb)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (n ** (1 / 3) if n > 0.008856 else 7.787 * n + 16 / 116 for n in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("sight", sorted(_SEEN_BY))
@pytest.mark.parametrize("name", sorted(LOOKS))
def test_the_safe_states_differ_for_those_who_do_not_tell_red_from_green(name: str, sight: str) -> None:
    states = look_of(name, safe=True).states

    def seen(word: str) -> tuple[float, float, float]:
        rgb = _rgb(states[word])
        a, b, c = (sum(k * part for k, part in zip(row, rgb, strict=True)) for row in _SEEN_BY[sight])
        return _lab((a, b, c))

    words = ("queued", "blocked", "starting", "running", "done", "failed", "retry pending")
    near = {pair: round(math.dist(seen(pair[0]), seen(pair[1])), 1) for pair in combinations(words, 2)}
    # A difference of 2.3 is just seen side by side; in a grid of small cells it has to be several times that.
    assert min(near.values()) >= 12.0, min(near.items(), key=lambda one: one[1])


# -- nothing else says a colour --

_HEX = re.compile(r"#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4})\b|\brgba?\(")
_ROOT = Path(client_gui.__file__).parent


def _colours(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if found := _HEX.search(node.value):
                yield f"{path.relative_to(_ROOT)}:{node.lineno}: {found[0]}"
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            numbers = [one for one in node.args if isinstance(one, ast.Constant) and type(one.value) is int]
            words = [one for one in node.args if isinstance(one, ast.Constant) and type(one.value) is str]
            if name in ("QColor", "fromRgb", "fromHsv", "qRgb", "qRgba") and (numbers or words):
                yield f"{path.relative_to(_ROOT)}:{node.lineno}: {name}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute | ast.Name):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
            if owner == "GlobalColor" and node.attr not in ("transparent", "color0", "color1"):
                yield f"{path.relative_to(_ROOT)}:{node.lineno}: GlobalColor.{node.attr}"


def test_no_colour_is_said_outside_of_the_tokens() -> None:
    found = [
        one
        for path in sorted(_ROOT.rglob("*.py"))
        if path != _ROOT / "style" / "tokens.py"
        for one in _colours(path)
    ]
    assert not found


def test_the_search_for_colours_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}._ROOT", tmp_path)
    path = tmp_path / "bad.py"
    path.write_text(
        '"""#AABBCC in prose is no colour, and J12 #4 neither."""\n'
        "a = '#AABBCC'\nb = QColor(1, 2, 3)\nc = Qt.GlobalColor.red\nd = f'color: #fff; {x}'\n"
        "e = QColor('red')\nf = Qt.GlobalColor.transparent\n"
    )
    assert sorted(int(one.split(":")[1]) for one in _colours(path)) == [2, 3, 4, 5, 6]


# -- glyphs --


def _inked(name: str, side: int = 32) -> frozenset[int]:
    picture = QImage(side, side, QImage.Format.Format_ARGB32)
    picture.fill(0)
    painter = QPainter(picture)
    paint_glyph(painter, name, QRect(0, 0, side, side), QColor(LOOKS["dark"].text))
    painter.end()
    return frozenset(
        y * side + x for y in range(side) for x in range(side) if (picture.pixel(x, y) >> 24) > 96
    )


def test_glyphs_are_drawn_without_fonts_and_none_looks_like_another(qapp: QApplication) -> None:
    states = sorted(GLYPHS)
    inked = {name: _inked(name) for name in states}
    for name in states:
        assert len(inked[name]) > 40, f"{name} is hardly there"
    for one, other in combinations(states, 2):
        common = len(inked[one] & inked[other]) / len(inked[one] | inked[other])
        assert common < 0.75, f"{one} and {other} look alike"


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_glyph_stays_on_its_square(name: str) -> None:
    lines, shapes = glyph_paths(name)
    box = lines.boundingRect().united(shapes.boundingRect())
    assert max(box.width(), box.height()) >= 8
    assert box.left() >= 0.5
    assert box.top() >= 0.5
    assert box.right() <= 15.5
    assert box.bottom() <= 15.5


def test_a_state_of_a_newer_farm_is_a_question_mark(qapp: QApplication) -> None:
    theme = Theme()
    assert _inked("levitating") == _inked("unknown")
    assert theme.state_glyph("levitating") == "?"
    assert theme.state_colour("levitating") == theme.colour("dim")
    assert not state_icon(theme, "levitating").isNull()


def test_icons_are_those_of_the_look_in_force(qapp: QApplication) -> None:
    theme = Theme("dark")
    before = icon(theme, "find").pixmap(32).toImage()
    theme.set_look("light")
    after = icon(theme, "find").pixmap(32).toImage()
    assert before != after
    assert icon(theme, "find").cacheKey() == icon(theme, "find").cacheKey(), "drawn once"


def test_the_program_has_an_icon_at_every_size(qapp: QApplication) -> None:
    found = app_icon()
    for side in (16, 32, 256):
        picture = found.pixmap(side, side).toImage()
        middle = {picture.pixel(x, side // 2) for x in range(side)}
        assert len(middle) > 2, "there is something on it"


# -- the theme put on --


@pytest.fixture
def dressed(qapp: QApplication) -> Iterator[tuple[Theme, Dress]]:
    theme = Theme("dark")
    dress = Dress(qapp, theme)
    yield theme, dress
    dress.take_off()


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_the_whole_application_wears_the_look(dressed: tuple[Theme, Dress], qtbot: QtBot, name: str) -> None:
    theme, _ = dressed
    window = QWidget()
    wear(window, theme)
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    line, button = QLineEdit(), QPushButton("Pause")
    column.addWidget(line)
    column.addWidget(button)
    window.resize(200, 100)
    window.show()
    theme.set_look(name)
    picture = window.grab().toImage()
    assert picture.pixelColor(1, 1) == theme.colour("window")
    assert window.palette().color(QPalette.ColorRole.Highlight) == theme.colour("selected")
    inside = line.geometry().center()
    assert picture.pixelColor(inside) == theme.colour("base")


def test_what_has_the_keyboard_has_a_ring_of_the_focus_colour(
    dressed: tuple[Theme, Dress], qtbot: QtBot
) -> None:
    theme, _ = dressed
    window = QWidget()
    wear(window, theme)
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    for widget in (QPushButton("Pause"), QLineEdit()):
        column.addWidget(widget)
    with qtbot.waitExposed(window):
        window.show()
    window.activateWindow()

    def ringed(widget: QWidget) -> bool:
        picture = widget.grab().toImage()
        edge = {picture.pixelColor(picture.width() // 2, y).name() for y in range(3)}
        return theme.colour("focus").name() in edge

    button, line = window.findChildren(QPushButton)[0], window.findChildren(QLineEdit)[0]
    button.setFocus()
    qtbot.waitUntil(lambda: ringed(button) and not ringed(line))
    qtbot.keyClick(button, Qt.Key.Key_Tab)
    qtbot.waitUntil(lambda: ringed(line) and not ringed(button))


def test_larger_words_make_rows_higher_and_the_usual_size_comes_back(
    dressed: tuple[Theme, Dress], qapp: QApplication
) -> None:
    theme, _ = dressed
    told: list[int] = []
    theme.changed.connect(lambda: told.append(theme.row_height()))
    usual, points = theme.row_height(), qapp.font().pointSizeF()
    theme.set_zoom(1.5)
    assert qapp.font().pointSizeF() == pytest.approx(points * 1.5)
    assert theme.row_height() > usual * 1.2
    assert told == [theme.row_height()], "whoever is told finds the new sizes in force"
    theme.set_dense(True)
    assert theme.row_height() < told[0]
    theme.set_zoom(99)
    assert theme.zoom == ZOOM_MOST
    theme.set_zoom(1.0)
    theme.set_dense(False)
    assert (theme.row_height(), qapp.font().pointSizeF()) == (usual, pytest.approx(points))


def test_taking_off_leaves_the_application_as_it_was(qapp: QApplication) -> None:
    before = (qapp.palette(), qapp.font(), qapp.styleSheet())
    theme = Theme("light")
    dress = Dress(qapp, theme)
    pictures = [Path(path) for path in re.findall(r'url\("(.*?)"\)', theme.sheet)]
    assert pictures
    assert all(path.is_file() and path.with_stem(f"{path.stem}@2x").is_file() for path in pictures)
    dress.take_off()
    assert not any(path.parent.exists() for path in pictures)
    assert not theme.sheet
    assert (qapp.palette(), qapp.font(), qapp.styleSheet()) == before


def test_following_the_desktop_goes_dark_when_it_does(
    dressed: tuple[Theme, Dress], qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    theme, _ = dressed
    scheme = Qt.ColorScheme.Light

    class Hints:
        def colorScheme(self) -> Qt.ColorScheme:  # noqa: N802
            return scheme

        def setColorScheme(self, wanted: Qt.ColorScheme) -> None:  # noqa: N802
            pass

        def unsetColorScheme(self) -> None:  # noqa: N802
            pass

    with monkeypatch.context() as patch:
        patch.setattr("client_gui.style.theme.QGuiApplication.styleHints", lambda: Hints())
        told: list[str] = []
        theme.changed.connect(lambda: told.append(theme.look.name))
        theme.set_look("system")
        scheme = Qt.ColorScheme.Dark
        theme._system_changed()
        scheme = Qt.ColorScheme.Unknown
        theme._system_changed()
        assert told == ["light", "dark"], "a desktop that does not say gets dark"
        theme.set_look("contrast")
        scheme = Qt.ColorScheme.Light
        theme._system_changed()
        assert theme.look.name == "contrast", "what was chosen stays"


def test_every_choice_can_be_taken(qapp: QApplication) -> None:
    theme = Theme()
    for name in CHOICES:
        theme.set_look(name)
        assert theme.choice == name
        assert theme.look in LOOKS.values()


@pytest.mark.parametrize("name", sorted(LOOKS))
def test_the_style_sheet_has_nothing_left_to_fill_in(qapp: QApplication, name: str) -> None:
    sheet = style_sheet(Theme(name), dict.fromkeys(PICTURES, "/a/picture.png"))
    assert not set("@$%") & set(sheet)
    assert palette(Theme(name)).color(QPalette.ColorRole.Window).name() == LOOKS[name].window.lower()
