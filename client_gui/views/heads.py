"""The head of a table that is sorted by its columns.

What belongs here: the words over columns.  What may not: which columns there are.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHeaderView, QStyle, QStyleOptionHeader, QTableView

#: A space at the end of a line that Qt does not leave out.
_SPACE = "\N{NO-BREAK SPACE}"


class SortHead(QHeaderView):
    """A head whose arrow never covers a word.

    With a style sheet Qt draws words that are aligned to the right under the arrow, and cuts them there.
    """

    def __init__(self, table: QTableView) -> None:
        super().__init__(Qt.Orientation.Horizontal, table)
        self.setSectionsClickable(True)
        self.setHighlightSections(False)

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, logical: int) -> None:  # noqa: N802
        """Moves the word of the sorted column aside."""
        super().initStyleOptionForIndex(option, logical)
        if option.sortIndicator is QStyleOptionHeader.SortIndicator.None_:
            return
        if option.textAlignment & Qt.AlignmentFlag.AlignRight:
            room = self.style().subElementRect(QStyle.SubElement.SE_HeaderArrow, option, self).width()
            one = max(1, QFontMetrics(self.font()).horizontalAdvance(_SPACE))
            option.text += _SPACE * (-(-room // one) + 1)
