"""An agent joined to a far end in this process: no sockets, real programs and files.

What belongs here: the rig that starts an agent, steps and pictures for it, and questions about what it left.
What may not: what the far end says (``agent_far_end``), and more of the agent's inside than its constructor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import OpenImageIO as oiio  # noqa: N813 - the name all its documentation uses

from farm.model.outputs import PictureSpec
from farm.protocol.agent import OutputPlan, StepTemplate
from farm.renderers.registry import get_renderer
from node_agent.agent import Agent
from node_agent.options import AgentOptions
from node_agent.outputs import Hooks
from node_agent.plan import Site
from node_agent.probe import HardwareFacts
from tests.support.agent_far_end import FakeBroker
from tests.support.waiting import PATIENCE_S, eventually


class Rig:
    """An agent on a fake broker; a context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        broker: FakeBroker | None = None,
        find: Callable[[str], Any] = get_renderer,
        hooks: Hooks | None = None,
        ram_mib: int = 4096,
        **options: Any,
    ) -> None:
        self.broker = broker or FakeBroker()
        self.options = AgentOptions(
            name="node",
            state_dir=str(folder / "state"),
            control="",
            bulk="",
            key_file="",
            broker_key="",
            preview_px=0,
            **options,
        )
        self.agent = Agent(
            self.options,
            control=self.broker.line,
            bulk=self.broker.bulk,
            planner_site=Site(find=find, slice_cores=2, hooks=hooks or Hooks()),
            hardware=HardwareFacts(cores=2, ram_mib=ram_mib),
        )

    def __enter__(self) -> Rig:
        self.agent.start()
        self.broker.wait_for(lambda: self.broker.beats, "the first heartbeat")
        return self

    def __exit__(self, *error: object) -> None:
        self.agent.force()
        assert self.agent.desk.wait_idle(PATIENCE_S)
        self.agent.close(patience_s=1.0)


def python_step(
    code: str, *arguments: str, outputs: Iterable[str] = (), kind: str = "per_frame", **fields: Any
) -> StepTemplate:
    """A step of the ``command`` renderer that runs Python code; tokens only in the arguments."""
    code = code.replace("{", "{{").replace("}", "}}")
    return StepTemplate(
        job=fields.pop("job", 12),
        step=fields.pop("step", "beauty"),
        kind=kind,
        renderer="command",
        params={"command": [sys.executable, "-S", "-c", code, *arguments]},
        outputs=tuple(
            OutputPlan(pattern, "sequence" if kind == "per_frame" or "####" in pattern else "single")
            for pattern in outputs
        ),
        frames=fields.pop("frames", "1-100" if kind == "per_frame" else ""),
        user="ada",
        project="film",
        **fields,
    )


def make_picture(path: Path, value: float = 0.5, size: tuple[int, int] = (32, 16)) -> Path:
    """Writes a small PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = oiio.ImageSpec(size[0], size[1], 3, "uint8")
    out = oiio.ImageOutput.create(str(path))
    assert out is not None
    assert out.open(str(path), spec)
    rng = np.random.default_rng(int(value * 1000))
    out.write_image(rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))
    out.close()
    return path


PNG_SPEC = PictureSpec(width=32, height=16, channels=("R", "G", "B"), formats=("uint8",) * 3)

#: Copies a file to the output: argv source, target.
COPY = "import sys, shutil; shutil.copyfile(sys.argv[1], sys.argv[2])"


def wait_for_file(path: Path) -> str:
    """Code by which a program waits until the test makes a file."""
    return f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.01)\n"


def programs_run(rig: Rig, count: int = 1) -> None:
    """Waits until so many programs run."""
    attempts = rig.agent._attempts
    eventually(lambda: sum(1 for a in list(attempts.values()) if a.pid) == count, f"{count} programs run")


def folders_left(folder: Path) -> list[str]:
    """Attempt folders in a destination."""
    return sorted(entry.name for entry in folder.glob(".overcrank-*")) if folder.is_dir() else []
