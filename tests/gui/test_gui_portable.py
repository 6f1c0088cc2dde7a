"""The client can be imported where there is no POSIX: neither it nor what it imports of ours needs any.

What belongs here: the import of everything, with what Windows lacks taken away.  What may not: whether it
works there.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Run in a process of its own.  Other people's modules come first: whether they are portable is their affair.
PROGRAM = '''
import builtins, importlib, os, pkgutil, sys

OURS = ("farm", "client_gui", "node_agent")
MODULES = {"fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "posix", "syslog", "crypt", "spwd"}
FUNCTIONS = """fork forkpty setsid getsid getpgid setpgid killpg getuid geteuid getgid getegid getgroups
setuid setgid chown fchown lchown fchmod mkfifo mknod nice uname wait wait3 wait4 waitid sched_getaffinity
sched_setaffinity statvfs fstatvfs getloadavg pread pwrite sendfile posix_spawn posix_fallocate
posix_fadvise openpty ttyname sysconf confstr register_at_fork pidfd_open memfd_create eventfd
getpriority setpriority sync readv writev ctermid
O_CLOEXEC O_NOFOLLOW O_DIRECTORY O_NONBLOCK O_NOCTTY RTLD_NOW WNOHANG EX_OK""".split()

import PySide6.QtWidgets, PySide6.QtCore, PySide6.QtGui, shiboken6, zmq, msgspec, numpy, pyqtgraph
import asyncio, concurrent.futures, ctypes, decimal, difflib, getpass, ipaddress, json, logging
import multiprocessing, pathlib, platform, queue, random, secrets, selectors, shutil, signal, socket, stat
import subprocess, tempfile, threading, time, tomllib, traceback, uuid, webbrowser, zipfile

for name in FUNCTIONS:
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCHLD", "SIGSTOP", "SIGCONT"):
    delattr(signal, name)
for name in ("AF_UNIX", "SO_PEERCRED", "SCM_RIGHTS"):
    if hasattr(socket, name):
        delattr(socket, name)
real = builtins.__import__

def guarded(name, globals=None, locals=None, fromlist=(), level=0):
    importer = str((globals or {}).get("__name__", ""))
    if not level and name.partition(".")[0] in MODULES and importer.partition(".")[0] in OURS:
        raise ModuleNotFoundError(f"{importer} imports {name}, which is not everywhere")
    return real(name, globals, locals, fromlist, level)

builtins.__import__ = guarded
import client_gui
names = [info.name for info in pkgutil.walk_packages(client_gui.__path__, "client_gui.")]
wrong = []
for name in sorted(names):
    if name.endswith("__main__"):
        continue
    try:
        importlib.import_module(name)
    except Exception as error:
        wrong.append(f"{name}: {type(error).__name__}: {error}")
print(f"{len(names)} modules")
print(*wrong, sep="\\n")
print("imported", *sorted(name for name in sys.modules if name.startswith(("farm.", "node_agent"))))
sys.exit(bool(wrong))
'''


def test_every_module_can_be_imported_without_what_windows_lacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT), "HOME": "/"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    count = int(done.stdout.split()[0])
    assert count > 30, "the search for modules finds them"
    assert "farm.sdk.connect" in done.stdout
    assert "node_agent" not in done.stdout.partition("imported")[2], "the client is no agent"
