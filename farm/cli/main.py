"""The `farm` command: finds the verb, reads its arguments, runs it, and turns errors into words and codes.

What belongs here: dispatch and exit codes.  What must not: any verb, and any import that `farm --help`
does not need.  argparse comes in only with a verb, a verb's module only when the verb is called.
"""

from __future__ import annotations

import sys

from farm.cli.verbs import VERBS, Verb, find_verb, help_text

TYPE_CHECKING = False  # typing itself takes a third of the time of `farm --help`
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import NoReturn

    from farm.cli.command import Command
    from farm.cli.console import Console
    from farm.model.errors import OvercrankError

EXIT_DONE = 0
EXIT_WORK_FAILED = 1
EXIT_WRONG_CALL = 2
EXIT_INTERRUPTED = 130


def entry() -> None:
    """Entry point of the console script."""
    code = main(sys.argv[1:])
    _leave(code)


def _leave(code: int) -> NoReturn:
    """Ends the process without taking the interpreter apart, which would cost a sixth of `farm jobs`.

    Exit handlers still run and streams are flushed.  With other threads alive the ordinary way is taken.
    """
    import atexit
    import os

    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        _drop_stdout()
    except (OSError, ValueError):  # a full disk behind the redirection
        code = code or EXIT_WORK_FAILED
    atexit._run_exitfuncs()
    os._exit(code)


def main(argv: Sequence[str]) -> int:
    """Runs one command.

    Args:
        argv: Arguments without the program's name.

    Returns:
        Exit code: 0 done, 1 the work failed, 2 the call was wrong, 3 the farm cannot be reached, 130
        interrupted.
    """
    try:
        return _run(list(argv))
    except BrokenPipeError:
        _drop_stdout()
        return EXIT_DONE
    except KeyboardInterrupt:
        # The line with ^C stays alone; a traceback would tell nobody anything.
        sys.stderr.write("\n")
        return EXIT_INTERRUPTED


def _run(argv: list[str]) -> int:
    before, farm, as_json, rest = _leading(argv)
    if before == "help" or (not rest and before != "version"):
        if rest and find_verb(rest[0]) is not None:
            return _run([rest[0], "--help"])
        stream = sys.stdout if before == "help" else sys.stderr
        stream.write(help_text())
        return EXIT_DONE if before == "help" else EXIT_WRONG_CALL
    if before == "version":
        from farm import __version__

        sys.stdout.write(f"overcrank {__version__}\n")
        return EXIT_DONE
    from farm.cli.console import Console
    from farm.model.errors import OvercrankError

    own = rest[: rest.index("--")] if "--" in rest else rest
    console = Console(json=as_json or "--json" in own)
    try:
        code = _run_verb(rest, farm, console)
        console.flush()
        return code
    except OvercrankError as error:
        report(error, console)
        return error.exit_code
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        return _bug(error, console)


def _leading(argv: list[str]) -> tuple[str, str | None, bool, list[str]]:
    """Takes the flags before the verb: (``help``, ``version`` or nothing, farm, json, the rest)."""
    farm: str | None = None
    as_json = False
    rest = list(argv)
    while rest:
        word = rest[0]
        if word in ("-h", "--help", "help"):
            return "help", farm, as_json, rest[1:]
        if word in ("-V", "--version", "version"):
            return "version", farm, as_json, []
        if word == "--json":
            as_json = True
            rest = rest[1:]
        elif word == "--farm" and len(rest) > 1:
            farm, rest = rest[1], rest[2:]
        elif word.startswith("--farm="):
            farm, rest = word[len("--farm=") :], rest[1:]
        else:
            break
    return "", farm, as_json, rest


def _run_verb(rest: list[str], farm: str | None, console: Console) -> int:
    import gc

    from farm.model.errors import CallError

    verb = find_verb(rest[0])
    if verb is None:
        raise CallError(f"there is no verb {rest[0]!r}", hint=_near(rest[0]))
    # Imports make many objects and no garbage; looking for it would cost a tenth of the start.
    gc.disable()
    try:
        command = load_command(verb)
    finally:
        gc.enable()
    own, program = rest[1:], None
    if "--" in own:
        place = own.index("--")
        own, after = own[:place], own[place + 1 :]
        if command.takes_program:
            program = after
        else:
            own = [*own, "--", *after]
    arguments = _parse(verb, command, own)
    arguments.farm = arguments.farm or farm
    arguments.program = program
    console.json = console.json or arguments.json
    return command.run(arguments, console)


def _parse(verb: Verb, command: Command, words: list[str]) -> argparse.Namespace:
    if all(word == "--json" for word in words):
        from farm.cli.plain import plain_arguments

        plain = plain_arguments(command.setup)
        if plain is not None:
            plain.farm = None
            plain.json = bool(words)
            return plain  # type: ignore[return-value]
    return make_parser(verb, command).parse_args(words)


def load_command(verb: Verb) -> Command:
    """Imports the module of a verb.

    Raises:
        NotBuiltYet: This version has none.
    """
    from importlib import import_module

    from farm.model.errors import NotBuiltYet

    if verb.module:
        name = f"farm.cli.{verb.module}"
        try:
            command: Command | None = import_module(name).COMMANDS.get(verb.name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            command = None
        if command is not None:
            return command
    raise NotBuiltYet(f"`farm {verb.name}` is not built yet", hint=f"it will {verb.summary}")


def make_parser(verb: Verb, command: Command) -> argparse.ArgumentParser:
    """The argument parser of one verb; docs are generated from it, too."""
    import argparse

    from farm.model.errors import CallError

    class Parser(argparse.ArgumentParser):
        """Raises instead of ending the process."""

        def error(self, message: str) -> None:  # type: ignore[override]
            raise CallError(message, hint=f"see `{self.prog} --help`")

    epilog = "examples:\n" + "\n".join(f"  {line}" for line in command.examples) if command.examples else ""
    parser = Parser(
        prog=f"farm {verb.name}",
        description=verb.summary[0].upper() + verb.summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.setup(parser)
    parser.add_argument(
        "--farm", metavar="NAME", help="which farm (default: OVERCRANK_FARM, last joined, local)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    for action in parser._subparsers._group_actions if parser._subparsers is not None else ():
        for inner in action.choices.values() if isinstance(action.choices, dict) else ():
            _take_farm(inner)
    return parser


def _take_farm(parser: argparse.ArgumentParser) -> None:
    """Lets ``--farm`` stand after the action of a grouped verb too; what stands before it is kept."""
    import argparse

    if "--farm" not in parser._option_string_actions:
        parser.add_argument("--farm", metavar="NAME", default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def report(error: OvercrankError, console: Console) -> None:
    """Says what went wrong: two lines on standard error, or a JSON document on standard output."""
    if console.json:
        console.document({"error": error_fields(error)})
    else:
        console.err.write(f"farm: {error.message}\n")
        if error.hint:
            console.err.write(f"  {error.hint}\n")
    console.flush()


def error_fields(error: OvercrankError) -> dict[str, str]:
    """An error for JSON."""
    fields = {"code": error.code, "message": error.message, "hint": error.hint}
    path = getattr(error, "path", "")
    if path:
        fields["path"] = path
    return fields


def _bug(error: Exception, console: Console) -> int:
    """Says that this is our fault, and keeps the traceback where it can be sent from."""
    import os
    import tempfile
    import traceback

    from farm import __version__

    text = f"overcrank {__version__}, python {sys.version}\n{traceback.format_exc()}"
    try:
        handle, name = tempfile.mkstemp(prefix="overcrank-error-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        kept = f"the details are in {name}"
    except OSError:
        kept = "the details could not be saved"
    message = f"unexpected {type(error).__name__}: {error}"
    if console.json:
        console.document({"error": {"code": "bug", "message": message, "hint": kept}})
    else:
        console.err.write(f"farm: {message} (a bug; {kept})\n")
    return EXIT_WORK_FAILED


def _near(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word, [verb.name for verb in VERBS], n=2)
    return (
        "did you mean " + " or ".join(f"`farm {name}`" for name in close) + "?"
        if close
        else "see `farm --help`"
    )


def _drop_stdout() -> None:
    """Points standard output at nothing, so that closing it at exit does not complain again."""
    import os

    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass
