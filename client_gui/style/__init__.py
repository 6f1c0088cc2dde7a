"""How things look: colours, glyphs, sizes, in one place, light, dark and high contrast.

What belongs here: tokens and the theme made of them.  What may not: widgets of any one view.
"""
