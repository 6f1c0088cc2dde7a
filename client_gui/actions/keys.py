"""Which key means which action: the defaults, what somebody chose instead, and clashes told in words.

What belongs here: keys as text and looking them up.  What may not: Qt; ``shortcuts`` hangs them on a window.

A key is written as ``QKeySequence`` writes it in its portable form: ``Shift+R``, ``Ctrl+Alt+1``, ``]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from client_gui.actions.records import BY_ID, RECORDS, Record, Scope, overlap
from farm.model.errors import CallError, UnknownName

_MODIFIERS: Final = ("Ctrl", "Alt", "Shift", "Meta")
#: Keys that may never be given away: without them nobody finds back.
KEPT: Final = {"palette": "Ctrl+K", "shortcuts": "?"}


def canonical(text: str) -> str:
    """A key in the form keys are compared in.

    Raises:
        CallError: It is none.
    """
    raw = text.strip()
    head, plus, last = raw.rpartition("+")
    if raw.endswith("+"):  # the key + itself: ``+`` or ``Ctrl++``
        head, last = raw[:-1].removesuffix("+"), "+"
    elif not plus:
        head, last = "", raw
    last = last.strip()
    found = {part.strip().capitalize() for part in head.split("+") if part.strip()}
    strange = found - set(_MODIFIERS)
    if not last or strange or " " in last:
        raise CallError(f"{text!r} is no key", hint="write Shift+R, Ctrl+Alt+1, F5 or ]")
    name = last.upper() if len(last) == 1 else last[0].upper() + last[1:]
    return "+".join([*(word for word in _MODIFIERS if word in found), name])


def is_plain(key: str) -> bool:
    """Whether a key would type a character or moves within a widget, so that only lists may take it."""
    *modifiers, name = [*key[:-2].split("+"), "+"] if key.endswith("++") else key.split("+")
    function = len(name) > 1 and name[0] == "F" and name[1:].isdigit()
    return not function and not {"Ctrl", "Alt", "Meta"} & set(modifiers)


class KeyMap:
    """Keys in force.

    Args:
        chosen: Keys by action that somebody chose; an empty list means none.  What cannot be taken is passed
            over: settings may come from another version.
    """

    def __init__(self, chosen: Mapping[str, Iterable[str]] | None = None) -> None:
        self._keys: dict[str, tuple[str, ...]] = {
            record.id: tuple(canonical(key) for key in record.keys) for record in RECORDS
        }
        self._defaults = dict(self._keys)
        for name, keys in (chosen or {}).items():
            if name not in BY_ID:
                continue
            # What was chosen counts as it stands; a clash with a default goes against the default.
            try:
                wanted = tuple(canonical(key) for key in keys)
            except (CallError, TypeError, AttributeError):
                continue
            if self._kept_clash(name, wanted):
                continue
            for key in wanted:
                for other in self.clashes(name, key):
                    self._keys[other] = tuple(one for one in self._keys[other] if one != key)
            self._keys[name] = wanted

    def keys(self, action: str) -> tuple[str, ...]:
        """Keys of an action; the first is shown."""
        return self._keys.get(action, ())

    def shown(self, action: str) -> str:
        """The key to show beside an action, "" for none."""
        found = self._keys.get(action, ())
        return found[0] if found else ""

    def all_keys(self) -> list[str]:
        """Every key that means something."""
        return list(dict.fromkeys(key for keys in self._keys.values() for key in keys))

    def meant(self, key: str, scope: str) -> Record | None:
        """The action of a key where something of a scope is selected ("" for nothing)."""
        wanted = canonical(key)
        found = [BY_ID[name] for name, keys in self._keys.items() if wanted in keys]
        for record in found:
            if scope and scope in {one.value for one in record.scopes}:
                return record
        for record in found:
            if record.scopes & {Scope.APP, Scope.VIEW}:
                return record
        # Nothing is selected: it is better told so than nothing at all.
        return found[0] if found and not scope else None

    def clashes(self, action: str, key: str) -> list[str]:
        """Ids of other actions that have this key where the action works, too."""
        scopes = BY_ID[action].scopes
        wanted = canonical(key)
        return [
            name
            for name, keys in self._keys.items()
            if name != action and wanted in keys and overlap(scopes, BY_ID[name].scopes)
        ]

    def change(self, action: str, keys: Iterable[str]) -> None:
        """Gives an action other keys.

        Raises:
            UnknownName: There is no such action.
            CallError: One is no key, or means something else already; says what.
        """
        if action not in BY_ID:
            raise UnknownName(f"there is no action {action!r}")
        wanted = tuple(dict.fromkeys(canonical(key) for key in keys))
        for key in wanted:
            taken = self.clashes(action, key)
            if taken:
                other = BY_ID[taken[0]].text.rstrip("\N{HORIZONTAL ELLIPSIS}")
                raise CallError(
                    f"{key} means {other!r} already", hint=f"take it from {other!r} first, or choose another"
                )
        if action in KEPT and canonical(KEPT[action]) not in wanted:
            raise CallError(
                f"{KEPT[action]} stays with {BY_ID[action].text!r}", hint="further keys can be added"
            )
        self._keys[action] = wanted

    def reset(self, action: str | None = None) -> None:
        """The defaults again, of one action or of all.

        Raises:
            CallError: Another action has the key by now.
        """
        if action is None:
            self._keys = dict(self._defaults)
        else:
            self.change(action, self._defaults[action])

    def chosen(self) -> dict[str, list[str]]:
        """What differs from the defaults, to be remembered."""
        return {name: list(keys) for name, keys in self._keys.items() if keys != self._defaults[name]}

    def _kept_clash(self, action: str, keys: tuple[str, ...]) -> bool:
        if action in KEPT:
            return canonical(KEPT[action]) not in keys
        return any(canonical(key) in keys for key in KEPT.values())
