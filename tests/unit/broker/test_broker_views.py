"""What rows say of frames that were left out: each its own reason, whatever happened to others later."""

from __future__ import annotations

from farm.broker.views import Views
from farm.model.jobs import AfterSpec
from tests.support.core_rig import Rig, step


def reasons(rig: Rig, address: str) -> list[str]:
    """The reasons in the frame rows of a step."""
    one = rig.step(address)
    views = Views(rig.core.farm, rig.store)
    return [row.reason for row in views.frame_rows(one, range(one.units), rig.now_us)]


def test_each_frame_that_was_given_up_names_its_own() -> None:
    rig = Rig()
    rig.join("ant", 1)
    rig.submit(step("a", attempts=1), step("b", after=(AfterSpec(step="a", frames=True, on_failure="skip"),)))
    rig.act("skip", "J1/b/2", reason="not needed")
    for _ in range(4):
        rig.fail(rig.lease(), "renderer-setup")
    assert reasons(rig, "J1/b") == [
        "frame 1 of J1/a failed",
        "not needed",
        "frame 3 of J1/a failed",
        "frame 4 of J1/a failed",
    ]


def test_frames_left_out_earlier_keep_their_reason() -> None:
    rig = Rig()
    rig.submit(step("a"))
    rig.act("cancel", "J1/a/1-2", reason="too dark")
    rig.act("cancel", "J1/a", reason="all of it")
    assert reasons(rig, "J1/a") == ["too dark", "too dark", "all of it", "all of it"]
    rig.act("retry", "J1/a")
    rig.act("cancel", "J1/a", reason="again")
    assert reasons(rig, "J1/a") == ["again"] * 4
