"""Pages written by hand are held against the code: examples are played, lists and figures are compared."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from farm.core import chunks, invariants, pace
from farm.core.events import PolicyEvent
from farm.core.shares import UNIT
from farm.model import failures
from farm.model.jobs import AfterSpec, FailureSpec, JobSpec, StepSpec
from farm.model.orders import ORDERS
from farm.model.policy import Policy
from farm.model.resources import Resources
from tests.support.core_rig import Rig, step

PAGE = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text(encoding="utf-8")


def numbered(text: str) -> list[str]:
    """Items of a numbered list that ends the text, white space made plain."""
    found = re.split(r"\n\s*(?=\d+\. )", "\n" + text.strip())
    return [" ".join(item.split()) for item in found if re.match(r"\d+\. ", item)]


def test_the_list_of_invariants_is_the_one_that_is_checked() -> None:
    checked = numbered((invariants.check.__doc__ or "").partition("\n\n")[2])
    assert len(checked) >= 9
    assert numbered(PAGE.partition("## What always holds")[2]) == checked


def test_the_example_of_fair_share_is_what_the_scheduler_does() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) of (\w+) \| ([\d.]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    assert len(rows) >= 8
    rig = Rig()
    rig.handle(PolicyEvent(rig.now_us, Policy(projects={"film": 3}), "", "lee"))
    rig.join("ws-1", 8)
    for user, project in (("ann", "film"), ("kim", "film"), ("bob", "advert")):
        rig.submit(
            step("beauty", "1-100", resources=Resources(cores=8)), user=user, project=project, priority=50
        )
    for number, user, project, film, advert in rows:
        lease = rig.lease()
        rig.now_us += 450_000_000
        rig.done(lease, elapsed_s=450.0)
        assert (lease.step.job.user, lease.step.job.project) == (user, project), f"chunk {number}"
        levels = {a.name: a.level / UNIT / 3.6e6 for a in rig.core.farm.projects.values()}
        assert f"{levels['film']:.2f}" == film, f"chunk {number}"
        assert f"{levels['advert']:.2f}" == advert, f"chunk {number}"


@pytest.mark.parametrize(
    "words",
    [
        f"`half_life_h` ({Policy().half_life_h:g} hours)",
        f"`reserve_after_s` ({Policy().reserve_after_s:g} s)",
        f"`tail.straggler` ({Policy().tail.straggler:g})",
        f"`tail.least_s` ({Policy().tail.least_s:g} s)",
    ],
)
def test_the_figures_of_the_policy_are_its_defaults(words: str) -> None:
    assert words in " ".join(PAGE.split())


def test_figures_of_the_code_are_what_the_page_says() -> None:
    words = {1: "one", 2: "twice", 3: "three", 5: "five", 8: "eight", 10: "a tenth", 16: "sixteenths"}
    text = " ".join(PAGE.split())
    assert f"once {words[chunks.SCOUTS]} are out" in text
    assert f"more than {words[int(chunks.STARTS_WORTH)]} of the chunk" in text
    assert f"up to {words[int(chunks.TARGETS_MOST)]} targets" in text
    assert f"under {words[int(chunks.STARTS_LEAST)]} its start-up" in text
    assert chunks.PREEMPTIBLE_PART == 0.25
    assert "a quarter of it" in text
    assert chunks.TAIL_PART == 0.5
    assert "half of what waits for each slot" in text
    assert f"by {words[pace.PLACES]} of the step" in text
    assert f"did not fail there {words[failures.NODE_FAILURES_PER_STEP]} times" in text


def test_every_field_of_the_policy_and_every_order_is_explained_somewhere() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "admin-guide.md").read_text(encoding="utf-8")
    for field in msgspec.structs.fields(Policy):
        kind = field.type
        names = [field.name]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            names = [f"{field.name}.{inner}" for inner in kind.__struct_fields__]
        for name in names:
            assert f"`{name}" in PAGE or f"`{name}" in guide, name
    for order in ORDERS:
        assert f"`{order}" in PAGE, order


def test_every_key_of_a_job_file_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "job-file.md").read_text(encoding="utf-8")
    for kind in (JobSpec, StepSpec, AfterSpec, FailureSpec, Resources):
        for key in kind.__struct_fields__:
            assert f"`{key}`" in page, f"{kind.__name__}.{key}"
