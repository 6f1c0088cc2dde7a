"""What people type for `farm submit` and `farm run`, as one record.

What belongs here: the words.  What they mean is ``farm.sdk.submit_inputs``.
"""

from __future__ import annotations

import msgspec


class SubmitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed; empty or None = not given.

    Attributes:
        file: Scene, clip, pattern of a sequence, folder of one, or job file.
        renderer: Name of a renderer.
        frames: Frame range.
        chunk: Frames a lease, or ``auto``.
        order: Order of the frames, see ``farm.model.orders.ORDERS``.
        after: Addresses of what is waited for: ``J12`` or ``J12/beauty``.
        frame_by_frame: Each frame waits for the same frame there only.
        offset: Added to the frame number that is waited for.
        on_failure: What a failure there means, see ``farm.model.jobs.AfterSpec``.
        filter: ffmpeg filter chain.
        encode: Codec of the movie.
        rate: Frames a second of the movie.
        params: ``KEY=VALUE`` texts.
        output: ``-o``.
        program: What stood after ``--``.
        name: Name of the job.
        user: Whose job; empty = the key's user.
        project: Project.
        priority: 0-100.
        paused: Start paused.
        start_after: Not before this moment, ISO 8601 with offset.
        scout: Frames to render before the job waits for approval.
        max_cores: Most cores at once.
        limits: ``NAME=COUNT`` texts.
        token: Client token.
        existing: ``overwrite``, ``skip`` or ``refuse``.
        checks: Picture checks.
        cores, ram_mib, gpus, vram_mib: Resources of an attempt.
        pools, site, version, attributes: Where it may run.
        env: ``KEY=VALUE`` texts.
        timeout_s: Limit of a chunk.
        attempts: Failures a frame may have.
    """

    file: str = ""
    renderer: str = ""
    frames: str = ""
    chunk: str = ""
    order: str = ""
    after: tuple[str, ...] = ()
    frame_by_frame: bool = False
    offset: int | None = None
    on_failure: str = ""
    filter: str = ""
    encode: str = ""
    rate: str = ""
    params: tuple[str, ...] = ()
    output: str = ""
    program: tuple[str, ...] | None = None
    name: str = ""
    user: str = ""
    project: str = ""
    priority: int | None = None
    paused: bool = False
    start_after: str = ""
    scout: int | None = None
    max_cores: int | None = None
    limits: tuple[str, ...] = ()
    token: str = ""
    existing: str = ""
    checks: tuple[str, ...] = ()
    cores: int | None = None
    ram_mib: int | None = None
    gpus: int | None = None
    vram_mib: int | None = None
    pools: tuple[str, ...] = ()
    site: str = ""
    version: str = ""
    attributes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout_s: float | None = None
    attempts: int | None = None


#: Options that still mean something beside a job file.
WITH_JOB_FILE = frozenset(
    {
        "file",
        "name",
        "user",
        "project",
        "priority",
        "paused",
        "token",
        "start_after",
        "scout",
        "max_cores",
    }
)
