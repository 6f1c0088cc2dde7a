"""The verbs about files, on real pictures and a real movie."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.cli.main import main


@pytest.fixture
def shot(tmp_path: Path) -> Path:
    for frame in range(1, 7):
        image = np.zeros((32, 64, 3), np.uint8)
        image[:, frame * 8 : frame * 8 + 8] = 200
        output = oiio.ImageOutput.create("shot.png")
        path = str(tmp_path / f"shot.{frame:04d}.png")
        assert output.open(path, oiio.ImageSpec(64, 32, 3, "uint8"))
        assert output.write_image(image)
        output.close()
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_probe(shot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(shot / "shot.0001.png")
    code, out, _ = call(capsys, "probe", path)
    assert code == 0
    assert "64x32, channels R,G,B, samples uint8" in out
    code, out, _ = call(capsys, "probe", path, str(shot / "none.png"), "--json")
    assert code == 1
    files = json.loads(out)["files"]
    assert (files[0]["width"], files[0]["kind"]) == (64, "picture")
    assert "error" in files[1]


def test_verify_finds_the_cut_off_frame(shot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = str(shot / "shot.####.png")
    assert call(capsys, "verify", pattern)[0] == 0
    victim = shot / "shot.0003.png"
    victim.write_bytes(victim.read_bytes()[:-40])
    code, out, _ = call(capsys, "verify", pattern, "--json")
    document = json.loads(out)
    assert (code, document["bad"]) == (1, 1)
    assert [row["ok"] for row in document["files"]] == [True, True, False, True, True, True]
    code, out, _ = call(capsys, "verify", pattern, "--frames", "1-7")
    assert code == 1
    assert out.splitlines()[-1] == "7 files, 2 bad"


def test_compare(shot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = str(shot / "shot.0001.png"), str(shot / "shot.0002.png")
    assert call(capsys, "compare", one, one)[:2] == (0, "identical\n")
    code, out, _ = call(capsys, "compare", one, two)
    assert code == 1
    assert out.startswith("different: largest 0.784314")
    assert call(capsys, "compare", one, two, "--max-abs", "1")[0] == 0
    code, _, err = call(capsys, "compare", one, str(shot))
    assert (code, err[:5]) in ((1, "farm:"), (2, "farm:"))


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg on the path")
def test_stitch_makes_a_verified_movie_in_order(shot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    film = shot / "film.mp4"
    code, out, err = call(capsys, "stitch", str(shot / "shot.####.png"), "-o", str(film), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["frames"] == 6
    code, out, _ = call(capsys, "probe", str(film))
    assert "6 frames" in out
    (shot / "shot.0004.png").unlink()
    code, _, err = call(capsys, "stitch", str(shot / "shot.####.png"), "-o", str(shot / "again.mp4"))
    assert code == 2
    assert "lacks frames 4" in err
    assert not (shot / "again.mp4").exists()
