"""What the broker says of a submitted job, beside what `farm submit` said of it on its own machine."""

from __future__ import annotations

import msgspec

from farm.broker.admission import admit
from farm.model.jobs import JobSpec
from farm.model.pathmap import PathMapper
from farm.model.roles import Role
from farm.sdk.jobfile import check_job_here
from tests.support.core_rig import step


def test_a_warning_has_the_same_words_on_both_sides() -> None:
    one = step(params={"command": ["true"]})
    spec = JobSpec(overcrank_job=1, name="job", steps=(one,), user="ann")
    here = check_job_here(spec, PathMapper(()))
    _, there = admit(msgspec.json.encode(spec), Role.ADMIN, "ann", 1)
    assert here == there, "`farm submit` prints what is said twice only once"
    assert len(there) == 1
    assert "the same for every frame" in there[0]
