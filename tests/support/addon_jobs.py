"""What the add-on makes of a scene, for tests: the job and the messages.

What belongs here: asking the add-on, and the farm's own reader.  What may not: anything a test proves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from farm.model.jobs import read_job
from farm.sdk.jobfile import check_job_here
from tests.support.addon import Addon


def built(addon: Addon, shot: dict[str, Any], **chosen: Any) -> dict[str, Any]:
    """The job, which the farm's own reader and the renderers must take without a word."""
    document: dict[str, Any] = addon.job.build(shot, addon.job.DEFAULTS | chosen, shot["file"])
    job, warnings = read_job(json.dumps(document))
    assert warnings == []
    assert check_job_here(job) == []
    return document


def patterns(document: dict[str, Any]) -> list[str]:
    """Names of the sequences that a job writes."""
    return [
        Path(output["pattern"]).name
        for step in document["steps"]
        for output in step["outputs"]
        if output["kind"] == "sequence"
    ]


def said(
    addon: Addon, shot: dict[str, Any], changed: bool | list[str] = False, **chosen: Any
) -> dict[str, tuple[str, str]]:
    """Messages by their code."""
    found = addon.checks.check(shot, addon.job.DEFAULTS | chosen, changed)
    return {message.code: (message.severity, str(message)) for message in found}
