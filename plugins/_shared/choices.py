"""Remembers what an artist chose for a scene, outside of the artist's file.

What belongs here: one JSON file per user and host, keyed by file and scene.  What it may not know: what the
choices are.
"""

import os

from . import files

#: Scenes remembered; the one used longest ago is forgotten first.
KEPT = 300


def remember(host, file, scene, chosen):
    """Keeps the choices of a scene; a full disk or a strange home only means that they are not kept."""
    if not file:
        return
    path = _path(host)
    known = _read(path)
    key = _key(file, scene)
    known.pop(key, None)
    known[key] = chosen
    while len(known) > KEPT:
        del known[next(iter(known))]
    try:
        files.write_json(path, known)
    except OSError:
        pass


def recall(host, file, scene):
    """What was chosen for the scene last, {} if nothing."""
    if not file:
        return {}
    chosen = _read(_path(host)).get(_key(file, scene))
    return chosen if isinstance(chosen, dict) else {}


def _path(host):
    return os.path.join(files.own_folder("choices"), host + ".json")


def _read(path):
    known = files.read_json(path)
    return known if isinstance(known, dict) else {}


def _key(file, scene):
    return "%s\n%s" % (file, scene)
