"""Which node gets which work, and in what order: pools, attributes, versions, paths, priority."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.farmhouse import Farmhouse
from tests.support.real import require
from tests.support.truth import Ledger, Renders, assert_exactly_once, job_file
from tests.support.waiting import eventually


def test_pools_attributes_sites_and_versions_are_respected(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    house = new_house()
    house.agent("cpu", pool="cpu", site="berlin")
    house.agent("gpu", pool="gpu", attributes={"licence": "nuke"})
    house.wait_online()
    nodes = {row.name: row.node for row in house.nodes()}
    apps = [text for row in house.nodes() for text in row.apps]
    ffmpeg = next((match[1] for text in apps if (match := re.match(r"ffmpeg (\d+\.\d+)", text))), "")
    program = shutil.which("ffmpeg")
    require(ffmpeg and program, "ffmpeg", "install ffmpeg")
    assert program is not None
    wanted: dict[str, tuple[dict[str, Any], set[str]]] = {
        "pool": ({"pools": ["gpu"]}, {"gpu"}),
        "pools": ({"pools": ["gpu", "cpu"]}, {"gpu", "cpu"}),
        "attribute": ({"attributes": {"licence": "nuke"}}, {"gpu"}),
        "any-value": ({"attributes": {"licence": "*"}}, {"gpu"}),
        "site": ({"site": "berlin"}, {"cpu"}),
        "version": ({"version": f">={ffmpeg},<99"}, {"gpu", "cpu"}),
        # These no node can take.
        "no-pool": ({"pools": ["tape"]}, set()),
        "no-value": ({"attributes": {"licence": "maya"}}, set()),
        "no-site": ({"site": "paris"}, set()),
        "no-version": ({"version": ">=99"}, set()),
        "no-cores": ({"resources": {"cores": 64}}, set()),
        "no-memory": ({"resources": {"ram_mib": 1 << 20}}, set()),
        "no-gpu": ({"resources": {"gpus": 1}}, set()),
    }
    _test_pictures(program, f"{tmp_path}/in.%04d.png", 8)
    jobs: dict[str, int] = {}
    for name, (fields, able) in wanted.items():
        if "version" in name:
            step = {
                "name": "render",
                "renderer": "ffmpeg",
                "frames": "1-8",
                "chunk": 1,
                "params": {"input": f"{tmp_path}/in.####.png", "filter": "hue=s=0"},
                "outputs": [{"pattern": f"{tmp_path}/{name}/f.####.png"}],
            }
            jobs[name] = house.admin.submit(job_file(step | fields), force=not able).job
        else:
            work = Renders(tmp_path, name)
            jobs[name] = house.admin.submit(work.job("1-8", **fields), force=not able).job
    for name, (_, able) in wanted.items():
        if able:
            house.wait_job(jobs[name])
    ledger = Ledger(house.database)
    for name, (_, able) in wanted.items():
        used = {lease.node_id for lease in ledger.leases(jobs[name], "render").values()}
        assert used <= {nodes[node] for node in able}, f"{name} ran on nodes {used}"
        assert bool(used) == bool(able), name
        if not able:
            assert house.job(jobs[name]).state == "queued"
    # And one can ask why.
    said = house.farm("why", f"J{jobs['no-pool']}").stdout
    assert "is in pool cpu, not tape" in said
    assert "is in pool gpu, not tape" in said


def _test_pictures(program: str, pattern: str, count: int) -> None:
    source = ["-f", "lavfi", "-i", "testsrc=size=64x48:rate=1", "-frames:v", str(count)]
    subprocess.run([program, "-v", "error", "-y", *source, pattern], check=True, timeout=60)


def test_paths_are_mapped_on_the_agent(new_house: Callable[..., Farmhouse], tmp_path: Path) -> None:
    """A Windows artist's job, on agents that see the projects elsewhere; the agent's own rule comes first."""
    farm_root, own_root = tmp_path / "farm mount", tmp_path / "own mount"
    for root in (farm_root, own_root):
        (root / "in").mkdir(parents=True)
        (root / "in" / "plate.txt").write_text(f"{root.name}\n")
    folder = tmp_path / "farm"
    config = folder / "config" / "overcrank" / "test"
    config.mkdir(parents=True)
    (config / "farm.toml").write_text(f"[broker]\npath_rules = ['P:\\={farm_root}']\n")
    house = new_house(folder=folder)
    house.agent("a")
    house.wait_online()
    step = {
        "name": "render",
        "renderer": "command",
        "frames": "1-3",
        "chunk": 1,
        "params": {
            "command": ["/bin/sh", "-c", 'cat "$1" > "$2"', "sh", "{input}", "{output}"],
            "input": "P:\\in\\plate.txt",
        },
        "outputs": [{"pattern": "P:\\out\\größe\\f.####.txt"}],
    }
    number = house.admin.submit(job_file(step)).job
    house.wait_job(number)
    pattern = f"{farm_root}/out/größe/f.####.txt"
    assert_exactly_once(Ledger(house.database), number, pattern, "1-3", made_by_render=False)
    assert {path.read_text() for path in (farm_root / "out" / "größe").iterdir()} == {"farm mount\n"}

    house.agents["a"].stop()
    house.agents["a"].changed(path_rules=(("P:\\", str(own_root)),))
    house.agents["a"].start()
    house.wait_online()
    again = house.admin.submit(job_file(step)).job
    house.wait_job(again)
    assert {path.read_text() for path in (own_root / "out" / "größe").iterdir()} == {"own mount\n"}

    # A path that no rule covers is the job's own trouble, told by name, and no node's fault.
    step["outputs"] = [{"pattern": "Q:\\out\\f.####.txt"}]
    lost = house.admin.submit(job_file(step)).job
    row = house.wait_job(lost, "paused")
    assert "no path rule covers it" in row.reason
    assert house.node("a").enabled


def test_priority_then_age_decides_the_order(new_house: Callable[..., Farmhouse], tmp_path: Path) -> None:
    house = new_house()
    house.agent("a", cores=1)
    house.wait_online()
    first = Renders(tmp_path, "blocker")
    blocker = house.admin.submit(first.job("1", gated=True)).job
    eventually(first.begun, "the only core is taken")
    jobs = {}
    for name, priority in (("low", 20), ("old", 50), ("young", 50), ("high", 80), ("raised", 10)):
        work = Renders(tmp_path, name)
        jobs[name] = house.admin.submit(work.job("1-2", job={"priority": priority})).job
    house.admin.act("priority", f"J{jobs['raised']}", "90")
    first.open_gate()
    for number in (blocker, *jobs.values()):
        house.wait_job(number)
    ledger = Ledger(house.database)
    at = {name: sorted(ledger.leases(number, "render")) for name, number in jobs.items()}
    order = sorted((attempt, name) for name, attempts in at.items() for attempt in attempts)
    assert [name for _, name in order] == [
        name for name in ("raised", "high", "old", "young", "low") for _ in range(2)
    ]
