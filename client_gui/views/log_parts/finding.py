"""Looking for something in the log that is shown: the bar above it, the hits, and which of them is looked at.

What belongs here: what typing and stepping lead to.  What may not: the search itself (``finder``), and rows.
"""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from client_gui.store.logscan import Offsets
from client_gui.views.log_parts.bars import FindBar
from client_gui.views.log_parts.document import LogDocument
from client_gui.views.log_parts.finder import Finder
from client_gui.views.log_parts.foot import plural_of
from client_gui.views.log_parts.pane import LinePane
from client_gui.views.log_parts.rows import LogRows

#: After the last letter typed, before a search begins.
_TYPED_MS: Final = 150


class Finding(QObject):
    """Looks for something.

    Args:
        bar: What is looked for.
        pane: Where it is shown.
    """

    #: There are other hits.
    changed = Signal()

    def __init__(self, bar: FindBar, pane: LinePane, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bar = bar
        self._pane = pane
        self._document: LogDocument | None = None
        self._rows: LogRows | None = None
        self._finder: Finder | None = None
        self._hit: int | None = None
        self._hit_wanted = False
        self._typed = QTimer(self)
        self._typed.setSingleShot(True)
        self._typed.setInterval(_TYPED_MS)
        self._typed.timeout.connect(self._search)
        bar.wanted.connect(lambda *_: self._typed.start())
        bar.step.connect(self._step)
        bar.closed.connect(self.close)

    def look_in(self, document: LogDocument | None, rows: LogRows | None) -> None:
        """Looks in another log, for the same as before while the bar is open."""
        self._document, self._rows = document, rows
        if document is not None and self._bar.isVisible():
            self._search()

    def open(self) -> None:
        """Asks what to look for; a short selection is taken for it."""
        bar = self._bar
        bar.show()
        bar.edit.setFocus()
        chosen = self._pane.selection
        if chosen is not None and chosen[0].key == chosen[1].key and self._rows is not None:
            line = self._rows.line(self._pane.cursor_row)
            text = line.text[chosen[0].column : chosen[1].column] if line else ""
            if 0 < len(text) <= 200:
                bar.edit.setText(text)
        bar.edit.selectAll()
        self._search()

    def close(self) -> None:
        """Ends the search."""
        self._bar.hide()
        self.drop()
        self._pane.setFocus()

    def drop(self) -> None:
        """Lets go of what was found."""
        if self._finder is not None:
            self._finder.close()
            self._finder.deleteLater()
            self._finder = None
        if self._rows is not None:
            self._rows.finder = None
        self._hit = None
        self._pane.clear_hit()

    def found_rows(self) -> Offsets | None:
        """Where rows with hits begin; None while nothing is looked for."""
        return self._finder.found_rows() if self._finder is not None else None

    def _search(self) -> None:
        self._typed.stop()
        bar, document = self._bar, self._document
        self.drop()
        text = bar.edit.text()
        if not text or document is None or not bar.isVisible():
            bar.say("")
            self.changed.emit()
            return
        self._finder = Finder(document, text, bar.regex.isChecked(), bar.case.isChecked(), self)
        self._finder.found.connect(self._found)
        assert self._rows is not None
        self._rows.finder = self._finder
        self._hit_wanted = True
        self._found()

    def _found(self) -> None:
        finder = self._finder
        if finder is None:
            return
        if self._hit_wanted and finder.count:
            self._hit_wanted = False
            self._show(finder.next((self._pane.place.key, self._pane.place.column - 1)))
        self._say()
        self._pane.viewport().update()
        self.changed.emit()

    def _say(self) -> None:
        finder, document, bar = self._finder, self._document, self._bar
        if finder is None or document is None:
            return
        if finder.trouble:
            bar.say(finder.trouble, bad=True)
            return
        more = " …" if finder.busy or not document.map.whole else "+" if finder.full else ""
        if not finder.count:
            bar.say("looking …" if finder.busy else "no hits" + more, bad=not finder.busy)
        elif self._hit is None:
            bar.say(plural_of(finder.count, "hit") + more)
        else:
            bar.say(f"{self._hit + 1:,} of {finder.count:,}{more}")

    def _step(self, back: bool) -> None:
        finder = self._finder
        if finder is None or finder.text != self._bar.edit.text():
            self._search()
            return
        place = self._pane.place
        self._show(finder.next((place.key, place.column), back=back))
        self._say()

    def _show(self, hit: int | None) -> None:
        finder, document = self._finder, self._document
        self._hit = hit
        if hit is None or finder is None or document is None:
            return
        key, column, length = finder.hits[hit]
        self._pane.touched = True
        self._pane.go_to(document.map.row_at(key), column, length)
