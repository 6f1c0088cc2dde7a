"""The desktop client.

What belongs here: showing a farm and acting on it through ``farm.sdk``.  What may not: ``farm.broker``,
``farm.core``, ``farm.storage`` and the agent; the client is a program of its own, on any desktop.
"""
