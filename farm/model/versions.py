"""Application versions and the constraints a step puts on them.

What belongs here: reading the versions that programs print, and deciding whether one satisfies a
constraint.  What must not: finding applications, or knowing any of them.

Constraints are those of Python packages (PEP 440), since people know them from elsewhere: ``>=4.2,<5``,
``!=4.1.0``, ``~=4.2``, ``==4.2.*``.  A bare ``4.2`` means any 4.2 (``==4.2.*``); an empty constraint
takes every version, an unknown one included.

Versions are read leniently, as vendors write them:

- letters in front are dropped: ``n9.0.2`` (ffmpeg) and ``v4.2`` are 9.0.2 and 4.2;
- a ``v`` between numbers is a dot: ``15.1v3`` (Nuke) is 15.1.3;
- ``alpha``, ``beta`` and ``rc`` make a pre-release, which comes before the release and may satisfy a
  constraint like any other version: ``4.3.0 Alpha`` satisfies ``4.3`` and ``>=4.2``, but not ``>=4.3.0``;
- what else follows is packaging, not version: ``5.1.9-0+deb12u1`` is 5.1.9, ``4.2.3 LTS`` is 4.2.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from farm.model.errors import CallError

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

_LEAD = re.compile(r"(?:[A-Za-z][A-Za-z _-]*(?=[0-9]))?")
_NUMBERS = re.compile(r"[0-9]{1,9}(?:[.vV][0-9]{1,9})*")
_PRE = re.compile(r"[ ._-]?(?P<kind>alpha|beta|rc|a|b)[ .]?(?P<number>[0-9]{0,9})(?![A-Za-z])", re.IGNORECASE)
_CLAUSE = re.compile(r"(?P<op>~=|==|!=|<=|>=|<|>|)\s*(?P<version>[^\s=<>~!].*?)(?P<any>\.\*)?\s*")
_EXAMPLES = "write 4.2, >=4.2 or >=4.2,<5"


def version_ok(version: str, constraint: str) -> bool:
    """Whether an installed version satisfies a constraint.

    A version that cannot be read satisfies only the empty constraint: better an idle node with a
    reason than a frame by the wrong program.

    Raises:
        CallError: The constraint cannot be read.
    """
    wanted = _specifiers(constraint)
    if not constraint.strip():
        return True
    normal = normalise(version)
    return normal is not None and wanted.contains(normal, prereleases=True)


def check_constraint(text: str) -> None:
    """Checks a constraint.

    Raises:
        CallError: It cannot be read; names the part.
    """
    _specifiers(text)


def normalise(version: str) -> str | None:
    """A vendor's version in the form PEP 440 knows, None if it holds no number."""
    found = _read(version)
    return found[0] if found else None


def newest(versions: Iterable[str]) -> str | None:
    """The newest of some versions, as it was written; None if there are none.

    What cannot be read is older than everything else; of equals the first counts.
    """
    best: str | None = None
    best_key: Version | None = None
    for version in versions:
        key = _key(version)
        if best is None or (key is not None and (best_key is None or key > best_key)):
            best, best_key = version, key
    return best


def _read(text: str) -> tuple[str, str] | None:
    """The normal form, and the text that was not understood."""
    text = text.strip()
    lead = _LEAD.match(text)
    numbers = _NUMBERS.match(text, lead.end() if lead else 0)
    if numbers is None:
        return None
    normal = re.sub("[vV]", ".", numbers[0])
    pre = _PRE.match(text, numbers.end())
    if pre is None:
        return normal, text[numbers.end() :]
    kind = {"alpha": "a", "beta": "b"}.get(pre["kind"].lower(), pre["kind"].lower())
    return f"{normal}{kind}{pre['number'] or 0}", text[pre.end() :]


@lru_cache(maxsize=1024)
def _key(version: str) -> Version | None:
    # Imported late: it costs milliseconds that commands without versions need not pay.
    from packaging.version import Version

    normal = normalise(version)
    return None if normal is None else Version(normal)


@lru_cache(maxsize=1024)
def _specifiers(text: str) -> SpecifierSet:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    clauses = []
    for part in text.split(",") if text.strip() else []:
        clause = _CLAUSE.fullmatch(part.strip())
        found = _read(clause["version"]) if clause else None
        if clause is None or found is None or found[1]:
            raise CallError(f"{part.strip()!r} is not a version constraint", hint=_EXAMPLES)
        operator = clause["op"] or "=="
        everything = ".*" if clause["any"] or not clause["op"] else ""
        if everything and not found[0].replace(".", "").isdigit():
            # A pre-release is one version, it has no family to match.
            everything = ""
        clauses.append(f"{operator}{found[0]}{everything}")
    try:
        return SpecifierSet(",".join(clauses))
    except InvalidSpecifier as error:
        raise CallError(f"{text.strip()!r} is not a version constraint: {error}", hint=_EXAMPLES) from error
