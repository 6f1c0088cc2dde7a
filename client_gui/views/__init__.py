"""The docks: each shows one side of the farm.

What belongs here: widgets and what they ask of the farm.  What may not: sockets, files of the farm, other
views (they meet in ``client_gui.desk``).
"""
