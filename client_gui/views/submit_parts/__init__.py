"""What the Submit dock is made of: opening files, judging drafts, editors, cards, the outbox.

What belongs here: parts of that one dock.  What may not: anything another dock needs.
"""
