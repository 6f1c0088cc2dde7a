"""What a served farm shows beside its work: how busy machines look, what logs say, what pictures look like.

What belongs here: drawing all of that, the same for the same seed and frame.  What may not: sending it
(``farm.sim.serve``), and anything the broker schedules by.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any, Final

from farm.model.nodes import GpuInfo, GpuLoad

#: Size of a preview in pixels.
WIDTH: Final = 480
HEIGHT: Final = 270
#: How far down the ground begins.
_GROUND: Final = 0.78
#: What a process has in memory that asked for nothing.
_SMALL_MIB: Final = 1500
_ERRORS: Final = (
    "CUDA error: an illegal memory access was encountered in cuMemcpyDtoHAsync",
    "texture '/show/tex/wall_dif_4k.exr' could not be opened: No such file or directory",
    "segmentation fault (core dumped)",
    "mesh 'hair_01' has no UV map 'UVMap', and its material needs one",
)


def chance(*what: object) -> float:
    """A figure from 0 to 1 that is always the same for the same words."""
    return zlib.crc32("/".join(map(str, what)).encode()) / 2**32


def used_mib(asked_mib: int, *what: object) -> int:
    """Memory that work uses which asked for so much."""
    return int((asked_mib or 2 * _SMALL_MIB) * (0.45 + 0.5 * chance("ram", *what)))


def gpu_loads(
    gpus: tuple[GpuInfo, ...], busy: dict[int, int], seed: int, node: int, moment: int
) -> tuple[GpuLoad, ...]:
    """How busy the GPUs of a node look.

    Args:
        gpus: The GPUs.
        busy: Those that work, by index, and the memory their work asked for in MiB.
        seed: Of the scenario.
        node: The node's number.
        moment: Another number at every look.
    """
    found = []
    for gpu in gpus:
        own, now = chance(seed, node, gpu.index), chance(seed, node, gpu.index, moment)
        if gpu.index in busy:
            asked_mib = busy[gpu.index] or int(gpu.vram_mib * (0.3 + 0.4 * own))
            used = min(gpu.vram_mib, int(asked_mib * (0.7 + 0.25 * now)))
            found.append(GpuLoad(round(82 + 17 * now), round(62 + 14 * own + 4 * now), used))
        else:
            found.append(GpuLoad(round(3 * now), round(33 + 7 * own + 2 * now), int(gpu.vram_mib * 0.01)))
    return tuple(found)


def log_head(address: str, node: str, renderer: str, stamp: str) -> str:
    """How the log of an attempt begins."""
    return (
        f"{stamp} {renderer} (simulated) on {node}: {address}\n"
        f"{stamp} Read scene: /show/scenes/{address.partition('/')[0]}.scene\n"
    )


def log_frame(frame: int, part: int, ram_mib: int, stamp: str) -> str:
    """A line while a frame is rendered."""
    return f"{stamp} Fra:{frame} Mem:{ram_mib}M | Rendering {part} / 128 samples\n"


def log_done(frame: int, took_s: float, ram_mib: int, files: tuple[str, ...], stamp: str) -> str:
    """The lines of a frame that is done."""
    saved = "".join(f"{stamp} Saved: '{path}'\n" for path in files)
    minutes, seconds = divmod(took_s, 60.0)
    return (
        f"{stamp} Fra:{frame} Mem:{ram_mib}M | Rendering 128 / 128 samples\n"
        f"{saved}{stamp} Fra:{frame} Time: {int(minutes):02d}:{seconds:05.2f} (Peak {ram_mib}M)\n"
    )


def log_failed(frame: int, reason: str, stamp: str, *what: object) -> str:
    """The lines of a frame that failed."""
    cause = _ERRORS[int(chance("error", *what) * len(_ERRORS)) % len(_ERRORS)]
    return (
        f"{stamp} WARNING: frame {frame}: sample clamp is off, expect fireflies\n"
        f"{stamp} ERROR: frame {frame}: {cause}\n"
        f"{stamp} ERROR: {reason}\n"
    )


@lru_cache(maxsize=16)
def _room(hue: int) -> Any:
    """What stands still in the pictures of a step; drawing it is most of the work."""
    import cv2
    import numpy as np

    fade = np.linspace(0.15, 0.8, HEIGHT)[:, None] * np.linspace(1.0, 0.6, WIDTH)[None, :]
    hsv = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    hsv[..., 0], hsv[..., 1], hsv[..., 2] = hue, 110, (255 * fade).astype(np.uint8)
    image: Any = cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR)
    ground = int(HEIGHT * _GROUND)
    image[ground:] = image[ground:] // 2
    return image


def picture(job: int, step: str, frame: int, part: float, no: int) -> bytes:
    """A preview (JPEG) of a frame: of one step all are alike, and frames in a row move.

    Args:
        job, step, frame, no: What is written on it; ``no`` is the attempt's.
        part: Where the frame is in the step, 0 to 1.
    """
    # Imported here alone: whoever simulates without serving needs neither.
    import cv2
    import numpy as np

    image: Any = _room(int(180 * chance("hue", job, step))).copy()
    ground = int(HEIGHT * _GROUND)
    radius = HEIGHT // 7
    x = int(radius + part * (WIDTH - 2 * radius))
    y = int(ground - radius - abs(np.sin(part * 9.0)) * HEIGHT * 0.4)
    cv2.ellipse(image, (x, ground + 12), (radius, radius // 4), 0, 0, 360, (20, 20, 20), -1, cv2.LINE_AA)
    cv2.circle(image, (x, y), radius, (60, 160, 240), -1, cv2.LINE_AA)
    cv2.circle(image, (x - radius // 3, y - radius // 3), radius // 4, (200, 230, 255), -1, cv2.LINE_AA)
    words = f"J{job}/{step}  {frame:04d}  @{no}"
    font = cv2.FONT_HERSHEY_SIMPLEX
    cv2.putText(image, words, (10, HEIGHT - 12), font, 0.5, (235, 235, 235), 1, cv2.LINE_AA)
    good, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 85])
    return bytes(data) if good else b""


class Allowance:
    """So many things a second, some saved up: what is beyond is left out.

    Args:
        per_s: How many.
        most: How many may be saved up.
    """

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s, self._most = per_s, most
        self._left, self._last_s = most, 0.0

    def take(self, now_s: float) -> bool:
        """Whether one more is allowed now."""
        self._left = min(self._most, self._left + (now_s - self._last_s) * self._per_s)
        self._last_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
