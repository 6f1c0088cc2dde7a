"""What the dock of one job is made of: its header and its tabs.

What belongs here: widgets of one job and the plain reckoning behind them.  What may not: other docks; what is
looked at is told to ``desk.focus``.
"""
