"""Fixtures of the integration tests: farms in real processes, and their logs when a test fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.farmhouse import Farmhouse
from tests.support.truth import Ledger, Renders

HOUSES = pytest.StashKey[list[Farmhouse]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Adds the ends of all process logs to the report of a test that failed."""
    report = yield
    if report.failed:
        module = item.getparent(pytest.Module)
        for node in (item, module):
            for house in node.stash.get(HOUSES, []) if node is not None else ():
                report.sections.append((f"processes of farm {house.folder}", house.report()))
    return report


@pytest.fixture(scope="session", autouse=True)
def shared_app_versions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One agent asks Blender for its version, all others read it: a second saved each."""
    base = tmp_path_factory.getbasetemp()
    common = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    patch = pytest.MonkeyPatch()
    patch.setenv("OVERCRANK_TEST_APPS", str(common / "apps.json"))
    yield
    patch.undo()


@pytest.fixture
def new_house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[..., Farmhouse]]:
    """Makes farms whose broker runs; all end with the test."""
    houses = request.node.stash.setdefault(HOUSES, [])

    def make(**options: Any) -> Farmhouse:
        folder = options.pop("folder", tmp_path / f"farm{len(houses)}")
        house = Farmhouse(folder, **options)
        houses.append(house)
        house.start_broker()
        return house

    yield make
    errors = []
    for house in houses:
        try:
            house.close()
        except AssertionError as error:
            errors.append(str(error))
    assert not errors, "\n".join(errors)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Farmhouse]:
    """A farm with three nodes of two cores (a, b, c) for the tests of a module that break nothing of it."""
    house = Farmhouse(tmp_path_factory.mktemp("shared"))
    request.node.stash.setdefault(HOUSES, []).append(house)
    with house:
        for name in ("a", "b", "c"):
            house.agent(name)
        house.wait_online()
        yield house


@pytest.fixture
def house(new_house: Callable[..., Farmhouse]) -> Farmhouse:
    """A farm with two nodes, a and b."""
    made = new_house()
    made.agent("a")
    made.agent("b")
    made.wait_online()
    return made


@pytest.fixture
def ledger(house: Farmhouse) -> Ledger:
    """The database of ``house``."""
    return Ledger(house.database)


@pytest.fixture
def renders(tmp_path: Path) -> Renders:
    """The test program, its frames and marks."""
    return Renders(tmp_path)
