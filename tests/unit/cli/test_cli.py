"""What holds for every verb: errors in words, exit codes, help, the farm named, schemas and the reference.

What belongs here: the command line as a whole, against a broker in memory.  Single verbs have files of their
own: test_cli_work, _why, _status, _act, _submit, _set.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from farm.cli import console as console_module
from farm.cli.main import main
from farm.cli.verbs import VERBS
from farm.model.errors import Denied, FarmUnreachable, IllegalMove, SessionRefused
from farm.protocol import client as wire
from farm.sdk.client import Farm
from tests.support.cli_rig import Run
from tests.support.fake_broker import FakeBroker, job_row, step_row

# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("jbos",), 2, "did you mean `farm jobs`"),
        (("jobs", "--state", "runing"), 2, "there is no state 'runing'"),
        (("jobs", "--limit", "0"), 2, "--limit: 0 is not between 1 and 1000"),
        (("jobs", "--limit", "x"), 2, "invalid int value"),
        (("jobs", "--nope"), 2, "unrecognized arguments: --nope"),
        (("job",), 2, "the following arguments are required: JOB"),
        (("job", "12"), 2, "'12' is not an address"),
        (("job", "J12/beauty"), 2, "is not a job"),
        (("job", "J99"), 2, "there is no job J99"),
        (("frames", "J12/beauty/1-"), 2, "no number follows"),
        (("cancel", "J12/beauty@7"), 2, "is an attempt"),
        (("why", "J12/beuty"), 2, "J12 has no step 'beuty'"),
        (("schema", "renderer"), 2, "which renderer?"),
        (("schema", "renderer", "maya"), 2, "there is no renderer 'maya'"),
    ],
)
def test_wrong_calls_are_told_in_words(run: Run, argv: tuple[str, ...], code: int, words: str) -> None:
    result = run(*argv)
    assert result.code == code
    assert words in result.err
    assert result.err.startswith("farm: ")
    assert "Traceback" not in result.err
    assert result.out == ""
    document = run("--json", *argv)
    assert document.code == code
    assert set(document.json["error"]) >= {"code", "message", "hint"}
    assert document.err == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (IllegalMove("a done unit cannot become canceled"), 2),
        (Denied("lee may not cancel J12"), 2),
        (FarmUnreachable("away"), 3),
        (SessionRefused("the farm does not know this key"), 3),
    ],
)
def test_exit_codes_follow_the_error(run: Run, broker: FakeBroker, error: Exception, code: int) -> None:
    broker.errors[wire.ActReq] = error  # type: ignore[assignment]
    assert run("cancel", "J12").code == code


@pytest.mark.parametrize("name", [verb.name for verb in VERBS if not verb.module])
def test_what_is_not_built_is_refused_by_name(run: Run, name: str) -> None:
    result = run(name, "whatever")
    assert result.code == 2
    assert f"`farm {name}` is not built yet" in result.err


def test_a_bug_is_one_line_and_a_kept_traceback(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("farm.cli.verbs_work._show_jobs", lambda console, rows: {}["nothing"])
    result = run("jobs")
    assert result.code == 1
    assert result.err.count("\n") == 1
    kept = next(tmp_path.glob("overcrank-error-*.txt"))
    assert str(kept) in result.err
    assert "KeyError: 'nothing'" in kept.read_text()


def test_a_reader_that_goes_away_is_no_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: console_module.Console, *rest: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(console_module.Console, "table", broken)
    monkeypatch.setattr("farm.cli.main._drop_stdout", lambda: None)
    result = run("jobs")
    assert (result.code, result.err) == (0, "")


def test_names_from_others_cannot_move_the_cursor(run: Run, broker: FakeBroker) -> None:
    broker.jobs = {12: job_row(12, name="\x1b[2Jboo\nbar", steps=(step_row("beauty", reason="\x07"),))}
    for argv in (("jobs",), ("job", "J12")):
        out = run(*argv).out
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "boo" in out


# -- help --------------------------------------------------------------------------------------------


def test_help_lists_every_verb(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    for verb in VERBS:
        assert f"  {verb.name} " in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 110
    assert run().code == 2


@pytest.mark.parametrize("name", [verb.name for verb in VERBS if verb.module])
def test_every_verb_has_help_with_examples(
    run: Run, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from farm.cli.main import load_command
    from farm.cli.verbs import find_verb

    verb = find_verb(name)
    assert verb is not None
    load_command(verb)
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    out = capsys.readouterr().out
    assert f"usage: farm {name}" in out
    assert "examples:" in out
    assert f"farm {name}" in out.partition("examples:")[2]


@pytest.mark.parametrize("name", [verb.name for verb in VERBS if verb.module])
def test_a_call_without_arguments_means_the_same_without_argparse(name: str) -> None:
    from farm.cli.main import load_command, make_parser
    from farm.cli.plain import plain_arguments
    from farm.cli.verbs import find_verb
    from farm.model.errors import CallError

    verb = find_verb(name)
    assert verb is not None
    command = load_command(verb)
    plain = plain_arguments(command.setup)
    try:
        parsed = vars(make_parser(verb, command).parse_args([]))
    except CallError:
        assert plain is None
        return
    assert plain is None or vars(plain) | {"farm": None, "json": False} == parsed
    assert plain is not None or name not in ("jobs", "status", "nodes", "gpus", "spend")


def test_farm_can_be_named_before_or_after_the_verb(
    run: Run, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    named: list[str | None] = []

    def connect(cls: type[Farm], name: str | None = None, timeout_s: float | None = None) -> Farm:
        named.append(name)
        return broker.farm()

    monkeypatch.setattr(Farm, "connect", classmethod(connect))
    run("--farm", "studio", "jobs")
    run("jobs", "--farm", "other")
    run("--farm=third", "jobs")
    run("jobs")
    assert named == ["studio", "other", "third", None]


def test_schema(run: Run) -> None:
    assert "JobSpec" in json.dumps(run("schema", "job").json)
    assert "samples" in run("schema", "renderer", "blender").out
    assert {row["name"] for row in run("schema", "renderers", "--json").json["renderers"]} >= {
        "blender",
        "command",
    }
    assert any(row["name"] == "lost_s" for row in run("schema", "options", "--json").json["options"])


def test_the_reference_has_a_section_for_every_verb_and_its_json() -> None:
    from farm.cli.reference import reference

    text = reference()
    page = (Path(__file__).resolve().parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f"### `farm {verb.name}`" in text
        assert f"### `farm {verb.name}`" in page, "run python -m farm.cli.reference > docs/cli.md"
