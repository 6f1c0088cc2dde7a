"""Pictures of the windows: the files, what is in them, and that nothing is left behind.

The farm and the windows are processes of their own, as they are for everybody; one small scenario is pictured
once for all tests.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import psutil
import pytest
from PySide6.QtGui import QColor, QImage, QPainter

from client_gui.app import Options
from client_gui.screens import choosing, paint, take, taking
from client_gui.store.farmstore import FarmStore
from farm.model.errors import CallError, StorageError
from farm.model.states import UnitState
from farm.protocol.client import SnapshotMsg
from tests.support.gui_rig import job_row, step_row

#: A farm that is over in a moment: one job with frames that fail, one node.
TINY = """
name = "tiny"
seed = 3

[[nodes]]
name = "box"
count = 2
cores = 8
ram_mib = 32768
gpus = 1
vram_mib = 8192
rate_usd_h = 3.0

[[jobs]]
name = "shot"
user = "ana"
project = "ember"

[[jobs.steps]]
name = "beauty"
frames = 40
frame_s = 20
attempts = 1
chunk = 4

[[jobs.steps]]
name = "comp"
frames = 40
frame_s = 4
after = ["beauty"]

[faults]
frame_failure = 0.2
"""


def children() -> set[int]:
    """Processes this one has started, and theirs."""
    return {process.pid for process in psutil.Process().children(recursive=True)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all pictures of the tiny farm."""
    place = tmp_path_factory.mktemp("screens")
    scenario = place / "tiny.toml"
    scenario.write_text(TINY, encoding="utf-8")
    before = children()
    temporary = place / "temporary"
    temporary.mkdir()
    patch = pytest.MonkeyPatch()
    patch.setattr(tempfile, "tempdir", str(temporary))
    patch.setattr("client_gui.screens.taking.SPEED", 200.0)
    try:
        assert take(Options(screenshot=place / "pictures", scenario=scenario)) == 0
    finally:
        patch.undo()
    assert children() <= before, "a process is left"
    assert list(temporary.iterdir()) == [], "a folder is left"
    return place / "pictures"


SCENES = (
    "busy-farm",
    "frame-grid",
    "frame-grid-time",
    "log-error",
    "submit",
    "submit-error",
    "spend",
    "nodes",
    "node-tiles",
    "groups",
    "offline",
)


@pytest.mark.slow
def test_every_scene_comes_in_both_looks_and_both_scales(folder: Path) -> None:
    expected = {
        f"{scene}-{look}{scale}.png"
        for scene in SCENES
        for look in ("dark", "light")
        for scale in ("", "@2x")
    }
    assert {path.name for path in folder.iterdir()} == expected


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES)
def test_a_picture_shows_something_and_is_twice_as_large_at_2x(folder: Path, scene: str) -> None:
    for look in ("dark", "light"):
        once, twice = (QImage(str(folder / f"{scene}-{look}{scale}.png")) for scale in ("", "@2x"))
        assert (once.width(), once.height()) == (1600, 1000)
        assert (twice.width(), twice.height()) == (3200, 2000)
        for image in (once, twice):
            plain = image.convertToFormat(QImage.Format.Format_RGB32)
            pixels = np.frombuffer(plain.constBits(), np.uint32)
            colours, counts = np.unique(pixels, return_counts=True)
            assert len(colours) > 40, "words alone have more colours than that"
            assert counts.max() < 0.9 * pixels.size, "next to nothing is on it"
        middle = QColor(once.pixel(800, 990))
        assert (middle.lightness() > 128) is (look == "light")


@pytest.mark.slow
def test_a_light_picture_is_no_dark_one(folder: Path) -> None:
    dark, light = (QImage(str(folder / f"busy-farm-{look}.png")) for look in ("dark", "light"))
    assert dark != light


@pytest.mark.slow
def test_pictures_are_small(folder: Path) -> None:
    for path in folder.iterdir():
        assert path.stat().st_size < (500_000 if "@2x" in path.name else 200_000), path.name


# -- what is refused --


def test_a_scenario_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallError, match=r"there is no file .*nowhere\.toml"):
        take(Options(screenshot=tmp_path / "p", scenario=tmp_path / "nowhere.toml"))
    assert not (tmp_path / "p").exists()


@pytest.mark.slow
def test_a_scenario_with_a_wrong_key_is_refused_in_the_simulators_words(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(TINY.replace("cores", "corse", 1), encoding="utf-8")
    before = children()
    with pytest.raises(CallError, match=r"nodes\[0\]: there is no key `corse`"):
        take(Options(screenshot=tmp_path / "p", scenario=path))
    assert children() <= before


@pytest.mark.slow
def test_a_job_the_farm_refuses_ends_it_with_the_farms_words(tmp_path: Path) -> None:
    path = tmp_path / "refused.toml"
    path.write_text(TINY.replace("chunk = 4", "chunk = 4\nlimits = { nuke = 1 }"), encoding="utf-8")
    with pytest.raises(CallError, match="the farm has no limit 'nuke'"):
        take(Options(screenshot=tmp_path / "p", scenario=path))


def test_two_farms_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="two farms"):
        take(Options(screenshot=tmp_path, scenario=taking.STUDIO, farm="west"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        take(Options(screenshot=tmp_path / "file" / "p", scenario=taking.STUDIO))


def test_the_scenario_that_comes_with_the_client_can_be_served() -> None:
    from farm.sim.scenario import load_scenario
    from farm.sim.serve import check_servable
    from farm.sim.workload import plan_jobs

    scenario = load_scenario(taking.STUDIO)
    check_servable(scenario)
    assert sum(group.count for group in scenario.nodes) == 40
    assert {group.site for group in scenario.nodes} == {"london", "frankfurt"}
    jobs = plan_jobs(scenario, scenario.seed)
    assert max(len(step.frame_s) for job in jobs for step in job.steps) == 100_000
    assert {step.renderer for job in jobs for step in job.spec.steps} >= {"blender", "mitsuba", "command"}


# -- colours --


def painted(colours: int) -> QImage:
    """A flat picture with one wide ramp of colours in it."""
    image = QImage(400, 60, QImage.Format.Format_RGB32)
    image.fill(QColor("#1f2124"))
    painter = QPainter(image)
    for place in range(colours):
        painter.setPen(QColor.fromHsv(place * 359 // colours, 200, 120 + place % 100))
        painter.drawLine(place % 400, 20 + place // 400 * 10, place % 400, 28 + place // 400 * 10)
    painter.end()
    return image


def test_a_picture_of_few_colours_is_the_same_with_a_palette() -> None:
    image = painted(100)
    small = paint.with_palette(image)
    assert small.format() is QImage.Format.Format_Indexed8
    assert small.convertToFormat(QImage.Format.Format_RGB32) == image


def test_common_colours_stay_exact_and_others_come_near() -> None:
    image = painted(1200)
    small = paint.with_palette(image).convertToFormat(QImage.Format.Format_RGB32)
    assert small.pixel(5, 5) == image.pixel(5, 5)
    for x in range(0, 400, 7):
        was, now = QColor(image.pixel(x, 24)), QColor(small.pixel(x, 24))
        apart = [abs(a - b) for a, b in zip(was.getRgb()[:3], now.getRgb()[:3], strict=True)]
        assert max(apart) <= 24, (x, was.name(), now.name())


def test_a_picture_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="gone"):
        paint.write_png(painted(3), tmp_path / "gone" / "x.png")


# -- choosing --


def store_of(*rows: object) -> FarmStore:
    store = FarmStore()
    for row in rows:
        store.open_job(row.job)  # type: ignore[attr-defined]
    store.snapshot(SnapshotMsg(id=1, n=1, jobs=rows))  # type: ignore[arg-type]
    return store


def test_the_job_with_most_to_see_is_shown() -> None:
    store = store_of(
        job_row(1, units=100_000, failed=7),
        job_row(2, failed=0),
        job_row(3, failed=2, steps=(step_row("fx"), step_row("comp"))),
        job_row(4, failed=2),
    )
    assert choosing.hero_job(store) == 3
    assert choosing.biggest_job(store) == 1
    assert choosing.share_done(store, 2) == pytest.approx(0.4)
    assert choosing.hero_job(FarmStore()) == choosing.biggest_job(FarmStore()) == 0
    assert choosing.share_done(store, 99) == 0.0


def test_failed_frames_that_stand_alone_come_first() -> None:
    store = FarmStore()
    row = job_row(1, failed=3)
    store.open_job(1)
    states = bytearray([int(UnitState.DONE)]) * 100
    for unit in (10, 11, 60):
        states[unit] = int(UnitState.FAILED)
    store.snapshot(SnapshotMsg(id=1, n=1, jobs=(row,), maps={"J1/beauty": bytes(states)}))
    found = choosing.failed_units(store, 1, 9)
    assert found[0] == ("beauty", 60)
    assert {unit for _, unit in found} == {10, 11, 60}
    assert len(choosing.failed_units(store, 1, 1)) == 1
