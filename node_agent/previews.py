"""Makes previews of published frames, behind all other work.

What belongs here: one thread of low priority and its queue.  What it may not know: how a preview is stored.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from farm.model.errors import OvercrankError
from farm.model.outputs import FileFacts
from farm.protocol.bulk import PreviewPutMsg
from node_agent.plan import Plan

log = logging.getLogger("overcrank.agent")

#: Frames waiting at most; older ones get no preview.
QUEUE = 256
_NICE = 10


class MakePreview(Protocol):
    """Makes the preview of a picture or movie; see ``node_agent.pixels.Pixels.preview``."""

    def __call__(self, source: str, target: Path, *, max_px: int) -> None: ...


class Previewer:
    """Owner of the preview thread."""

    def __init__(
        self, max_px: int, send: Callable[[PreviewPutMsg], None], scratch: Path, make: MakePreview
    ) -> None:
        self._max_px = max_px
        self._make_preview = make
        self._send = send
        self._scratch = scratch
        self._changed = threading.Condition()
        self._queue: deque[tuple[PreviewPutMsg, str]] = deque(maxlen=QUEUE)
        self._ended = False
        self._warned = False

    def add(self, plan: Plan, published: Mapping[int, tuple[FileFacts, ...]]) -> None:
        """Queues the units of an attempt; the first picture or movie of each is shown."""
        template, lease = plan.shared.template, plan.lease
        if not self._max_px:
            return
        with self._changed:
            for index, files in published.items():
                path = next((file.path for file in files if file.spec or file.frames), "")
                if path:
                    head = PreviewPutMsg(template.job, template.step, lease.no, lease.attempt, index, b"")
                    self._queue.append((head, path))
            self._changed.notify()

    def end(self) -> None:
        """Ends the thread; what waits is dropped."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Body of the preview thread."""
        try:
            # Of this thread alone: on Linux a thread has a niceness of its own.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        except OSError as error:
            log.debug("event=preview-priority reason=%s", error)
        while True:
            with self._changed:
                while not self._queue and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                head, path = self._queue.popleft()
            self._make(head, path)

    def _make(self, head: PreviewPutMsg, path: str) -> None:
        try:
            with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
                target = Path(folder) / "preview.jpg"
                self._make_preview(path, target, max_px=self._max_px)
                data = target.read_bytes()
        except (OvercrankError, OSError) as error:
            log.info("event=no-preview path=%s reason=%s", path, error)
            return
        except Exception:  # a preview is never worth the agent
            if not self._warned:
                self._warned = True
                log.exception("event=preview-failed path=%s", path)
            return
        self._send(PreviewPutMsg(head.job, head.step, head.no, head.attempt, head.unit, data))
