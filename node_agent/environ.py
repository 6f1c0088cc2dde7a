"""The clean environment of a renderer's process.

What belongs here: which variables a process of a step sees.  What it may not know: how it is started.

Built from a short list, never copied from the agent's own: what the agent's service was given (keys, tokens,
addresses) is none of the renderer's business, and a step renders the same on every node.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

#: Taken over from the agent: where programs and libraries lie, who the account is.
PASSED = ("PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "TZ")
#: Variables that tell thread pools how many cores the lease has.
THREADS = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "OPENIMAGEIO_THREADS"),
)


def own_environment() -> dict[str, str]:
    """What processes are given of the agent's own environment."""
    return {name: value for name in PASSED if (value := os.environ.get(name))}


def clean_environment(
    *,
    cores: int,
    gpus: Sequence[int],
    scratch: str,
    facts: Mapping[str, str],
    step_env: Mapping[str, str],
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a step's processes.

    Args:
        cores: Cores of the lease.
        gpus: CUDA indices of the lease; none hides every GPU.
        scratch: Folder for temporary files.
        facts: What the step is told about itself (``JOB``, ``FRAMES`` ...), without ``OVERCRANK_``.
        step_env: The step's own variables; they win, except over those of the farm.
        own: The agent's environment; the process's when None.
    """
    mine = os.environ if own is None else own
    env = {name: value for name in PASSED if (value := mine.get(name))}
    env.setdefault("PATH", os.defpath)
    env.setdefault("HOME", scratch)
    env["LANG"] = env["LC_ALL"] = "C.UTF-8"
    env["TMPDIR"] = scratch
    env.update((name, str(max(1, cores))) for name in THREADS)
    env.update((name, value) for name, value in step_env.items() if not name.startswith("OVERCRANK_"))
    # After the step's own: a job may not take GPUs that were leased to another.
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    env["CUDA_VISIBLE_DEVICES"] = ",".join(str(index) for index in gpus)
    env.update((f"OVERCRANK_{name}", value) for name, value in facts.items())
    return env
