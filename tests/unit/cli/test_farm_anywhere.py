"""``--farm`` may stand before the verb, and before or after the action of a grouped verb."""

from __future__ import annotations

import pytest

from farm.cli.main import load_command, make_parser
from farm.cli.verbs import VERBS
from farm.model.errors import NotBuiltYet

CALLS = {
    "db": ("check",),
    "keys": ("list",),
    "node": ("drain", "ws-12"),
    "policy": ("show",),
    "record": ("list",),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_grouped_verbs_take_the_farm_at_both_places(name: str) -> None:
    verb = next(verb for verb in VERBS if verb.name == name)
    parser = make_parser(verb, load_command(verb))
    words = CALLS[name]
    assert parser.parse_args(["--farm", "old", *words]).farm == "old"
    assert parser.parse_args([*words, "--farm", "old"]).farm == "old"
    assert parser.parse_args([*words, "--farm=old"]).farm == "old"
    assert parser.parse_args([*words]).farm is None
    assert parser.parse_args(["--farm", "old", *words, "--farm", "new"]).farm == "new"


def test_every_action_of_every_verb_takes_the_farm() -> None:
    groups = 0
    for verb in VERBS:
        try:
            command = load_command(verb)
        except NotBuiltYet:
            continue
        parser = make_parser(verb, command)
        if parser._subparsers is None:
            continue
        groups += 1
        for group in parser._subparsers._group_actions:
            assert isinstance(group.choices, dict)
            for action in group.choices.values():
                assert "--farm" in action._option_string_actions, action.prog
    assert groups >= 4
