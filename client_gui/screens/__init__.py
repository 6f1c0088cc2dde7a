"""Pictures of the client's windows on a farm that is simulated for them: ``farm gui --screenshot FOLDER``.

What belongs here: the farm, the processes that show it, what is on each picture, and writing it.  What may
not: anything a window does; the pictures show the client as it is, connected as any other.

    taking   what is started, in which order, and what is said meanwhile
    served   the simulated farm, a process of its own
    camera   a process with one window, at one scale; what it says to ``taking``
    stage    the window as somebody who makes pictures needs it
    scenes   what is on each picture
    paint    small PNG files
"""

from client_gui.screens.taking import take

__all__ = ["take"]
