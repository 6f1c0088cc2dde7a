"""Parts of the page where a farm is chosen (``views.welcome``).

What belongs here: its cards.  What may not: other views.
"""
