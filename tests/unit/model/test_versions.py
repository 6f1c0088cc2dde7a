"""Versions as vendors write them, constraints as people write them."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError
from farm.model.versions import check_constraint, newest, normalise, version_ok


@pytest.mark.parametrize(
    ("vendor", "normal"),
    [
        ("3.4.1", "3.4.1"),
        ("n9.0.2", "9.0.2"),
        ("v4.2", "4.2"),
        ("15.1v3", "15.1.3"),
        ("Nuke 15.1v3", "15.1.3"),
        ("5.1.9-0+deb12u1", "5.1.9"),
        ("7.1-full_build-www.gyan.dev", "7.1"),
        ("n7.1-3-gabcdef", "7.1"),
        ("N-109468-gd39b34123d", "109468"),
        ("4.2.3 LTS", "4.2.3"),
        ("4.3.0 Alpha", "4.3.0a0"),
        ("4.3.0-beta.2", "4.3.0b2"),
        ("5.0.0rc1", "5.0.0rc1"),
        ("20.5.332", "20.5.332"),
        ("2025.2", "2025.2"),
        ("  3.8.0\n", "3.8.0"),
        ("", None),
        ("unknown", None),
        ("-1", None),
    ],
)
def test_vendor_versions(vendor: str, normal: str | None) -> None:
    assert normalise(vendor) == normal


@pytest.mark.parametrize(
    ("version", "constraint", "ok"),
    [
        ("4.2.3", "4.2", True),
        ("4.2", "4.2", True),
        ("4.20.1", "4.2", False),
        ("4.1.9", "4.2", False),
        ("4.2.3", "4", True),
        ("4.2.3", "4.2.3", True),
        ("4.2.3", "4.2.*", True),
        ("4.2.3", "==4.2", False),
        ("4.2.0", "==4.2", True),
        ("4.2.3", "==4.2.*", True),
        ("4.2.3", ">=4.2,<5", True),
        ("5.0.0", ">=4.2,<5", False),
        ("4.2.3", " >= 4.2 , != 4.2.3 ", False),
        ("4.9", "~=4.2", True),
        ("5.0", "~=4.2", False),
        ("15.1v3", ">=15.1v2", True),
        ("15.1v3", "15.1", True),
        ("15.1v3", "15.1v3", True),
        ("15.1v3", "==15.1v4", False),
        ("n9.0.2", ">=5.1", True),
        ("5.1.9-0+deb12u1", "==5.1.9", True),
        ("4.3.0 Alpha", "4.3", True),
        ("4.3.0 Alpha", ">=4.2", True),
        ("4.3.0 Alpha", ">=4.3.0", False),
        ("4.3.0 Alpha", "<4.3", False),
        ("4.3.0 Alpha", "==4.3.0a0", True),
        ("4.3.0", "4.3.0rc1", False),
        ("anything", "", True),
        ("", "  ", True),
        ("", ">=1", False),
        ("unknown", "!=4.2", False),
        ("10.0", ">9.9", True),
    ],
)
def test_constraints(version: str, constraint: str, ok: bool) -> None:
    assert version_ok(version, constraint) is ok
    check_constraint(constraint)


@pytest.mark.parametrize(
    "text",
    [
        "latest",
        ">=",
        ">= ,<5",
        "4.2,",
        ",4.2",
        "=4.2",
        "===4.2",
        "=>4.2",
        "4.2 or 4.3",
        ">=4.2.*",
        "~=4",
        "4.2 LTS",
        "4..2",
    ],
)
def test_constraints_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(CallError, match="not a version constraint"):
        check_constraint(text)
    with pytest.raises(CallError):
        version_ok("4.2", text)


numbers = st.lists(st.integers(0, 30), min_size=1, max_size=4)


@given(numbers, numbers)
def test_order_is_that_of_the_numbers(one: list[int], two: list[int]) -> None:
    a, b = ".".join(map(str, one)), "n" + "v".join(map(str, two))

    left, right = ([*parts, 0, 0, 0, 0][:4] for parts in (one, two))
    assert version_ok(a, f">={b}") == (left >= right)
    assert version_ok(a, f"<{b}") == (left < right)
    assert version_ok(a, f"=={b}") == (left == right)
    assert newest([a, b]) == (a if left >= right else b)


@given(numbers, numbers)
def test_a_bare_version_means_its_family(family: list[int], rest: list[int]) -> None:
    bare = ".".join(map(str, family))
    assert version_ok(".".join(map(str, family + rest)), bare)
    other = [*family[:-1], family[-1] + 1, *rest]
    assert not version_ok(".".join(map(str, other)), bare)


@given(st.text(max_size=12))
def test_no_text_breaks_it(text: str) -> None:
    assert version_ok(text, "") is True
    assert version_ok(text, ">=1") in (True, False)
    assert newest([text]) == text
    with contextlib.suppress(CallError):
        check_constraint(text)


def test_newest() -> None:
    assert newest([]) is None
    assert newest(["4.2", "15.1v3", "n9.0.2"]) == "15.1v3"
    assert newest(["custom", "3.6"]) == "3.6"
    assert newest(["3.6", "custom"]) == "3.6"
    assert newest(["custom", "other"]) == "custom"
    assert newest(["4.3.0 Alpha", "4.3.0", "v4.3"]) == "4.3.0"


def test_packaging_is_imported_only_when_a_constraint_is_read() -> None:
    code = "import sys, farm.model.versions; sys.exit('packaging' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
