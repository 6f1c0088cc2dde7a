"""The Preview dock: what was rendered, as soon as it is there.

What belongs here: which frames are shown in which way, and what can be done with them.  What may not: loading
pictures, and painting (``preview_parts``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from PySide6.QtCore import QPoint, QSize
from PySide6.QtGui import QHideEvent, QImage
from PySide6.QtWidgets import QVBoxLayout, QWidget

from client_gui.actions.context import ActionContext, UnitsOf
from client_gui.desk import Desk
from client_gui.settings import Setting
from client_gui.store.attempts import frame_of
from client_gui.store.columns import step_address
from client_gui.store.farmstore import FarmChange
from client_gui.style.lazily import when_seen
from client_gui.views.keyedview import KeyedView
from client_gui.views.preview_parts.against import Against
from client_gui.views.preview_parts.deeds import PreviewDeeds
from client_gui.views.preview_parts.details import Details
from client_gui.views.preview_parts.head import PreviewHead
from client_gui.views.preview_parts.loader import Key, PreviewLoader
from client_gui.views.preview_parts.newest import DONE, Newest, likely_step
from client_gui.views.preview_parts.pages import PreviewPages
from client_gui.views.preview_parts.player import Player
from client_gui.views.preview_parts.sheet import Cell
from client_gui.views.preview_parts.words import Shown, instead_of_picture, said_of, step_from
from farm.protocol.client import StepRow
from farm.sdk.words import plural

MODE: Final = Setting("preview/mode", "frame")
RATE: Final = Setting("preview/rate", 24)

_KEYS: Final[dict[str, str]] = {
    "Space": "play",
    "F": "frame",
    "G": "sheet",
    "B": "wipe",
    "Ctrl+Shift+C": "copy-path",
    "O": "folder",
    "Shift+V": "open-file",
    "Esc": "close",
}


class PreviewView(KeyedView):
    """What was rendered."""

    name = "preview"
    title = "Preview"
    own_keys: ClassVar[Mapping[str, str]] = _KEYS

    def __init__(self, desk: Desk, parent: QWidget | None = None) -> None:
        super().__init__(desk, parent)
        self._target: tuple[int, str] = (0, "")
        self._unit = -1
        self._follows = True
        self._mode = "frame"
        theme = desk.theme
        self.loader = PreviewLoader(desk.client)
        self.newest = Newest(desk.client, self)
        self.details = Details(desk.client, self)
        self.player = Player(self._ready, parent=self)
        self.pages = PreviewPages(theme, self._cell)
        self.canvas, self.strip, self.sheet = self.pages.canvas, self.pages.strip, self.pages.sheet
        self.foot, self.pace = self.pages.foot, self.pages.pace
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.pages, 1)
        # After the pages: a menu that a view has before its widgets cuts them off from the order of Tab.
        self.deeds = PreviewDeeds(desk, self.files, self.picture, self.act, self)
        self.against = Against(desk.client)
        self.head = PreviewHead(theme, self.against, desk.settings.get(RATE), self.deeds.menu)
        box.insertWidget(0, self.head)
        self._connect()
        self.player.set_rate(self.head.rate.currentData())
        self._restyle()
        self.set_mode(desk.settings.get(MODE))

    def _connect(self) -> None:
        desk = self.desk
        self.loader.came.connect(self._came)
        self.details.wanted.connect(self._ask_details)
        self.details.came.connect(self._foot)
        self.player.shown.connect(self._played)
        self.player.stood.connect(self._pace)
        self.canvas.step.connect(self._step_frame)
        self.canvas.zoomed.connect(self._foot)
        for sheet in (self.strip, self.sheet):
            sheet.chosen.connect(self._chosen)
            sheet.opened.connect(self._opened)
            sheet.seen.connect(self._want)
            sheet.menu_wanted.connect(self._menu_at)
        self.canvas.menu_wanted.connect(self._menu_at)
        self.head.wanted.connect(self.act)
        self.head.rate_chosen.connect(self._rate_chosen)
        self.head.latest.clicked.connect(self._follow)
        self.against.chosen.connect(self._against_chosen)
        self.newest.changed.connect(self._newest_came)
        desk.focus.unit_changed.connect(self._focus_changed)
        when_seen(desk.theme, self, self._restyle)
        desk.client.stood.connect(self._foot)
        self.destroyed.connect(self.loader.close)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Room for a picture."""
        return QSize(self.desk.theme.em(26), self.desk.theme.em(18))

    # -- what is looked at --

    def look(self) -> None:
        """Follows the job that is looked at, and the one it is compared with."""
        other = self.against.other if self._mode == "wipe" else None
        jobs = {self.desk.focus.job, other[0] if other is not None else 0}
        opened = frozenset(job for job in jobs if job)
        self.desk.client.look(self.looker, jobs=self._mode == "wipe", opened=opened)

    def refresh(self) -> None:
        """Shows what is looked at."""
        self._focus_changed()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Fetches nothing any more, and stops."""
        super().hideEvent(event)
        self.player.stop()
        for who in ("canvas", "sheet", "strip", "ahead"):
            self.loader.want(who, ())
        self.details.stop()

    def action_context(self) -> ActionContext:
        """The frame that is shown."""
        job, step = self._target
        if not job or not step:
            return ActionContext("jobs", jobs=(job,)) if job else ActionContext()
        frame = frame_of(self._step(), self._unit)
        units = (self._unit,) if self._unit >= 0 else ()
        return ActionContext(
            "frames", units=(UnitsOf(job, step, units, "" if frame is None else str(frame)),)
        )

    def _step(self, job: int = 0, name: str = "") -> StepRow | None:
        job, name = job or self._target[0], name or self._target[1]
        return next((row for row in self.desk.client.store.steps_of(job) if row.name == name), None)

    def _focus_changed(self) -> None:
        if not self.on:
            return
        focus = self.desk.focus
        step = focus.step or likely_step(self.desk.client.store.steps_of(focus.job))
        if (focus.job, step) != self._target:
            self.player.stop()
            self._target = (focus.job, step)
            self._unit = -1
            self.details.forget()
            # Of something else the newest frame is shown anew, though an older one was looked at before.
            self._set_follow(True)
            self.against.forget()
            self.newest.look(focus.job, self._step())
            self._fill_against()
            self.look()
        if focus.step and focus.unit >= 0:
            self.player.stop()
            self._set_follow(
                focus.unit == (self.newest.units[0] if self.newest.units else -1) and self._follows
            )
            self._go(focus.unit)
        elif self._follows and self.newest.units:
            self._go(self.newest.units[0])
        self._fill()

    def farm_changed(self, change: FarmChange) -> None:
        """Frames were finished: there are new pictures."""
        if self._target[0] and not (self._target[1] and self.newest.known):
            # The job's steps were not known yet.
            self._target = (0, "")
            self._focus_changed()
            return
        moved = change.maps.get(step_address(*self._target))
        if moved is None:
            return
        if moved.whole:
            self._fill()
            if not self.newest.units:
                self.newest.ask()
            return
        units = [int(unit) for unit in moved.units]
        ended = self.newest.moved(units)
        self.loader.outdated([self._key(unit) for unit in ended])
        self._fill()
        if self._unit in units:
            self.details.ask_soon()
        # With reduced motion the picture stays until somebody wants another one.
        if ended and self._follows and not self.player.playing and not self.desk.theme.calm:
            self._go(self.newest.units[0])

    def _newest_came(self) -> None:
        self._fill()
        if self._follows and self.newest.units and self.desk.focus.unit < 0:
            self._go(self.newest.units[0])

    # -- what is shown --

    def _key(self, unit: int) -> Key:
        return (*self._target, unit)

    def _number(self, unit: int) -> str:
        frame = frame_of(self._step(), unit)
        return str(frame) if frame is not None else self._target[1]

    def _cell(self, unit: int) -> Cell:
        key, state = self._key(unit), self.newest.state(unit)
        image = self.loader.picture(key)
        text = "" if image is not None else self.loader.text(key) if state == "done" else state
        return Cell(self._number(unit), state, image, text)

    def _fill(self) -> None:
        """Gives the sheets their units."""
        count = len(self.newest.states())
        if count != len(self.sheet.units):
            self.sheet.show_units(range(count))
        self.strip.show_units(tuple(self.newest.units))
        self.strip.setVisible(bool(self.newest.units) and self._mode == "frame")
        self.pages.repaint_sheets()
        self._want()
        self._show()

    def _want(self) -> None:
        """Says which pictures are looked at."""
        if not self.on:
            return
        keys = [self._key(self._unit)] if self._unit >= 0 and self._mode != "sheet" else []
        other = self._other_key()
        self.loader.want("canvas", [*keys, *([other] if other is not None else [])])
        states = self.newest.states()
        sheet = self.sheet.visible_units() if self._mode == "sheet" else []
        self.loader.want(
            "sheet", [self._key(unit) for unit in sheet if unit < len(states) and states[unit] == DONE]
        )
        strip = self.strip.visible_units() if self._mode == "frame" else []
        self.loader.want("strip", [self._key(unit) for unit in strip])
        ahead = self.player.ahead() if self.player.playing else []
        self.loader.want("ahead", [self._key(unit) for unit in ahead])

    def _came(self, key: Key) -> None:
        image = self.loader.picture(key)
        if image is not None and key[:2] == self._target:
            self.pages.set_aspect(image.width() / max(1, image.height()))
        self.pages.repaint_sheets()
        if not self.player.playing and (key == self._key(self._unit) or key == self._other_key()):
            self._show()

    def _go(self, unit: int) -> None:
        """Shows a frame."""
        if unit == self._unit:
            return
        self._unit = unit
        self.details.forget()
        self.pages.choose(unit)
        self._want()
        self._show()
        self.details.ask_soon()

    def _show(self) -> None:
        text = self._message()
        number, state = self._number(self._unit), self.newest.state(self._unit)
        self.canvas.comparing = self._mode == "wipe"
        said = f"frame {number}, {state}" if self._unit >= 0 else text
        self.canvas.show_picture(self.picture(), text, said)
        if self._mode == "wipe":
            other = self._other_key()
            behind = self.loader.picture(other) if other is not None else None
            why = self.loader.text(other) if other is not None else self.against.why_not(number)
            names = self.against.names(self._key(self._unit), other)
            self.canvas.show_other(behind, "" if behind is not None else why, names)
        self._foot()

    def picture(self) -> QImage | None:
        """The picture that is shown."""
        return self.loader.picture(self._key(self._unit)) if self._unit >= 0 else None

    def files(self) -> tuple[str, ...]:
        """Paths of the finished files of the frame that is shown."""
        return self.details.row.files if self.details.row is not None else ()

    def _message(self) -> str:
        """What is said in place of a picture."""
        job, step = self._target
        if self._unit < 0:
            any_done = None if self._step() is None else DONE in self.newest.states()
            return instead_of_picture(Shown(job, step, "", "", "", any_done, self.desk.client.live))
        number, state = self._number(self._unit), self.newest.state(self._unit)
        text = self.loader.text(self._key(self._unit))
        return instead_of_picture(Shown(job, step, number, state, text, None, self.desk.client.live))

    # -- details --

    def _ask_details(self) -> None:
        row = self._step()
        if self.on and self._target[1] and self._unit >= 0 and row is not None and not self.player.playing:
            self.details.ask(self._target[0], row, self._unit)

    def _foot(self) -> None:
        parts: list[str] = []
        if self._unit >= 0:
            parts += [f"frame {self._number(self._unit)}", self.newest.state(self._unit)]
        parts += said_of(self.details.row)
        if self._mode == "sheet" and self._target[1]:
            parts.append(plural(len(self.sheet.units), "frame"))
        image = self.picture()
        if image is not None and self._mode != "sheet":
            parts.append(f"preview {image.width()} × {image.height()} at {self.canvas.scale:.0%}")
        self.foot.setText(" · ".join(parts))
        self.foot.setToolTip(self.foot.text())

    # -- modes --

    def set_mode(self, mode: str) -> None:
        """Shows one frame, the contact sheet, or two frames with a line between them."""
        self._mode = mode if mode in self.head.modes else "frame"
        self.head.show_mode(self._mode)
        self.desk.settings.set(MODE, self._mode)
        self.pages.show_sheet(self._mode == "sheet")
        if self._mode == "sheet":
            self.player.stop()
        if self.on:
            self.look()
            self._fill_against()
            self._fill()
        self.setFocusProxy(self.sheet if self._mode == "sheet" else self.canvas)

    def _follow(self, follow: bool) -> None:
        self._follows = follow
        if follow and self.newest.units:
            self._chosen(self.newest.units[0])
            self._follows = True
        self.head.latest.setChecked(self._follows)

    def _set_follow(self, follow: bool) -> None:
        self._follows = follow
        self.head.latest.setChecked(follow)

    def _chosen(self, unit: int) -> None:
        self.player.stop()
        self._set_follow(bool(self.newest.units) and unit == self.newest.units[0] and self._follows)
        self._go(unit)
        focus = self.desk.focus
        if focus.job == self._target[0]:
            focus.set_unit(self._target[1], unit)

    def _opened(self, unit: int) -> None:
        self._chosen(unit)
        self.set_mode("frame")
        self.canvas.setFocus()

    def _step_frame(self, by: int) -> None:
        """The next frame that has a picture, or the one before."""
        done = self.newest.done()
        if done:
            self._chosen(step_from(done, self._unit, by))

    def _menu_at(self, place: QPoint) -> None:
        self.deeds.menu.popup(place)

    # -- playing --

    def _ready(self, unit: int) -> bool:
        return self.loader.picture(self._key(unit)) is not None

    def _played(self, unit: int) -> None:
        self._unit = unit
        self.details.forget()
        self.strip.choose(unit)
        self._want()
        self._show()

    def _rate_chosen(self, rate: int) -> None:
        self.player.set_rate(rate)
        self.desk.settings.set(RATE, rate)

    def _pace(self) -> None:
        playing = self.player.playing
        self.pace.setText(self.player.said)
        self.head.show_playing(playing)
        if not playing and self.on:
            self._want()
            self.details.ask_soon()

    # -- comparing --

    def _fill_against(self) -> None:
        if self._mode == "wipe":
            self.against.fill(self._target[0], self._step(), self._unit, self.newest.done())

    def _against_chosen(self) -> None:
        if self.on:
            self.look()
        self._want()
        self._show()

    def _other_key(self) -> Key | None:
        return self.against.key(self._step(), self._unit) if self._mode == "wipe" else None

    # -- what can be done --

    def act(self, action: str) -> bool:
        """Does something of this view, by its id; whether there is such a thing."""
        if action in self.head.modes:
            self.set_mode(action)
        elif action == "play":
            if self.player.playing:
                self.player.stop()
            else:
                if self._mode == "sheet":
                    self.set_mode("frame")
                self._set_follow(False)
                self.player.play(self.newest.done(), self._unit)
                self._want()
        elif action == "hold":
            if self._unit >= 0:
                self.against.hold(self._key(self._unit))
                self.set_mode("wipe")
        elif action == "copy-path":
            self.deeds.copy_path()
        elif action == "open-file":
            self.deeds.open_file()
        elif action == "folder":
            self.deeds.open_folder()
        elif action == "close":
            if self._mode == "frame" and not self.player.playing:
                return False
            self.player.stop()
            self.set_mode("frame")
        else:
            return False
        return True

    def _restyle(self) -> None:
        self.head.restyle()
        self.pages.restyle()
