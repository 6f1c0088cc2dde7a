"""The demo's soundtrack: a few plucked notes, made by arithmetic, written with the standard library."""

from __future__ import annotations

import math
import struct
import wave
from pathlib import Path

RATE_HZ = 48_000
_NOTES_HZ = (261.63, 329.63, 392.00, 523.25, 392.00, 329.63)
_NOTE_S = 0.25


def write_soundtrack(path: Path, seconds: float) -> None:
    """Writes a 16-bit mono WAV of that length."""
    total = round(seconds * RATE_HZ)
    samples = []
    for index in range(total):
        at_s = index / RATE_HZ
        number, since_s = divmod(at_s, _NOTE_S)
        pitch = _NOTES_HZ[int(number) % len(_NOTES_HZ)]
        loudness = math.exp(-5.0 * since_s) * min(1.0, (total - index) / (0.2 * RATE_HZ))
        tone = math.sin(2 * math.pi * pitch * since_s) + 0.3 * math.sin(4 * math.pi * pitch * since_s)
        samples.append(round(11_000 * loudness * tone))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(struct.pack(f"<{total}h", *samples))
