"""What the agent finds on its machine: cores, memory, GPUs, applications."""

from __future__ import annotations

import os
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.model.errors import CallError, StorageError
from farm.renderers.base import AppInstall
from node_agent.apps import ask_blender, find_blenders, probe_apps, wheel_version
from node_agent.probe import (
    GpuFacts,
    HardwareFacts,
    disk_free_mib,
    probe_gpus,
    probe_hardware,
    slice_facts,
    usable_cores,
    usable_ram_mib,
)

# -- hardware -----------------------------------------------------------------------------------------


def test_this_machine_is_described(tmp_path: Path) -> None:
    facts = probe_hardware(tmp_path / "not" / "made" / "yet")
    assert 1 <= facts.cores <= (os.cpu_count() or 1)
    assert 0 < facts.ram_mib <= psutil.virtual_memory().total >> 20
    assert facts.disk_free_mib > 0
    assert facts.hostname
    assert facts.kernel == os.uname().release
    assert len(facts.boot_id) == 36
    assert facts.os
    raw = Path("/etc/machine-id")
    if raw.exists() and raw.read_text().strip():
        assert len(facts.machine_id) == 32
        assert raw.read_text().strip() not in facts.machine_id
    assert msgspec.json.decode(msgspec.json.encode(facts), type=HardwareFacts) == facts


def test_cores_respect_affinity() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def cgroup(tmp_path: Path, own: str, **files: str) -> dict[str, Path]:
    """A proc and a cgroup v2 folder with the given files (``a__b__cpu_max`` is a/b/cpu.max)."""
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "self" / "cgroup").write_text(f"4:memory:/old/v1\n0::{own}\n")
    for name, text in files.items():
        *folders, file = name.split("__")
        folder = root.joinpath(*folders)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file.replace("_", ".")).write_text(text + "\n")
    return {"proc": proc, "cgroups": root}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"a__b__cpu_max": "100000 100000"}, 1),
        ({"a__b__cpu_max": "max 100000"}, None),
        ({"a__b__cpu_max": "50000 100000"}, 1),  # less than one is still one
        ({"a__cpu_max": "100000 100000", "a__b__cpu_max": "max 100000"}, 1),  # a parent's limit holds
        ({"cpu_max": "100000 100000"}, 1),  # in a container only the root is ours
        ({"a__b__cpu_max": "99900000 100000"}, None),  # a quota beyond the machine adds nothing
        ({"a__b__cpu_max": "rubbish"}, None),
        ({"elsewhere__cpu_max": "100000 100000"}, None),
    ],
)
def test_cores_respect_the_container_s_quota(
    tmp_path: Path, files: dict[str, str], cores: int | None
) -> None:
    expected = len(os.sched_getaffinity(0)) if cores is None else cores
    assert usable_cores(**cgroup(tmp_path, "/a/b", **files)) == expected


@pytest.mark.parametrize(
    ("files", "mib"),
    [
        ({"a__memory_max": str(600 << 20), "a__b__memory_max": str(700 << 20)}, 600),
        ({"a__memory_max": "max", "a__b__memory_max": str(512 << 20)}, 512),
        ({"memory_max": "max"}, None),
        ({}, None),
    ],
)
def test_memory_respects_the_smallest_limit_above(
    tmp_path: Path, files: dict[str, str], mib: int | None
) -> None:
    total = psutil.virtual_memory().total >> 20
    assert usable_ram_mib(**cgroup(tmp_path, "/a/b", **files)) == (total if mib is None else mib)


def test_a_disk_that_cannot_be_looked_at_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(path: Path) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(os, "statvfs", broken)
    with pytest.raises(StorageError, match=f"{tmp_path}.*Stale file handle"):
        disk_free_mib(tmp_path)


# -- GPUs ---------------------------------------------------------------------------------------------


class LibraryMissing(Exception):
    """Stands for NVMLError_LibraryNotFound."""


class FakeNvml:
    """The few calls of pynvml we make; a GPU is (uuid, name, MiB), any of which may be an exception."""

    NVMLError_LibraryNotFound = LibraryMissing
    NVMLError_DriverNotLoaded = LibraryMissing

    def __init__(self, *gpus: Any, init: Exception | None = None) -> None:
        self.gpus, self.init, self.open = gpus, init, 0

    def nvmlInit(self) -> None:  # noqa: N802
        if self.init:
            raise self.init
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:  # noqa: N802
        return self.told(self.gpus[index])

    def nvmlDeviceGetUUID(self, handle: Any) -> Any:  # noqa: N802
        return self.told(handle[0])

    def nvmlDeviceGetName(self, handle: Any) -> Any:  # noqa: N802
        return self.told(handle[1])

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:  # noqa: N802
        return types.SimpleNamespace(total=self.told(handle[2]) << 20)

    @staticmethod
    def told(value: Any) -> Any:
        if isinstance(value, Exception):
            raise value
        return value


def test_text_and_bytes_of_old_and_new_bindings_read_the_same() -> None:
    nvml = FakeNvml((b"GPU-1", b"Tesla K80", 11441), ("GPU-2", "NVIDIA H200", 143771))
    assert probe_gpus(nvml) == (
        (GpuFacts(0, "GPU-1", "Tesla K80", 11441), GpuFacts(1, "GPU-2", "NVIDIA H200", 143771)),
        (),
    )
    assert nvml.open == 0


def test_one_bad_gpu_hides_no_other_and_is_told() -> None:
    nvml = FakeNvml(
        ("GPU-1", "A", 1000),
        RuntimeError("GPU is lost"),
        (RuntimeError("no permission"), "B", 1000),
        ("GPU-4", RuntimeError("Unknown Error"), RuntimeError("Not Supported")),
        ("GPU-5", "C", 2000),
    )
    gpus, notes = probe_gpus(nvml)
    assert [(gpu.index, gpu.uuid, gpu.vram_mib) for gpu in gpus] == [
        (0, "GPU-1", 1000),
        (3, "GPU-4", 0),
        (4, "GPU-5", 2000),
    ]
    assert [note.split(" ")[1] for note in notes] == ["1", "2", "3", "3"]
    assert "GPU is lost" in notes[0]
    assert nvml.open == 0


def test_no_driver_is_normal_but_a_broken_one_is_told() -> None:
    assert probe_gpus(FakeNvml(init=LibraryMissing())) == ((), ())
    gpus, notes = probe_gpus(FakeNvml(init=RuntimeError("Driver/library version mismatch")))
    assert gpus == ()
    assert "version mismatch" in notes[0]


def test_the_retired_package_of_the_same_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    impostor = types.ModuleType("pynvml")
    impostor.__file__ = "/site-packages/pynvml/__init__.py"
    monkeypatch.setitem(sys.modules, "pynvml", impostor)
    gpus, notes = probe_gpus()
    assert gpus == ()
    assert "nvidia-ml-py" in notes[0]
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed at all
    assert probe_gpus() == ((), ())


def test_the_real_binding_does_not_raise_here() -> None:
    gpus, notes = probe_gpus()
    assert all(gpu.uuid and gpu.name for gpu in gpus)
    assert all(isinstance(note, str) for note in notes)


# -- slices -------------------------------------------------------------------------------------------


@given(st.integers(1, 64), st.integers(0, 100_000), st.integers(0, 9), st.integers(1, 64))
def test_slices_deal_out_everything_once(cores: int, ram_mib: int, gpus: int, count: int) -> None:
    cards = tuple(GpuFacts(index, f"GPU-{index}", "card", 1000 + index) for index in range(gpus))
    whole = HardwareFacts(cores=cores, ram_mib=ram_mib, gpus=cards, hostname="h", disk_free_mib=7)
    if count > cores:
        with pytest.raises(CallError):
            slice_facts(whole, 0, count)
        return
    parts = [slice_facts(whole, index, count) for index in range(count)]
    assert sum(part.cores for part in parts) == cores
    assert sum(part.ram_mib for part in parts) == ram_mib
    assert tuple(gpu for part in parts for gpu in part.gpus) == cards
    assert max(p.cores for p in parts) - min(p.cores for p in parts) <= 1
    assert all(part.disk_free_mib == 7 and part.hostname == "h" for part in parts)
    for part in parts:
        offered = part.resources()
        assert (offered.cores, offered.ram_mib, offered.gpus) == (part.cores, part.ram_mib, len(part.gpus))
        assert offered.vram_mib == (part.gpus[0].vram_mib if part.gpus else 0)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_slice_that_is_not_there_is_refused(index: int) -> None:
    with pytest.raises(CallError, match=f"slice {index} of 2"):
        slice_facts(HardwareFacts(cores=4, ram_mib=100), index, 2)


# -- applications -------------------------------------------------------------------------------------


def blender(folder: Path, version: str, *, body: str = "", name: str = "blender") -> Path:
    """A stand-in Blender that counts its starts in ``starts``."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    body = body or f"echo 'Warning: a library speaks first'; echo 'Blender {version}'; echo '\tbuild date: x'"
    file.write_text(f"#!/bin/sh\necho x >> {folder}/starts\n{textwrap.dedent(body)}\n")
    file.chmod(0o755)
    return file


def starts(program: Path) -> int:
    file = program.parent / "starts"
    return len(file.read_text().split()) if file.exists() else 0


def test_several_versions_are_found_newest_first_and_one_file_counts_once(tmp_path: Path) -> None:
    on_path = blender(tmp_path / "bin", "3.4.1")
    (tmp_path / "bin2").mkdir()
    (tmp_path / "bin2" / "blender").symlink_to(on_path)
    old = blender(tmp_path / "opt" / "blender-2.93", "2.93.18")
    new = blender(tmp_path / "opt" / "blender-4.10-linux-x64", "4.10.0")
    single = blender(tmp_path / "mine", "4.2.0", name="blender-lts")
    (tmp_path / "bin3").mkdir()
    (tmp_path / "bin3" / "blender").write_text("not executable")
    found = find_blenders(
        [tmp_path / "opt", single, tmp_path / "bin", tmp_path / "missing"],
        path=f"{tmp_path}/bin:{tmp_path}/bin2:{tmp_path}/bin3::/nowhere",
    )
    assert found == [
        AppInstall("blender", version, (str(program),))
        for version, program in [
            ("4.10.0", new),
            ("4.2.0", single),
            ("3.4.1", on_path),
            ("2.93.18", old),
        ]
    ]


def test_versions_are_remembered_until_the_file_changes(tmp_path: Path) -> None:
    program, cache = blender(tmp_path / "b", "3.6.0"), tmp_path / "cache" / "apps.json"
    for _ in range(3):
        (app,) = find_blenders([program], cache=cache, path="")
        assert app.version == "3.6.0"
    assert starts(program) == 1
    blender(tmp_path / "b", "3.6.12")
    (app,) = find_blenders([program], cache=cache, path="")
    assert app.version == "3.6.12"
    assert starts(program) == 2
    cache.write_text("{broken")
    (app,) = find_blenders([program], cache=cache, path="")
    assert (app.version, starts(program)) == ("3.6.12", 3)
    assert sorted(path.name for path in cache.parent.iterdir()) == ["apps.json"]
    program.unlink()
    assert find_blenders([program], cache=cache, path="") == []
    assert msgspec.json.decode(cache.read_bytes()) == {}


def test_a_blender_that_does_not_answer_is_left_out_and_asked_again(tmp_path: Path) -> None:
    cache = tmp_path / "apps.json"
    dead = blender(tmp_path / "dead", "", body="echo 'error while loading shared libraries'; exit 127")
    for _ in range(2):
        assert find_blenders([dead], cache=cache, path="") == []
    assert starts(dead) == 2
    hung = blender(tmp_path / "hung", "", body="exec sleep 600")
    assert ask_blender(hung, timeout_s=0.2) == ""
    assert ask_blender(tmp_path / "none") == ""


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    program = blender(tmp_path / "b", "3.6.0")
    (tmp_path / "file").write_text("")
    (app,) = find_blenders([program], cache=tmp_path / "file" / "apps.json", path="")
    assert app.version == "3.6.0"


def test_wheels_stand_in_for_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, version in (("bpy", "4.2.0"), ("mitsuba", "3.7.1")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    apps = probe_apps(path="")
    assert AppInstall("blender", "4.2.0", (sys.executable,), "bpy") in apps
    assert AppInstall("mitsuba", "3.7.1", (sys.executable,)) in apps
    assert wheel_version("no-such-distribution-here") == ""


def test_a_pinned_ffmpeg_that_is_missing_is_no_ffmpeg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OVERCRANK_FFMPEG", "/no/such/ffmpeg")
    assert not [app for app in probe_apps(path="") if app.name == "ffmpeg"]
