"""Finds the installed ``farm`` program, and the environment it starts rightly in.

What belongs here: where to look and what to leave out.  What must not: calling it for a job (``submission``).

A host program brings its own Python, Qt and libraries, and says so in environment variables; the farm's
Python would pick up modules of another version from them, so they are taken out.
"""

import json
import os
import subprocess
import sys

#: Names the program, for people and scripts.
VARIABLE = "FARM_CLI"
#: Written into the installed plug-in by ``farm plugin install``: how the farm that installed it is called.
INSTALLED = "installed.json"
_VERSION_TIMEOUT_S = 10.0
#: Variables of the host that change what a Python or the loader finds.
_HOST = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONEXECUTABLE",
    "PYTHONPLATLIBDIR", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONSAFEPATH", "PYTHONIOENCODING",
    "__PYVENV_LAUNCHER__", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH",
    "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "DYLD_FRAMEWORK_PATH", "DYLD_INSERT_LIBRARIES",
    "QT_PLUGIN_PATH", "QT_QPA_PLATFORM_PLUGIN_PATH", "QML2_IMPORT_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "OCIO",
)  # fmt: skip


class NotFound(Exception):
    """There is no farm program; the text says where was looked."""


def clean_environment(environment=None):
    """The environment for the farm: the host's own variables left out.

    A launcher that saved what the user had (``LD_LIBRARY_PATH_ORIG``) gets it back.
    """
    source = os.environ if environment is None else environment
    kept = {}
    for name in source:
        if name.upper() in _HOST or name.upper().startswith("BLENDER_"):
            continue
        kept[name] = source[name]
    for name in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"):
        original = source.get(name + "_ORIG")
        if original:
            kept[name] = original
    kept["PYTHONUTF8"] = "1"
    return kept


def installed_command(folder):
    """The command that ``farm plugin install`` wrote into the plug-in's folder, None if there is none."""
    try:
        with open(os.path.join(folder, INSTALLED), encoding="utf-8") as stream:
            command = json.load(stream)["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        return None
    return command


def find_farm(setting="", plugin_folder="", environment=None):
    """The command line that starts the farm: a list of words.

    Looked for in this order: the plug-in's setting, ``FARM_CLI``, the farm that installed the plug-in, the
    PATH, the usual places.  What a person named is taken or refused, never passed over in silence.

    Raises:
        NotFound: It is nowhere, or what was named is no program.
    """
    source = os.environ if environment is None else environment
    for where, named in (("the add-on's preferences", setting), (VARIABLE, source.get(VARIABLE, ""))):
        if named:
            path = os.path.expanduser(named)
            if os.path.isdir(path):
                path = os.path.join(path, "farm.exe" if os.name == "nt" else "farm")
            if not _runnable(path):
                raise NotFound("%s names %s, which is no program" % (where, named))
            return [path]
    installed = installed_command(plugin_folder) if plugin_folder else None
    if installed and _runnable(installed[0]):
        return installed
    for path in usual_places(source):
        if _runnable(path) and _is_overcrank(path):
            return [path]
    gone = " (the one it was installed from, %s, is gone)" % installed[0] if installed else ""
    raise NotFound("the farm program is not on this machine%s" % gone)


def usual_places(environment):
    """Paths where the program may be, the PATH first."""
    name = "farm.exe" if os.name == "nt" else "farm"
    folders = [folder for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    home = os.path.expanduser("~")
    folders += [
        os.path.join(home, ".local", "bin"),
        os.path.join(home, ".local", "share", "overcrank", "bin"),
    ]
    if os.name == "nt":
        for variable in ("LOCALAPPDATA", "PROGRAMFILES"):
            if environment.get(variable):
                folders.append(os.path.join(environment[variable], "Overcrank", "Scripts"))
    else:
        folders += ["/opt/overcrank/bin", "/usr/local/bin", "/usr/bin"]
        if sys.platform == "darwin":
            folders.append("/opt/homebrew/bin")
    paths = []
    for folder in folders:
        path = os.path.join(folder, name)
        if path not in paths:
            paths.append(path)
    return paths


def _runnable(path):
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_overcrank(path):
    """Whether a program that happens to be called farm is ours."""
    try:
        told = subprocess.check_output(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=clean_environment(),
            timeout=_VERSION_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return told.startswith(b"overcrank ")
