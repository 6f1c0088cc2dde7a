"""The answers of `farm why` in docs/why.md are what the farm says, and cover what people ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_of_reasons_is_what_the_farm_says() -> None:
    """Every situation is made again on a real broker, every answer asked for anew and compared."""
    done = subprocess.run(
        [sys.executable, "docs/why_situations.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
    )
    assert done.returncode == 0, done.stdout + done.stderr
