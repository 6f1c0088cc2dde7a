"""Qt models over the store's tables and orders.

What belongs here: ``QAbstractItemModel`` and how a cell's value becomes text, colour, alignment.  What may
not: filters and orders themselves (``client_gui.store``), and widgets.
"""
