"""Who may do what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError, Denied, UnknownName
from farm.model.roles import (
    ACTIONS,
    Role,
    action_named,
    allowed_actions,
    check_allowed,
    check_priority,
    parse_role,
)

CHANGES_WORK = {
    "submit",
    "pause",
    "resume",
    "cancel",
    "requeue",
    "retry",
    "skip",
    "mark-done",
    "priority",
    "next",
    "last",
    "set",
    "archive",
    "delete",
}
NODES = {"node-drain", "node-enable", "node-forget"}
FARM = {"keys-list", "keys-invite", "keys-revoke", "shutdown"}
actions = st.sampled_from(sorted(ACTIONS))
user_roles = st.sampled_from([Role.ARTIST, Role.WRANGLER, Role.ADMIN])
users = st.sampled_from(["anna", "ben", ""])


def allowed(role: Role, action: str, user: str = "anna", owner: str = "anna") -> bool:
    try:
        check_allowed(role, action, user=user, owner=owner)
    except Denied:
        return False
    return True


def test_the_table_holds_every_verb_once_by_its_own_name() -> None:
    assert CHANGES_WORK | NODES | FARM | {
        "jobs",
        "job",
        "frames",
        "log",
        "preview",
        "why",
        "nodes",
        "gpus",
    } <= set(ACTIONS)
    for name, action in ACTIONS.items():
        assert action.name == name
        assert action.summary[0].isupper()
        assert not action.summary.endswith(".")
        assert action.role is not Role.AGENT


@pytest.mark.parametrize("action", sorted(CHANGES_WORK))
def test_artists_act_on_their_own_jobs_only(action: str) -> None:
    assert allowed(Role.ARTIST, action, "anna", "anna")
    assert not allowed(Role.ARTIST, action, "anna", "ben")
    assert not allowed(Role.ARTIST, action, "anna", "")
    assert not allowed(Role.ARTIST, action, "", "")
    assert not allowed(Role.ARTIST, action, "anna", "Anna")
    assert allowed(Role.WRANGLER, action, "wim", "ben")
    assert allowed(Role.ADMIN, action, "ada", "ben")


@pytest.mark.parametrize("action", sorted(NODES))
def test_nodes_are_the_wranglers(action: str) -> None:
    assert [allowed(role, action, owner="") for role in Role] == [False, True, True, False]


@pytest.mark.parametrize("action", sorted(FARM))
def test_keys_and_the_broker_are_the_admins(action: str) -> None:
    assert [allowed(role, action, owner="") for role in Role] == [False, False, True, False]


@pytest.mark.parametrize(
    "action", ["jobs", "job", "frames", "log", "preview", "why", "nodes", "gpus", "status"]
)
def test_everybody_may_read_the_queue(action: str) -> None:
    assert [allowed(role, action, owner="ben") for role in Role] == [True, True, True, False]


def test_artists_see_what_their_own_work_costs() -> None:
    assert allowed(Role.ARTIST, "spend", "anna", "anna")
    assert not allowed(Role.ARTIST, "spend", "anna", "")
    assert allowed(Role.WRANGLER, "spend", "wim", "")


@given(actions, users, users)
def test_an_agents_key_may_do_nothing_a_user_does(action: str, user: str, owner: str) -> None:
    with pytest.raises(Denied, match="agent"):
        check_allowed(Role.AGENT, action, user=user, owner=owner)
    assert allowed_actions(Role.AGENT) == ()


@given(actions, users, users)
def test_a_higher_role_never_may_less(action: str, user: str, owner: str) -> None:
    verdicts = [allowed(role, action, user, owner) for role in (Role.ARTIST, Role.WRANGLER, Role.ADMIN)]
    assert verdicts == sorted(verdicts)
    assert verdicts[-1]


@given(user_roles, actions)
def test_menus_offer_exactly_what_is_allowed_on_own_jobs(role: Role, action: str) -> None:
    assert (ACTIONS[action] in allowed_actions(role)) == allowed(role, action, "anna", "anna")


@pytest.mark.parametrize(
    ("role", "action", "owner", "words"),
    [
        (Role.ARTIST, "cancel", "ben", ["anna (artist)", "cancel a job", "belongs to ben", "ask a wrangler"]),
        (Role.ARTIST, "submit", "ben", ["anna (artist)", "submit a job", "the job's user is ben"]),
        (Role.ARTIST, "node-drain", "", ["anna (artist)", "drain a node:", "takes the role wrangler"]),
        (Role.WRANGLER, "keys-revoke", "", ["anna (wrangler)", "revoke a key", "role admin", "ask an admin"]),
        (Role.AGENT, "cancel", "anna", ["anna (agent)", "cancel a job", "only renders"]),
    ],
)
def test_a_refusal_says_who_what_and_why(role: Role, action: str, owner: str, words: list[str]) -> None:
    with pytest.raises(Denied) as caught:
        check_allowed(role, action, user="anna", owner=owner)
    for word in words:
        assert word in str(caught.value)


def test_unknown_actions_and_roles() -> None:
    with pytest.raises(UnknownName, match="reboot"):
        check_allowed(Role.ADMIN, "reboot", user="ada", owner="")
    with pytest.raises(UnknownName, match="reboot"):
        action_named("reboot")
    with pytest.raises(UnknownName, match="boss"):
        parse_role("boss")
    assert [parse_role(text) for text in ("artist", "wrangler", "admin", "agent")] == list(Role)


@given(st.integers(-300, 300), st.sampled_from(list(Role)))
def test_priorities(priority: int, role: Role) -> None:
    if not 0 <= priority <= 100:
        with pytest.raises(CallError, match=str(priority)) as caught:
            check_priority(role, priority)
        assert not isinstance(caught.value, Denied)
    elif role is Role.AGENT or (role is Role.ARTIST and priority > 75):
        with pytest.raises(Denied):
            check_priority(role, priority)
    else:
        check_priority(role, priority)


def test_the_artists_limit_is_75() -> None:
    check_priority(Role.ARTIST, 75)
    with pytest.raises(Denied, match="76"):
        check_priority(Role.ARTIST, 76)
