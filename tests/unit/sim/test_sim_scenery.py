"""What a served farm shows is drawn: plausible, and the same whenever it is drawn again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from farm.model.nodes import GpuInfo
from farm.sim import scenery, serve

GPUS = (GpuInfo(0, "a", "T4", 15_000), GpuInfo(2, "b", "T4", 15_000))


@given(st.integers(), st.integers(0, 99), st.integers(0, 10**9), st.integers(0, 99_999))
def test_gpus_look_like_gpus(seed: int, node: int, moment: int, asked_mib: int) -> None:
    busy, idle = scenery.gpu_loads(GPUS, {0: asked_mib}, seed, node, moment)
    assert 80 <= busy.percent <= 100
    assert 0 <= idle.percent <= 5
    assert 30 < idle.temp_c < busy.temp_c < 85
    assert 0 < idle.vram_used_mib < 15_000
    assert 0 < busy.vram_used_mib <= 15_000 or 0 < asked_mib < 2
    assert scenery.gpu_loads(GPUS, {0: asked_mib}, seed, node, moment) == (busy, idle)


@given(st.integers(0, 10**6), st.integers())
def test_work_uses_less_memory_than_it_asked_for(asked_mib: int, attempt: int) -> None:
    assert 0 <= scenery.used_mib(asked_mib, attempt) <= max(asked_mib, 3000)


def test_so_many_a_second_and_no_more() -> None:
    allowance = scenery.Allowance(2.0, 3.0)
    assert [allowance.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert [allowance.take(1.0) for _ in range(3)] == [True, True, False]
    assert [allowance.take(1000.0) for _ in range(4)] == [True, True, True, False]


def test_a_picture_is_a_jpeg_and_frames_differ() -> None:
    first, second = (scenery.picture(1, "beauty", frame, frame / 10, 1) for frame in (1, 2))
    assert first[:3] == second[:3] == b"\xff\xd8\xff"
    assert first != second
    assert first == scenery.picture(1, "beauty", 1, 0.1, 1)
    assert len(first) < 64 * 1024


def test_a_picture_does_not_depend_on_those_before_it() -> None:
    """What stands still in a step is drawn once: no frame may leave its ball in the next one."""
    alone = scenery.picture(3, "beauty", 7, 0.7, 1)
    for frame in range(5):
        scenery.picture(3, "beauty", frame, frame / 10, 1)
        scenery.picture(4, "beauty", frame, frame / 10, 1)
    assert scenery.picture(3, "beauty", 7, 0.7, 1) == alone


def test_every_frame_of_a_small_farm_has_a_picture_and_a_large_one_is_bounded() -> None:
    """Forty machines at sixty times the speed end about forty frames of a minute a second."""
    allowance = serve.previews_allowance()
    assert all(allowance.take(n / 40) for n in range(40 * 60))
    granted = sum(allowance.take(60 + n / 5000) for n in range(5000 * 10))
    assert granted <= 15 * serve.PREVIEWS_S
