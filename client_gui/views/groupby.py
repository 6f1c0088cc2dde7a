"""What the rows of a list are grouped by: the button, its menu, and remembering the choice and closed groups.

What belongs here: choosing and remembering.  What may not: what groups there are (``store.jobgroups``), and
the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from PySide6.QtCore import Qt
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from client_gui.models.grouped_model import CLOSED_MOST, GroupedModel
from client_gui.settings import Setting, Settings
from client_gui.store.groups import Grouping
from client_gui.style.glyphs import icon
from client_gui.style.theme import Theme

#: Of a saved view and of actions: rows in no groups.
NONE: Final = "none"


class GroupBy(QToolButton):
    """A button that says what rows are grouped by, and lets somebody choose.

    Args:
        model: The rows.
        titles: What there is to choose from, by stable name.
        grouping: Makes a grouping of a name; None for a name that is none.
        settings: Where the choice is remembered.
        name: Of the list.
        theme: How it looks.
        parent: The list.
    """

    def __init__(
        self,
        model: GroupedModel[Any],
        titles: Mapping[str, str],
        grouping: Callable[[str], Grouping | None],
        settings: Settings,
        name: str,
        theme: Theme,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._model = model
        self._titles = titles
        self._grouping = grouping
        self._settings = settings
        self._theme = theme
        self._chosen: Setting[str] = Setting(f"{name}/group", NONE)
        self._closed: Setting[dict[str, Any]] = Setting(f"{name}/closed-groups", {})
        self.setAutoRaise(True)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.clicked.connect(self._open)
        model.folded.connect(self._remember_closed)
        theme.changed.connect(self._restyle)
        self.set_by(settings.get(self._chosen))
        self._restyle()

    @property
    def by(self) -> str:
        """What rows are grouped by, ``none`` for nothing."""
        grouping = self._model.grouping
        return grouping.by if grouping is not None else NONE

    def set_by(self, by: str) -> None:
        """Groups by something else; by nothing for a name that is none."""
        if by != self.by:
            grouping = self._grouping(by)
            self._model.set_grouping(grouping, self._closed_of(by) if grouping is not None else ())
            self._settings.set(self._chosen, self.by)
        self._say()

    def close_all(self, closed: bool) -> None:
        """Closes all groups, or opens them."""
        self._model.fold(None, closed=closed)

    def menu_of_choices(self) -> QMenu:
        """A menu of what there is to choose from."""
        menu = QMenu("Group by", self)
        menu.setAccessibleName("Group by")
        choices = QActionGroup(menu)
        for by, title in {NONE: "no groups", **self._titles}.items():
            action = menu.addAction(title[:1].upper() + title[1:])
            action.setObjectName(f"group-{by}")
            action.setCheckable(True)
            action.setChecked(by == self.by)
            action.triggered.connect(lambda _=False, by=by: self.set_by(by))
            choices.addAction(action)
        menu.addSeparator()
        for text, closed, keys in (
            ("Collapse all", True, "Shift+Left"),
            ("Expand all", False, "Shift+Right"),
        ):
            action = menu.addAction(f"{text}\t{keys}")
            action.setEnabled(self.by != NONE)
            action.triggered.connect(lambda _=False, closed=closed: self.close_all(closed))
        return menu

    # -- inside --

    def _open(self) -> None:
        menu = self.menu_of_choices()
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.mapToGlobal(self.rect().bottomLeft()))

    def _closed_of(self, by: str) -> list[str]:
        names = self._settings.get(self._closed).get(by)
        return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []

    def _remember_closed(self) -> None:
        kept = self._settings.get(self._closed)
        now = self._model.closed
        before = [name for name in self._closed_of(self.by) if name in now]
        # Those that were closed last are the ones that are kept.
        known = set(before)
        names = [*before, *sorted(name for name in now if name not in known)][-CLOSED_MOST:]
        self._settings.set(self._closed, {**kept, self.by: names})

    def _say(self) -> None:
        title = self._titles.get(self.by, "")
        self.setText(f"by {title}" if title else "Group")
        told = f"Grouped by {title}" if title else "Group rows by project, user, state and more"
        self.setToolTip(told)
        self.setAccessibleName(f"group by, now {title or 'no groups'}")

    def _restyle(self) -> None:
        self.setFont(self._theme.font(small=True))
        self.setIcon(icon(self._theme, "jobs", "dim"))
