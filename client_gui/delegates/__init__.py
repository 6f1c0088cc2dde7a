"""How cells are painted: state chips, bars, sparklines.

What belongs here: ``QStyledItemDelegate``.  What may not: where values come from.
"""
