"""Small files a plug-in owns: job files, replies, remembered choices; whole or not at all.

What belongs here: where they lie, writing and reading them.  What it may not know: what is in them.
"""

import json
import os
import sys
import tempfile

#: Job files and replies of so many submissions are kept, to be looked at when one went wrong.
KEPT = 40


def own_folder(kind, environment=None):
    """The folder for one kind of files, made when it is missing: ``submissions`` or ``choices``.

    Falls back to the temporary folder where the user's own cannot be written.
    """
    source = os.environ if environment is None else environment
    home = os.path.expanduser("~")
    if os.name == "nt":
        base = os.path.join(source.get("LOCALAPPDATA") or home, "Overcrank")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Application Support", "Overcrank")
    else:
        base = os.path.join(
            source.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state"), "overcrank-plugins"
        )
    folder = os.path.join(base, kind)
    try:
        os.makedirs(folder, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    who = str(os.getuid()) if hasattr(os, "getuid") else source.get("USERNAME", "user")
    folder = os.path.join(tempfile.gettempdir(), "overcrank-%s" % who, kind)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def write_json(path, document):
    """Writes a JSON file atomically: UTF-8 without a mark, everything beyond ASCII escaped."""
    handle, name = tempfile.mkstemp(prefix=".part-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as stream:
            json.dump(document, stream, indent=1, ensure_ascii=True)
            stream.write("\n")
        os.replace(name, path)
    except BaseException:
        try:
            os.unlink(name)
        except OSError:
            pass
        raise


def read_json(path):
    """What is in a JSON file; None when it is not there, or not (yet) one."""
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return None


def forget_old(folder, kept=KEPT):
    """Removes all but the newest files of one of our folders."""
    try:
        with os.scandir(folder) as entries:
            files = [(entry.stat().st_mtime, entry.path) for entry in entries if entry.is_file()]
        for _, path in sorted(files, reverse=True)[kept:]:
            os.unlink(path)
    except OSError:
        pass  # Another program's plug-in may be tidying the same folder.
