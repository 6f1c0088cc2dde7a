"""Names are data: blanks, quotes, ``%``, ``#``, umlauts, leading dashes in folders and files, end to end."""

from __future__ import annotations

import hashlib
import json
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from farm.media.probe import probe
from tests.support.farmhouse import Farmhouse
from tests.support.real import require
from tests.support.truth import Ledger, Renders, assert_exactly_once, expected_names, folder_names, job_file

FOLDERS = {
    "blanks": "two  blanks and a tab\tin it",
    "quotes": """it's "quoted" `back` $HOME $(id)""",
    "percent": "100% %d %04d %s %%",
    "hash": "#1 take ## 3",
    "umlauts": "Größe Ærø 漢字 🎬",
    "decomposed": unicodedata.normalize("NFD", "Größe"),
    "dash": "-rf",
    "brackets": "{frame} [0-9] * ? ! ~ & ; | < > \\ ^",
    "dots": "..hidden.. .",
}
FILES = {
    "blanks": "a frame  of .####.txt",
    "quotes": """it's "f" `x` $1.####.txt""",
    "percent": "50% %s.####.txt",
    "percent-d": "100%% of.%04d.txt",
    "hash": "shot #2.####.txt",
    "umlauts": "größe_漢字.####.txt",
    "dash": "-f.####.txt",
    "brackets": "{output}[1] *.####.txt",
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_any_folder_name_works(shared: Farmhouse, tmp_path: Path, folder: str) -> None:
    renders = Renders(tmp_path, FOLDERS[folder])
    number = shared.admin.submit(renders.job("1-2")).job
    shared.wait_job(number)
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "1-2")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "1-2")


@pytest.mark.parametrize("file", FILES)
def test_any_file_name_works(shared: Farmhouse, tmp_path: Path, file: str) -> None:
    renders = Renders(tmp_path, "-out", FILES[file])
    number = shared.admin.submit(renders.job("-1-2", chunk=2)).job
    shared.wait_job(number)
    assert_exactly_once(Ledger(shared.database), number, renders.pattern, "-1-2")
    assert folder_names(renders.pattern) == expected_names(renders.pattern, "-1-2")
    stem = FILES[file].replace("%04d", "####")
    for frame, digits in ((-1, "-001"), (0, "0000"), (2, "0002")):
        assert renders.file(frame).name == stem.replace("####", digits)


def test_a_long_name_is_the_job_s_own_trouble(shared: Farmhouse, tmp_path: Path) -> None:
    renders = Renders(tmp_path, "out", "x" * 300 + ".####.txt")
    number = shared.admin.submit(renders.job("1")).job
    row = shared.wait_job(number, lambda row: row.state in ("paused", "failed"))
    assert "File name too long" in row.reason or "name is too long" in row.reason or "exit code" in row.reason
    assert all(node.enabled for node in shared.nodes())


def test_real_programs_and_the_command_line_with_odd_names(
    new_house: Callable[..., Farmhouse], tmp_path: Path
) -> None:
    """The whole way: farm's own home, scratch, input, filter, movie, and every verb that names them."""
    ffmpeg = shutil.which("ffmpeg")
    require(ffmpeg, "ffmpeg", "install ffmpeg")
    assert ffmpeg is not None
    odd = tmp_path / """-it's "50%" #1 größe"""
    house = new_house(folder=odd / "the farm")
    house.agent("größe 100% #1", scratch=str(odd / "scratch %d"))
    house.wait_online()
    raw = f"""{odd}/-raw #2/it's %s "f".####.png"""
    grey = f"{odd}/grey %d/-g.####.png"
    film = f"""{odd}/-the "film" 100% #1 ä.mkv"""
    job = job_file(
        {
            "name": "render",
            "renderer": "command",
            "frames": "1-4",
            "params": {
                "command": [
                    *(ffmpeg, "-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=24"),
                    *("-frames:v", "1", "-pix_fmt", "rgb24", "-update", "1", "{output}"),
                ],
            },
            "outputs": [{"pattern": raw}],
        },
        {
            "name": "grade",
            "renderer": "ffmpeg",
            "frames": "1-4",
            "after": ["render"],
            "params": {"input": {"step": "render", "output": 0}, "filter": "hue=s=0"},
            "outputs": [{"pattern": grey}],
        },
        {
            "name": "film",
            "kind": "single",
            "renderer": "stitch",
            "after": ["grade"],
            "params": {"input": {"step": "grade", "output": 0}, "rate": "24/1", "encode": "ffv1"},
            "outputs": [{"pattern": film, "kind": "movie"}],
        },
        name="""-a 'job' "100%" #1 größe""",
        project="-p %d",
    )
    file = odd / "-job %s.json"
    file.write_bytes(job)
    sent = house.farm("submit", f"./{file.name}", "--json", cwd=odd)
    assert sent.returncode == 0, sent.stderr + sent.stdout
    number = json.loads(sent.stdout)["job"]["number"]
    house.wait_job(number)
    ledger = Ledger(house.database)
    assert_exactly_once(ledger, number, raw, "1-4", made_by_render=False)
    assert_exactly_once(ledger, number, grey, "1-4", step="grade", made_by_render=False)
    (commit,) = ledger.commits(number, "film")[0]
    (facts,) = commit.facts
    assert (facts.path, facts.frames) == (film, 4)
    assert facts.sha256 == hashlib.sha256(Path(film).read_bytes()).hexdigest()
    assert probe(Path(film))

    told = json.loads(house.farm("frames", f"J{number}/grade", "--json").stdout)
    assert [row["files"] for row in told["frames"]] == [
        [grey.replace("####", f"{n:04d}")] for n in range(1, 5)
    ]
    jobs = json.loads(house.farm("jobs", "--json").stdout)["jobs"]
    assert jobs[0]["name"] == """-a 'job' "100%" #1 größe"""
    assert "größe 100% #1" in house.farm("nodes").stdout
    drained = house.farm("node", "drain", "größe 100% #1", "--reason", "-x %s #")
    assert drained.returncode == 0, drained.stderr
    assert house.node("größe 100% #1").reason == "-x %s #"
    log = house.farm("log", f"J{number}/grade/2")
    assert log.returncode == 0
    assert "-g.0002.png" in log.stdout
    assert house.farm("verify", grey.replace("####", "0001")).returncode == 0
