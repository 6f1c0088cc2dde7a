"""The bar over every list: the filter, what of it is in force, saved views with counts, how much is shown.

What belongs here: field, chips and counts, for any vocabulary.  What may not: the list.
"""

from __future__ import annotations

from typing import Any, Final

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from client_gui.models.counts import LiveCount
from client_gui.store.filter import Sources, TableFilter
from client_gui.store.table import Change, Table
from client_gui.style.glyphs import icon
from client_gui.style.lazily import when_seen
from client_gui.style.theme import Theme
from client_gui.views.chips import Chip, FlowLayout
from client_gui.views.filteredit import FacetsOf, FilterEdit
from client_gui.views.savedviews import SavedView, SavedViews
from farm.model.query import Context, Query, QueryError, Vocabulary

#: Between two looks at counts that may have changed.
_COUNT_MS: Final = 150


class FilterBar(QWidget):
    """The filter of a list.

    Args:
        vocabulary: Of the rows.
        sources: Where its fields come from.
        table: The rows.
        facets: What values there are.
        views: The saved views.
        theme: How it looks.

    Attributes:
        edit: The field.
        extra: Where the list may put buttons of its own.
    """

    #: The filter in force changed: a ``Query``.
    queried = Signal(object)
    #: A saved view was chosen.
    chosen = Signal(object)
    #: Somebody is done with typing.
    left = Signal()
    #: The filter is to be kept as a view of this name.
    save_wanted = Signal(str)

    def __init__(
        self,
        vocabulary: Vocabulary,
        sources: Sources,
        table: Table[int],
        facets: FacetsOf,
        views: SavedViews,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._vocabulary = vocabulary
        self._sources = sources
        self._table = table
        self._views = views
        self._theme = theme
        self._context = Context(0, "")
        self._counts: dict[str, LiveCount[int]] = {}
        self._view_chips: dict[str, Chip] = {}
        self._part_chips: list[Chip] = []
        self.edit = FilterEdit(vocabulary, facets, theme, self)
        self.edit.queried.connect(self._queried)
        self.edit.judged.connect(self._judged)
        self.edit.left.connect(self.left)
        self._shown = QLabel(self)
        self._shown.setTextFormat(Qt.TextFormat.PlainText)
        self._wrong = QLabel(self)
        self._wrong.setTextFormat(Qt.TextFormat.PlainText)
        self._wrong.setWordWrap(True)
        self._wrong.setVisible(False)
        self._add = QToolButton(self)
        self._add.setAutoRaise(True)
        self._add.setAccessibleName("keep this filter as a view")
        self._add.setToolTip("Keep this filter as a view")
        self._add.clicked.connect(self.ask_name)
        self._name = QLineEdit(self)
        self._name.setPlaceholderText("name of the view")
        self._name.setAccessibleName("name of the view to keep")
        self._name.setVisible(False)
        self._name.returnPressed.connect(self._named)
        self._name.editingFinished.connect(self._name_left)
        self._lay_out()
        self._settled = QTimer(self)
        self._settled.setSingleShot(True)
        self._settled.setInterval(_COUNT_MS)
        self._settled.timeout.connect(self._tell_counts)
        when_seen(theme, self, self._restyle)
        self._restyle()
        self.rebuild_views()

    def _lay_out(self) -> None:
        theme = self._theme
        edge, gap = theme.em(0.4), theme.em(0.4)
        box = QVBoxLayout(self)
        box.setContentsMargins(edge, edge, edge, edge)
        box.setSpacing(gap)
        top = QHBoxLayout()
        top.setSpacing(gap)
        top.addWidget(self.edit, 1)
        top.addWidget(self._shown)
        self.extra = QHBoxLayout()
        self.extra.setSpacing(gap)
        top.addLayout(self.extra)
        box.addLayout(top)
        box.addWidget(self._wrong)
        rows = QWidget(self)
        rows.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._flow = FlowLayout(rows, gap=theme.em(0.3))
        self._rows = rows
        box.addWidget(rows)

    # -- what the list tells --

    def set_context(self, now_us: int, user: str) -> None:
        """What time it is, and who asks: counts are made anew."""
        self._context = Context(now_us, user)
        self._recount()

    def time_moved(self, now_us: int) -> None:
        """Only what changes with time is counted anew."""
        self._context = Context(now_us, self._context.user)
        for count in self._counts.values():
            if count.moves:
                count.rebuild(now_us)
        self._settled.start()

    def farm_changed(self, change: Change[int]) -> None:
        """Counts what changed."""
        told = [count.apply(change) for count in self._counts.values()]
        if any(told) and not self._settled.isActive():
            self._settled.start()

    def say_shown(self, shown: int, of: int, hidden_selected: int = 0) -> None:
        """How much of the table is shown."""
        text = f"{shown:,} of {of:,}" if shown != of else f"{of:,}"
        if hidden_selected:
            text += f", {hidden_selected:,} selected but hidden"
        if text != self._shown.text():
            self._shown.setText(text)
            self._shown.setAccessibleName(f"{text} {self._vocabulary.name} shown")

    # -- the filter --

    @property
    def query(self) -> Query:
        """What is in force."""
        return self.edit.query

    def set_text(self, text: str) -> None:
        """Takes another filter."""
        self.edit.setText(text)

    def clear(self) -> None:
        """Shows everything again."""
        self.edit.clear()

    def focus_field(self) -> None:
        """Goes to the field."""
        self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.edit.selectAll()

    def _queried(self, query: Query) -> None:
        self._mirror()
        self._mark_view()
        self.queried.emit(query)

    def _judged(self) -> None:
        text = self.edit.message()
        self._wrong.setText(text)
        self._wrong.setVisible(bool(text))
        token = "bad" if self.edit.error is not None else "warn"
        _ink(self._wrong, self._theme, token)

    def _mirror(self) -> None:
        """One chip for each part of the filter.

        With most keys that are typed only what one of them says is another: a chip that comes or goes has the
        whole window laid out anew.
        """
        # A filter that is a saved view needs no further chips: its own is marked.
        parts = self.query.chips() if self._active_view() is None else ()
        for chip in self._part_chips[len(parts) :]:
            self._flow.removeWidget(chip)
            chip.hide()
            chip.deleteLater()
        del self._part_chips[len(parts) :]
        for place, part in enumerate(parts):
            if place == len(self._part_chips):
                chip = Chip(part.text, self._theme, self._rows, crossed=True)
                chip.removed.connect(lambda place=place: self._without(place))
                chip.clicked.connect(lambda _=False, place=place: self._edit_part(place))
                self._flow.addWidget(chip)  # which shows it, as soon as the list is drawn
                self._part_chips.append(chip)
            chip = self._part_chips[place]
            chip.setText(part.text)
            chip.setToolTip(f"{part.words}; Delete takes it away")
            chip.setAccessibleName(f"filter {part.words}")
        self._rows.updateGeometry()

    def _without(self, place: int) -> None:
        if place < len(self.query.parts()):
            self.edit.setText(str(self.query.without(place)))
            self.left.emit()

    def _edit_part(self, place: int) -> None:
        chips = self.query.chips()
        if place < len(chips) and self.edit.error is None:
            self.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
            self.edit.setSelection(chips[place].start, chips[place].end - chips[place].start)

    # -- saved views --

    def rebuild_views(self) -> None:
        """Makes the chips of the saved views anew."""
        for part in (*self._view_chips.values(), *self._part_chips):
            self._flow.removeWidget(part)
        for chip in self._view_chips.values():
            chip.hide()
            chip.deleteLater()
        self._flow.removeWidget(self._add)
        self._flow.removeWidget(self._name)
        self._view_chips = {}
        for view in self._views.all():
            chip = Chip(view.name, self._theme, self._rows)
            chip.setCheckable(True)
            chip.setToolTip(view.filter or "everything")
            chip.clicked.connect(lambda _=False, view=view: self.choose(view))
            chip.menu_wanted.connect(lambda at, view=view: self._view_menu(view, at))
            self._flow.addWidget(chip)
            chip.show()
            self._view_chips[view.name] = chip
        for widget in (self._add, self._name, *self._part_chips):
            self._flow.addWidget(widget)
        self._recount()
        self._mark_view()
        self._rows.updateGeometry()

    def choose(self, view: SavedView) -> None:
        """Takes a view; the one that is taken already is left."""
        if self._active_view() == view.name:
            self._mark_view()
            self.clear()
            return
        self.set_text(view.filter)
        self._mark_view()
        self.chosen.emit(view)

    def next_view(self, step: int = 1) -> None:
        """Goes to the next saved view, or one before."""
        views = self._views.all()
        if not views:
            return
        names = [view.name for view in views]
        active = self._active_view()
        place = names.index(active) + step if active in names else (0 if step > 0 else -1)
        self.choose(views[place % len(views)])

    def counts(self) -> dict[str, int]:
        """How many rows each saved view has now."""
        return {name: count.count for name, count in self._counts.items()}

    def ask_name(self) -> None:
        """Asks for the name of a view to keep."""
        self._name.setVisible(True)
        self._name.setText("")
        self._name.setFocus(Qt.FocusReason.OtherFocusReason)

    def _named(self) -> None:
        name = self._name.text().strip()
        self._name.setVisible(False)
        if name:
            self.save_wanted.emit(name)
        self.left.emit()

    def _name_left(self) -> None:
        if not self._name.hasFocus():
            self._name.setVisible(False)

    def _view_menu(self, view: SavedView, at: QPoint) -> None:
        menu = QMenu(self)
        menu.addAction("Keep the filter in force under this name").triggered.connect(
            lambda: self.save_wanted.emit(view.name)
        )
        menu.addAction("Take away").triggered.connect(lambda: self._remove(view))
        menu.addSeparator()
        menu.addAction("Usual views").triggered.connect(self._reset)
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(at)

    def _remove(self, view: SavedView) -> None:
        self._views.remove(view.name)
        self.rebuild_views()

    def _reset(self) -> None:
        self._views.reset()
        self.rebuild_views()

    def _active_view(self) -> str | None:
        for view in self._views.all():
            if self.query and self._read(view.filter) == self.query:
                return view.name
        return None

    def _mark_view(self) -> None:
        active = self._active_view()
        for name, chip in self._view_chips.items():
            chip.setChecked(name == active)

    def _read(self, text: str) -> Query | None:
        try:
            return Query.parse(text, self._vocabulary)
        except QueryError:
            return None

    def _recount(self) -> None:
        self._counts = {}
        for view in self._views.all():
            query = self._read(view.filter)
            if query is not None:
                fits = TableFilter(self._table, query, self._sources, self._context)
                self._counts[view.name] = LiveCount(self._table, fits)
        self._tell_counts()

    def _tell_counts(self) -> None:
        for name, chip in self._view_chips.items():
            count = self._counts.get(name)
            chip.set_count(count.count if count is not None else None)

    def _restyle(self) -> None:
        self._shown.setFont(self._theme.font(small=True))
        _ink(self._shown, self._theme, "dim")
        self._wrong.setFont(self._theme.font(small=True))
        self._add.setIcon(icon(self._theme, "plus", "dim"))
        self._name.setFixedWidth(self._theme.em(10))
        self._judged()


def _ink(label: QLabel, theme: Theme, token: str) -> None:
    palette: Any = label.palette()
    palette.setColor(QPalette.ColorRole.WindowText, theme.colour(token))
    label.setPalette(palette)
