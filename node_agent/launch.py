"""Starts one program: looks it up, spawns it in a session of its own, explains what went wrong.

What belongs here: from an argument list to a pid, or to words that name the program.  What it may not
know: trees, the agent, any package outside the standard library (the supervisor imports it).
"""
# pathlib costs more to import than the rest of the supervisor together:
# ruff: noqa: PTH110, PTH112, PTH113, PTH118

from __future__ import annotations

import errno
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:  # the typing module is slow to import
    from collections.abc import Sequence


def find_program(name: str, path: str) -> str:
    """The file that ``name`` starts, by the PATH of the process to be.

    Raises:
        OSError: ENOENT, or EACCES if all that has the name is not executable.
    """
    if not name:
        raise OSError(errno.ENOENT, "the program has no name")
    if "/" in name:
        return name
    denied = False
    for folder in path.split(":"):
        full = os.path.join(folder or ".", name)
        if os.path.isfile(full):
            if os.access(full, os.X_OK):
                return full
            denied = True
    if denied:
        raise OSError(errno.EACCES, f"{name} is found on PATH but is not executable")
    raise OSError(errno.ENOENT, f"no program {name} on PATH ({path})")


def start_trouble(program: str, number: int) -> str:
    """Words for a failed start."""
    text = os.strerror(number)
    if number == errno.ENOENT:
        text = (
            "the interpreter or loader it names is missing" if os.path.exists(program) else "no such program"
        )
    elif number == errno.EACCES:
        text = "it is a folder" if os.path.isdir(program) else "it is not executable, or access is denied"
    elif number == errno.ENOEXEC:
        text = "it is not a program for this machine (a script needs a #! line)"
    elif number == errno.E2BIG:
        text = "its arguments and environment are too long for the kernel"
    return f"cannot start {program}: {text}"


def launch(
    argv: list[str],
    env: dict[str, str],
    cwd: str,
    stdin: int,
    output: int,
    reset: Sequence[int],
) -> int:
    """Starts a program; returns its pid.

    For single-threaded callers only: posix_spawn has no working folder, so the caller's own is changed
    for a moment.  A relative program is therefore relative to ``cwd``.

    Args:
        argv: Program (looked up on the PATH in ``env`` unless it has a slash) and arguments.
        env: The whole environment.
        cwd: Working folder.
        stdin: Descriptor for standard input.
        output: Descriptor for standard output and error.
        reset: Signals the caller ignores and the program must not.

    Raises:
        OSError: Its ``strerror`` is a sentence that names the program or folder.
    """
    if not argv:
        raise OSError(errno.EINVAL, "cannot start a process without a program")
    program = argv[0]
    try:
        try:
            os.chdir(cwd)
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", None) or errno.EINVAL
            text = f"cannot start {program} in folder {cwd}: {os.strerror(number)}"
            raise OSError(number, text) from error
        try:
            program = find_program(program, env.get("PATH", os.defpath))
        except OSError as error:
            raise OSError(error.errno, f"cannot start {program}: {error.strerror}") from error
        try:
            return os.posix_spawn(
                program,
                argv,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, stdin, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=(*reset, signal.SIGPIPE, signal.SIGXFSZ),
            )
        except OSError as error:
            number = error.errno or errno.EIO
            raise OSError(number, start_trouble(program, number)) from error
        except (ValueError, TypeError) as error:
            raise OSError(errno.EINVAL, f"cannot start {program}: {error}") from error
    finally:
        os.chdir("/")
