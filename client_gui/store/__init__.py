"""What the client knows of the farm, and in which order it is shown; without Qt, sockets and threads.

What belongs here: tables, the mirror of the broker, filters, orders, selection, and figures made of
them.  What may not: Qt, ZeroMQ, files, clocks (moments are handed in), and what only one operating system
has.
"""
