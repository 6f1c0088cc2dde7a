"""Between the client and a farm: one thread owns the sockets, the window reads what it left in a mailbox.

What belongs here: connecting, asking, following, and how the connection stands.  What may not: how
anything is shown, and ZeroMQ itself (``farm.transport`` has it).
"""
