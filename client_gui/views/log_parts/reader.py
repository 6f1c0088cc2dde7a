"""One log to be read: its rows with the minimap, looking for something, going somewhere, what is said below.

What belongs here: what somebody does within one log.  What may not: which log that is (``views.log``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QStackedLayout, QVBoxLayout, QWidget

from client_gui.lanes import Lane
from client_gui.store.logtext import Level
from client_gui.style.theme import Theme
from client_gui.views.log_parts.bars import FindBar, GoToBar, paint_words, plain
from client_gui.views.log_parts.comparing import Comparing
from client_gui.views.log_parts.document import ALL_BYTES, LogDocument, selected_text
from client_gui.views.log_parts.finding import Finding
from client_gui.views.log_parts.foot import LogFoot, plural_of
from client_gui.views.log_parts.minimap import Layers, Minimap
from client_gui.views.log_parts.pane import LinePane
from client_gui.views.log_parts.rows import DiffRows, LogRows
from farm.sdk.words import size_text

#: Rows that are copied at once, when they are ready.
_AT_ONCE: Final = 20_000
#: Most bytes that go into the clipboard.
_MOST_COPIED: Final = 16 << 20


class LogReader(QWidget):
    """A log.

    Attributes:
        document: It; None for none.
        pane: Its rows.
        place, amount, load: Of the line below it.
    """

    #: Its figures changed: errors, warnings, whether the end is followed.
    stood = Signal()
    #: Something to be told: words, and whether they are bad news.
    said = Signal(str, bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.document: LogDocument | None = None
        self.comparing: Comparing | None = None
        self._rows: LogRows | None = None
        self._diff: DiffRows | None = None
        self._to_error = False
        self._lane = Lane()
        self.find_bar = FindBar(theme)
        self.go_bar = GoToBar(theme)
        self.pane = LinePane(theme)
        self.minimap = Minimap(theme, self._layers, self._count, self._window)
        self.message = plain()
        self.message.setWordWrap(True)
        self.message.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.message.setMargin(theme.em(1))
        self.message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.foot = LogFoot(theme)
        self.place, self.amount, self.load = self.foot.place, self.foot.amount, self.foot.load
        self.finding = Finding(self.find_bar, self.pane, self)
        self.load.hide()
        self._pages = QStackedLayout()
        self._lay_out()
        self.find_bar.hide()
        self.go_bar.hide()
        self.finding.changed.connect(self.minimap.update)
        self.go_bar.wanted.connect(self._go)
        self.go_bar.closed.connect(self._close_go)
        self.pane.moved.connect(self._foot)
        self.pane.seen.connect(self._looked)
        self.pane.followed.connect(lambda _: self._foot())
        self.pane.copy_wanted.connect(self.copy)
        self.minimap.wanted.connect(self.pane.go_to)
        self.load.clicked.connect(self.fetch_all)
        self.show_message("")

    def _lay_out(self) -> None:
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addWidget(self.find_bar)
        box.addWidget(self.go_bar)
        lines = QWidget()
        beside = QHBoxLayout(lines)
        beside.setContentsMargins(0, 0, 0, 0)
        beside.setSpacing(0)
        beside.addWidget(self.pane, 1)
        beside.addWidget(self.minimap)
        self._pages.addWidget(self.message)
        self._pages.addWidget(lines)
        box.addLayout(self._pages, 1)
        box.addWidget(self.foot)
        self.restyle()

    # -- which log --

    def show_document(self, document: LogDocument | None, *, at: str = "top") -> None:
        """Shows a log: from its top, at its ``error`` or its ``end``."""
        if document is self.document:
            return
        self.end_compare()
        self.finding.drop()
        if self.document is not None:
            self.document.grew.disconnect(self._grew)
            self.document.ready.disconnect(self.pane.ready)
            self.document.stood.disconnect(self._stood)
            self.document.pause()
        self.document = document
        self.pane.touched = False
        self._to_error = at == "error"
        self._rows = LogRows(document) if document is not None else None
        self.pane.follow = at == "end"
        self.pane.show_rows(self._rows)
        if document is not None:
            document.grew.connect(self._grew)
            document.ready.connect(self.pane.ready)
            document.stood.connect(self._stood)
            document.open(at_end=at != "top")
            self._grew()
        self.finding.look_in(document, self._rows)
        self._foot()

    def show_message(self, text: str) -> None:
        """Says something instead of showing rows; "" shows rows."""
        self.message.setText(text)
        self.message.setAccessibleName(text)
        self._pages.setCurrentIndex(0 if text else 1)
        if not text and self.document is None:
            self._pages.setCurrentIndex(0)

    def restyle(self) -> None:
        """Takes colours and sizes from the theme anew."""
        self.pane.restyle()
        self.find_bar.restyle()
        self.foot.restyle()
        paint_words(self._theme, self.message, "dim")
        self.minimap.update()

    def shut(self) -> None:
        """Ends what runs."""
        self.end_compare()
        self.finding.drop()
        self._lane.clear()

    def _stood(self) -> None:
        self._foot()
        self.stood.emit()

    def _grew(self) -> None:
        if self.comparing is None:
            self.pane.rows_changed()
        if self._to_error:
            self._seek_error()
        self.minimap.update()
        self._foot()
        self.stood.emit()

    def _looked(self) -> None:
        self.minimap.update()

    def _seek_error(self) -> None:
        """Opens at the first error: at the end at first, and there as soon as it is known where that is."""
        document = self.document
        if document is None or not document.map.rows:
            return
        if self.pane.touched:
            self._to_error = False
            return
        runs = document.map.runs
        first = runs[0].marks(Level.ERROR) if runs else np.empty(0, np.uint32)
        sure = runs and (runs[0].start == 0 or document.map.size > ALL_BYTES)
        if sure and len(first):
            self._to_error = False
            self.pane.go_to(document.map.row_at(int(first[0])))
        elif document.map.whole and document.ended:
            self._to_error = False
            self.pane.go_to(document.map.rows - 1)
        else:
            self.pane.go_to(document.map.rows - 1)
        self.pane.touched = False

    # -- errors --

    def counts(self) -> tuple[int, int]:
        """How many errors and warnings are known."""
        if self.document is None:
            return 0, 0
        errors = len(self.document.map.marks(Level.ERROR))
        return errors, len(self.document.map.marks(Level.WARNING)) - errors

    def step_error(self, *, back: bool = False) -> None:
        """Goes to the next error (or warning, when there are no errors), or the next difference."""
        if self._diff is not None and self.comparing is not None:
            row = self._diff.next_change(self.pane.cursor_row, back=back)
            if row is None:
                self.said.emit("no further difference", False)
            else:
                self.pane.go_to(row)
            return
        document = self.document
        if document is None or not document.map.rows:
            return
        errors, warnings = self.counts()
        least = Level.ERROR if errors else Level.WARNING
        word = "error" if errors or not warnings else "warning"
        found = document.map.next_mark(self.pane.place.key, back=back, least=least)
        if found is None:
            where = "" if document.map.whole else " in what is here"
            self.said.emit(f"no {'earlier' if back else 'further'} {word}{where}", False)
            return
        self.pane.touched = True
        self.pane.go_to(document.map.row_at(found))

    # -- going somewhere --

    def open_go(self) -> None:
        """Asks for a line."""
        self.go_bar.say("")
        self.go_bar.show()
        self.go_bar.edit.setFocus()
        self.go_bar.edit.selectAll()

    def _close_go(self) -> None:
        self.go_bar.hide()
        self.pane.setFocus()

    def _go(self, text: str) -> None:
        document = self.document
        if document is None or not document.map.rows:
            return
        self.pane.touched = True
        if text.lower() in ("end", "$"):
            document.fetch_end()
            self.pane.go_to_end()
            self._close_go()
            return
        number = text.replace(",", "").replace(" ", "").removesuffix("%")
        if not number.isdigit():
            self.go_bar.say("a line is a number; 50% and end are places, too")
            return
        if text.endswith("%"):
            offset = document.map.size * min(100, int(number)) // 100
            document.want_at(offset)
            self.pane.go_to(document.map.row_at(offset))
            self._close_go()
            return
        row = document.map.row_of_line(int(number))
        if row is None:
            document.fetch_all()
            self.go_bar.say("that line is not fetched yet; the log is being fetched, try again in a moment")
            return
        self.pane.go_to(row)
        self._close_go()

    def toggle_follow(self, follow: bool) -> None:
        """Keeps the end in view, or not."""
        if follow and self.document is not None:
            self.document.fetch_end()
            self.pane.go_to_end()
        elif self.pane.follow:
            self.pane.follow = False
            self.pane.followed.emit(False)

    # -- finding --

    def open_find(self) -> None:
        """Asks what to look for."""
        self.finding.open()

    def close_find(self) -> None:
        """Ends the search."""
        self.finding.close()

    # -- copying --

    def copy(self) -> None:
        """Puts what is selected into the clipboard; the cursor's line when nothing is."""
        rows, document = self.pane.rows, self.document
        if rows is None or not rows.count:
            return
        chosen = self.pane.selection
        first, last = chosen if chosen is not None else (self.pane.place, self.pane.place)
        low, high = rows.row_of(first.key), rows.row_of(last.key)
        lines = [rows.line(row) for row in range(low, min(high, low + _AT_ONCE) + 1)]
        texts = [line.text for line in lines if line is not None]
        if len(texts) == high - low + 1 or self._diff is not None:
            cut = (first.column, last.column) if chosen is not None else (0, 1 << 30)
            self._copied("\n".join(texts), cut)
            return
        if document is None:
            return
        start, end = document.map.span(low)[0], document.map.span(high)[1]
        if end - start > _MOST_COPIED:
            self.said.emit(
                f"{size_text(end - start)} are too much for the clipboard; save the log instead", True
            )
            return
        cut = (first.column, last.column)
        self._lane.run(
            lambda ticket: selected_text(document, start, end, ticket),
            self,
            lambda text: self._copied(text, cut),
        )

    def _copied(self, text: str, cut: tuple[int, int]) -> None:
        lines = text.split("\n")
        lines[-1] = lines[-1][: cut[1]]
        lines[0] = lines[0][cut[0] :]
        QGuiApplication.clipboard().setText("\n".join(lines))
        self.said.emit(f"{plural_of(len(lines), 'line')} copied", False)

    # -- comparing --

    def compare(self, other: LogDocument, *, figures: bool = False) -> None:
        """Shows what another log has that this one has not, and the other way round."""
        if self.document is None:
            return
        self.end_compare()
        self.comparing = Comparing(other, self.document, figures=figures, parent=self)
        self.comparing.changed.connect(self._compared)
        self._compared()

    def end_compare(self) -> None:
        """Shows the log again."""
        if self.comparing is None:
            return
        comparing, self.comparing = self.comparing, None
        self._diff = None
        comparing.close()
        if comparing.first is not self.document:
            comparing.first.pause()
        comparing.deleteLater()
        self.show_message("")
        self.pane.show_rows(self._rows)
        self._foot()
        self.stood.emit()

    def _compared(self) -> None:
        comparing = self.comparing
        if comparing is None:
            return
        if comparing.trouble:
            self.show_message(f"These logs cannot be compared: {comparing.trouble}")
        elif comparing.answer is None:
            self.show_message(f"Comparing …  {comparing.part:.0%} of both logs is here.")
        elif self._diff is None:
            self._diff = DiffRows([(row[0], row[1], row[2], row[3]) for row in comparing.answer["rows"]])
            if not (comparing.answer["added"] or comparing.answer["removed"]):
                self.show_message("These logs say the same, apart from times and figures.")
            else:
                self.show_message("")
            self.pane.show_rows(self._diff)
            first = self._diff.next_change(-1)
            if first is not None:
                self.pane.go_to(first)
        self._foot()
        self.stood.emit()

    # -- what is said --

    def _layers(self) -> Layers:
        if self._diff is not None:
            kinds = [row[0] for row in self._diff.rows]
            return [
                (token, np.array([n for n, kind in enumerate(kinds) if kind == mark], np.int64))
                for mark, token in (("+", "good"), ("-", "bad"))
            ]
        document = self.document
        if document is None:
            return []
        layers: Layers = [
            ("warn", document.map.mark_rows(Level.WARNING)),
            ("bad", document.map.mark_rows(Level.ERROR)),
        ]
        found = self.finding.found_rows()
        if found is not None:
            layers.append(("accent", document.map.rows_of(found)))
        return layers

    def _count(self) -> int:
        return self.pane.rows.count if self.pane.rows is not None else 0

    def _window(self) -> tuple[int, int]:
        return self.pane.top, self.pane.visible_rows()

    def say_saving(self, part: float) -> None:
        """Says how far the log is that is being saved."""
        if part < 1.0:
            self.amount.setText(f"saving: {part:.0%} is here")
        else:
            self._foot()

    def fetch_all(self) -> None:
        """Fetches all of it."""
        if self.document is not None:
            self.document.fetch_all()
            self._foot()

    def _foot(self) -> None:
        document = self.document
        if self.comparing is not None:
            self.foot.say_difference(self.comparing)
        elif document is None or not document.map.rows:
            self.foot.clear()
        else:
            self.foot.say(document, self.pane.cursor_row)
            errors, warnings = self.counts()
            said = ", ".join((plural_of(errors, "error"), plural_of(warnings, "warning")))
            self.minimap.setAccessibleDescription(said)
