"""Decoding in processes of its own: facts as in-process, and no file can take the agent down."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy
import OpenImageIO as oiio  # noqa: N813
import pytest

from farm.media.verify import verify_file
from farm.media.worker import VerifyRequest, write_message
from farm.model.errors import OutputError, OvercrankError
from node_agent.pixels import Pixels
from tests.support.waiting import PATIENCE_S


def picture(path: Path, size: int = 16) -> Path:
    spec = oiio.ImageSpec(size, size, 3, "uint8")
    out = oiio.ImageOutput.create(str(path))
    assert out.open(str(path), spec)
    assert out.write_image(numpy.full((size, size, 3), 90, dtype=numpy.uint8))
    out.close()
    return path


@pytest.fixture
def pixels():
    pool = Pixels()
    yield pool
    pool.close()


def test_the_facts_are_those_of_the_verifier(pixels: Pixels, tmp_path: Path) -> None:
    path = picture(tmp_path / "ä %d #1.png")
    assert pixels.verify(str(path), None) == verify_file(path)
    other = picture(tmp_path / "b.png", 8)
    with pytest.raises(OutputError, match="8x8, not 16x16"):
        pixels.verify(str(other), None, expected=verify_file(path).spec)


def test_a_bad_file_is_told_and_the_process_goes_on(pixels: Pixels, tmp_path: Path) -> None:
    good, bad = picture(tmp_path / "good.png"), tmp_path / "bad.png"
    bad.write_bytes(good.read_bytes()[:60])
    with pytest.raises(OutputError, match="bad"):
        pixels.verify(str(bad), None)
    with pytest.raises(OutputError, match=r"does not exist|missing|no such"):
        pixels.verify(str(tmp_path / "none.png"), None)
    assert pixels.verify(str(good), None).size == good.stat().st_size


def test_files_of_no_known_kind_need_no_process(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x", encoding="utf-8")
    pool = Pixels(argv=("/does/not/exist",))
    assert pool.verify(str(path), None).size == 1
    pool.close()


CRASH = "import os, sys; sys.stdin.buffer.read(8); os.kill(os.getpid(), 11)"


def test_a_file_that_crashes_its_decoder_is_a_bad_file(tmp_path: Path) -> None:
    pool = Pixels(argv=(sys.executable, "-c", CRASH))
    with pytest.raises(OutputError, match=r"crashed its decoder .SIGSEGV"):
        pool.verify(str(picture(tmp_path / "a.png")), None)
    pool.close()


def test_a_decoder_that_never_answers_is_ended(tmp_path: Path) -> None:
    hang = "import sys, threading; sys.stdin.buffer.read(8); threading.Event().wait()"
    pool = Pixels(argv=(sys.executable, "-c", hang), picture_s=0.2)
    with pytest.raises(OutputError, match="took longer"):
        pool.verify(str(picture(tmp_path / "a.png")), None)
    pool.close()


def test_a_process_that_ended_for_idleness_is_replaced(pixels: Pixels, tmp_path: Path) -> None:
    path = picture(tmp_path / "a.png")
    pixels.verify(str(path), None)
    (worker,) = pixels._idle
    worker._process.stdin.close()
    worker._process.wait(PATIENCE_S)
    assert pixels.verify(str(path), None).size == path.stat().st_size


def test_a_decoder_whose_agent_was_killed_ends_without_a_word(tmp_path: Path) -> None:
    """It finds out when it answers; its standard error is the agent's log."""
    argv = [sys.executable, "-m", "farm.media.worker"]
    worker = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdout.close()
    write_message(worker.stdin, VerifyRequest(str(picture(tmp_path / "a.png"))))  # type: ignore[arg-type]
    _, said = worker.communicate(timeout=30)
    assert (worker.returncode, said) == (0, b"")


def test_threads_ask_at_once_and_each_gets_its_own_answer(pixels: Pixels, tmp_path: Path) -> None:
    paths = [picture(tmp_path / f"{size}.png", size) for size in (8, 16, 24, 32)]
    found: dict[int, int] = {}

    def ask(index: int) -> None:
        for _ in range(5):
            facts = pixels.verify(str(paths[index]), None)
            assert facts.spec is not None
            found[index] = facts.spec.width

    threads = [threading.Thread(target=ask, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: 8, 1: 16, 2: 24, 3: 32}
    assert len(pixels._idle) <= 2


def test_previews_are_made_too(pixels: Pixels, tmp_path: Path) -> None:
    target = tmp_path / "p.jpg"
    pixels.preview(str(picture(tmp_path / "a.png", 64)), target, max_px=32)
    assert verify_file(target).spec.width == 32
    with pytest.raises(OvercrankError):
        pixels.preview(str(tmp_path / "none.png"), target, max_px=32)
