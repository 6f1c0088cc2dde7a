"""Writes constraints.txt: the exact versions that this environment runs, for everything we depend on.

What belongs here: walking the dependencies of our own distribution with its extras.  What must not: asking
a registry; the versions are those installed here, where the tests have just passed.

    .venv/bin/python deploy/constraints.py > constraints.txt
"""

from __future__ import annotations

import importlib.metadata as metadata
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
HEAD = """\
# Exact versions of everything that pip installs for Overcrank, its demo and its tests.
# Made by `python deploy/constraints.py` in an environment where the tests pass; not edited by hand.
"""
#: Python versions the file is for; a requirement that holds for any of them is followed.
PYTHONS = ("3.11", "3.12", "3.13")


def own_requirements() -> list[Requirement]:
    """What pyproject.toml asks for, with every extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = list(project["dependencies"])
    for extra in project.get("optional-dependencies", {}).values():
        texts += extra
    return [Requirement(text) for text in texts]


def closure() -> dict[str, str]:
    """Every distribution that is needed, by its name as it is spelt, with its version.

    Raises:
        SystemExit: One is not installed here.
    """
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = own_requirements()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        try:
            distribution = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:
            raise SystemExit(f"{requirement.name} is not installed: pip install -e '.[demo,test]'") from None
        found[name] = f"{distribution.metadata['Name']}=={distribution.version}"
        for text in distribution.requires or ():
            inner = Requirement(text)
            if _holds(inner, extras):
                waiting.append(inner)
    return found


def _holds(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    if marker is None:
        return True
    return any(
        marker.evaluate({"extra": extra, "python_version": python, "python_full_version": f"{python}.0"})
        for extra in (extras or {""})
        for python in PYTHONS
    )


def main() -> None:
    """Prints the file."""
    found = closure()
    sys.stdout.write(HEAD + "".join(f"{found[name]}\n" for name in sorted(found)))


if __name__ == "__main__":
    main()
