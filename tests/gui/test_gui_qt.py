"""The Qt that is installed is none of those known to fail, in ways the client cannot mend itself."""

from __future__ import annotations

import sys

from PySide6.QtCore import QModelIndex, QObject, QStringListModel, Signal


class _Bell(QObject):
    rang = Signal(bool)


def test_signals_take_no_reference_to_true(qapp: object) -> None:
    """PySide6 6.12.0 on Python 3.11 loses one with every signal; the program aborts after a few hundred."""
    bell, model, heard = _Bell(), QStringListModel(["a"]), []
    bell.rang.connect(heard.append)
    before = sys.getrefcount(True)
    for _ in range(1000):
        bell.rang.emit(True)
        model.dataChanged.emit(model.index(0), model.index(0))
        model.layoutChanged.emit()
    assert heard == [True] * 1000
    heard.clear()
    # From Python 3.12 on True is immortal and its count says nothing; it stays what it is.
    assert abs(sys.getrefcount(True) - before) < 100
    assert model.rowCount(QModelIndex()) == 1
