"""What the Blender runner says to the farm: its lines, its failure, its progress, its end.

Runs inside Blender, 3.4 to 5.x (stdlib only, Python 3.7 syntax).  What belongs here: the words.  What must
not: the scene.
"""

import json
import os
import re
import sys
import time

SAMPLES = re.compile(r"Sample (\d+)/(\d+)|Rendering (\d+) / (\d+) samples")
TILES = re.compile(r"Rendered (\d+)/(\d+) Tiles")


class Failure(Exception):
    """The chunk cannot be rendered; carries what the farm should know."""

    def __init__(self, failure, text, frame=None):
        Exception.__init__(self, text)
        self.failure, self.text, self.frame = failure, text, frame


def emit(event, **fields):
    """Prints one line for the farm."""
    fields["event"] = event
    sys.stdout.flush()
    sys.stdout.write("FARM " + json.dumps(fields) + "\n")
    sys.stdout.flush()


def warn(text):
    """Tells people something that does not stop the render."""
    emit("warning", text=text)


def leave(code):
    """Ends the process at once, with everything printed."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        import ctypes

        ctypes.CDLL(None).fflush(None)  # Blender's own lines are buffered by the C library.
    except Exception:
        pass
    os._exit(code)


class Progress(object):
    """Turns Blender's status texts into fractions of the current frame, at most a few a second."""

    def __init__(self):
        self.frame, self.layer, self.layers = None, 0, 1
        self.canceled = False
        self._last = (0.0, 0.0)

    def begin(self, frame, layer, layers):
        """A render starts."""
        self.frame, self.layer, self.layers = frame, layer, layers
        self.canceled = False
        self._last = (layer / float(layers), 0.0)

    def stats(self, *args):
        """Handler of render_stats; the text is missing in 3.4."""
        text = next((arg for arg in args if isinstance(arg, str)), "")
        fraction = parse_fraction(text)
        if fraction is None or self.frame is None:
            return
        whole = (self.layer + fraction) / self.layers
        now = time.time()
        if whole > self._last[0] and (now - self._last[1] >= 0.25 or fraction >= 1.0):
            self._last = (whole, now)
            emit("progress", frame=self.frame, fraction=round(whole, 4))

    def cancel(self, *_args):
        """Handler of render_cancel."""
        self.canceled = True


def parse_fraction(text):
    """How much of one render a status text says is done, or None."""
    match = SAMPLES.search(text)
    if match is None:
        return None
    done, total = (float(value) for value in match.groups() if value is not None)
    if not total:
        return None
    tiles = TILES.search(text)
    if tiles and float(tiles.group(2)):
        return min(1.0, (float(tiles.group(1)) + done / total) / float(tiles.group(2)))
    return min(1.0, done / total)


PROGRESS = Progress()
