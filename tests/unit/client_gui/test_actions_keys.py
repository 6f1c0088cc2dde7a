"""Records of actions and their keys: complete, without clashes, changed only where that leads to none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_gui.actions.fuzzy import score
from client_gui.actions.keys import KEPT, KeyMap, canonical, is_plain
from client_gui.actions.records import BY_ID, RECORDS, SELECT_STATES, Scope, overlap
from farm.model.errors import CallError, UnknownName
from farm.model.roles import ACTIONS
from farm.model.states import UnitState

#: Actions of the farm that are no entry of a menu: reading by docks, and the farm's own administration.
ELSEWHERE = {
    "status",
    "jobs",
    "job",
    "frames",
    "nodes",
    "gpus",
    "policy",
    "estimate",
    "spend",
    "policy-set",
    "keys-list",
    "keys-invite",
    "keys-revoke",
    "record",
    "shutdown",
}


def test_every_action_of_the_farm_is_here_or_known_to_be_elsewhere() -> None:
    assert {record.farm for record in RECORDS if record.farm} | ELSEWHERE == set(ACTIONS)
    assert {record.farm for record in RECORDS if record.farm}.isdisjoint(ELSEWHERE)


def test_what_changes_something_is_an_action_of_the_farm() -> None:
    for record in RECORDS:
        assert record.changes <= bool(record.farm), record.id
        if record.farm == record.id:
            assert record.summary, record.id
        assert record.summary[:1].isupper(), record.id
        assert not record.summary.endswith("."), record.id


def test_no_two_actions_share_a_key_where_both_work() -> None:
    keymap = KeyMap()
    clashes = [
        (record.id, key, keymap.clashes(record.id, key))
        for record in RECORDS
        for key in keymap.keys(record.id)
        if keymap.clashes(record.id, key)
    ]
    assert not clashes


def test_menus_stay_short() -> None:
    for scope in (Scope.JOBS, Scope.STEPS, Scope.FRAMES, Scope.NODES):
        assert 1 <= sum(record.top and scope in record.scopes for record in RECORDS) <= 11, scope


def test_states_to_select_are_those_frames_have() -> None:
    assert set(SELECT_STATES) == {state.word for state in UnitState} | {"left"}


def test_a_key_means_what_the_selection_can_do() -> None:
    keymap = KeyMap()

    def meant(key: str, scope: str) -> str:
        record = keymap.meant(key, scope)
        return record.id if record is not None else ""

    assert meant("e", "jobs") == "set"
    assert meant("E", "nodes") == "node-set"
    assert meant("Del", "jobs") == "delete"
    assert meant("Del", "nodes") == "node-forget"
    assert meant("F5", "") == meant("F5", "frames") == "resync"
    assert meant("P", "") == "pause-toggle", "told that nothing is selected, rather than nothing at all"
    assert meant("P", "nodes") == ""
    assert meant("Ctrl+Shift+F12", "jobs") == ""


def test_a_taken_key_is_refused_in_words_and_changes_nothing() -> None:
    keymap = KeyMap()
    before = keymap.keys("star")
    with pytest.raises(CallError, match="'Pause or resume' already"):
        keymap.change("star", ["p"])
    assert keymap.keys("star") == before
    with pytest.raises(CallError, match="is no key"):
        keymap.change("star", ["Hyper+P"])
    with pytest.raises(UnknownName):
        keymap.change("explode", ["X"])
    keymap.change("pause-toggle", [])
    keymap.change("star", ["p"])
    assert keymap.shown("star") == "P"
    assert keymap.chosen() == {"pause-toggle": [], "star": ["P"]}
    # A key of nodes is free for what only works on jobs.
    keymap.change("copy-name", ["Ctrl+Shift+X"])
    assert keymap.meant("Ctrl+Shift+X", "nodes") is BY_ID["copy-name"]


def test_the_palette_and_the_sheet_of_keys_can_always_be_found() -> None:
    for action, key in KEPT.items():
        keymap = KeyMap({action: [], "star": [key]})
        assert keymap.meant(key, "jobs") is BY_ID[action]
        with pytest.raises(CallError, match="stays with"):
            keymap.change(action, ["Ctrl+Alt+P"])
        keymap.change(action, [key, "Ctrl+Alt+P"])


def test_keys_of_another_version_are_passed_over() -> None:
    keymap = KeyMap({"gone": ["X"], "star": ["no key at all"], "bell": ["Ctrl+B"], "skip": None})  # type: ignore[dict-item]
    assert keymap.chosen() == {"bell": ["Ctrl+B"]}


def test_what_was_chosen_takes_its_key_from_a_default() -> None:
    keymap = KeyMap({"star": ["P"]})
    assert keymap.keys("star") == ("P",)
    assert keymap.keys("pause-toggle") == ()


@given(st.sampled_from(RECORDS), st.sampled_from(RECORDS), st.booleans())
def test_no_change_ever_leads_to_a_clash(one: object, other: object, reset: bool) -> None:
    keymap = KeyMap()
    a, b = one, other
    try:
        keymap.change(a.id, keymap.keys(b.id))  # type: ignore[attr-defined]
        if reset:
            keymap.reset(b.id)  # type: ignore[attr-defined]
    except CallError:
        pass
    again = KeyMap(keymap.chosen())
    assert {r.id: again.keys(r.id) for r in RECORDS} == {r.id: keymap.keys(r.id) for r in RECORDS}
    for record in RECORDS:
        for key in keymap.keys(record.id):
            assert not keymap.clashes(record.id, key)
            for scope in record.scopes & {Scope.JOBS, Scope.STEPS, Scope.FRAMES, Scope.NODES}:
                assert keymap.meant(key, scope.value) is record


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("shift + r", "Shift+R"),
        ("alt+CTRL+1", "Ctrl+Alt+1"),
        ("+", "+"),
        ("Ctrl++", "Ctrl++"),
        ("ctrl+shift++", "Ctrl+Shift++"),
        ("]", "]"),
        ("f5", "F5"),
        ("Del", "Del"),
        ("?", "?"),
    ],
)
def test_keys_are_compared_however_they_are_written(text: str, key: str) -> None:
    assert canonical(text) == key
    assert canonical(key) == key


@pytest.mark.parametrize("key", ["P", "Shift+X", "?", "/", "Del", "Esc", "Backspace", "+", "F"])
def test_what_types_is_plain(key: str) -> None:
    assert is_plain(key)


@pytest.mark.parametrize("key", ["Ctrl+C", "Alt+1", "F5", "Shift+F8", "Ctrl++", "Ctrl+Alt+0"])
def test_what_types_nothing_is_not_plain(key: str) -> None:
    assert not is_plain(key)


def test_overlap_is_mutual() -> None:
    for one in RECORDS:
        for other in RECORDS:
            assert overlap(one.scopes, other.scopes) == overlap(other.scopes, one.scopes)


def test_letters_find_what_people_mean() -> None:
    def best(query: str) -> str:
        found = [
            (points, record.id)
            for record in RECORDS
            if (points := score(query, f"{record.text} {record.id}".casefold())) is not None
        ]
        return max(found, key=lambda one: one[0])[1] if found else ""

    assert best("retry") in ("retry", "retry-selection")
    assert best("node dr") == "node-drain"
    assert best("mrk dn") == "mark-done"
    assert best("cancel") == "cancel"
    assert best("xyzzy") == ""


@given(st.text("abc -", max_size=6), st.text("abcd -", max_size=12))
def test_a_word_that_stands_there_is_always_found(word: str, around: str) -> None:
    words = word.split()
    assert score(word, f"{around} {word} {around}") is not None
    if any(set(one) - set(around) for one in words):
        assert score(word, around) is None
