"""Everything somebody can do, as records: menus, keys, palette, the sheet of keys and checks come from them.

What belongs here: the records, when they are possible, what they ask of the farm, how they are taken back.
What may not: lists and docks.
"""
