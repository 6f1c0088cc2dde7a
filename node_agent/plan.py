"""From a lease to everything its processes need: parameters, paths, files, inputs, application.

What belongs here: decoding and mapping.  What it may not know: threads, the broker; the only thing looked
at on disk is whether an input is there.
"""

# Paths are data: their text stays as the job and the renderer say it.
# ruff: noqa: PTH110

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from farm.media.verify import verify_file
from farm.model.errors import CallError, OvercrankError
from farm.model.frames import FrameRange
from farm.model.ids import attempt_folder
from farm.model.outputs import FileFacts
from farm.model.paths import (
    PathMapper,
    PathRule,
    expand,
    folder_of,
    has_frame_token,
    is_absolute,
    is_windows,
    join,
    with_folder,
)
from farm.model.states import AttemptKind, FailureClass
from farm.model.versions import newest, version_ok
from farm.protocol.agent import LeaseMsg, StepTemplate
from farm.protocol.codec import decode_template
from farm.renderers.base import (
    AppInstall,
    ChunkContext,
    PlannedFile,
    PlannedInput,
    Renderer,
    read_params,
)
from farm.renderers.registry import get_renderer
from node_agent.outputs import AttemptFiles, Expected, Hooks
from node_agent.troubles import WorkTrouble

#: Characters that say a parameter is a pattern, not one file whose presence could be checked.
_TOKENS = ("#", "%", "<", "$")
#: Templates kept decoded; a node works on few steps at a time.
_CACHE = 64


class Site(msgspec.Struct, kw_only=True):
    """What a plan needs to know of this agent.

    Attributes:
        apps: Installed applications by name.
        slice_cores: Cores of the agent's slice.
        ffmpeg: The ffmpeg program, "" if there is none.
        allowed: Renderers the administrator allows, None = all.
        denied: Renderers never run here.
        own_rules: The agent's own path rules; tried before the farm's.
        mapper: Path mapping of both.
        hooks: Fault injection.
        verify: How a file is verified; the agent hands in its own processes for that.
        find: How a renderer is found by name.
    """

    apps: Mapping[str, Sequence[AppInstall]] = {}
    slice_cores: int = 1
    ffmpeg: str = ""
    allowed: frozenset[str] | None = None
    denied: frozenset[str] = frozenset()
    own_rules: tuple[PathRule, ...] = ()
    mapper: PathMapper = PathMapper()
    hooks: Hooks = Hooks()
    verify: Callable[..., FileFacts] = verify_file
    find: Callable[[str], Renderer] = get_renderer

    def allows(self, renderer: str) -> bool:
        """Whether the administrator lets this renderer run here."""
        return renderer not in self.denied and (self.allowed is None or renderer in self.allowed)


class Shared(msgspec.Struct, frozen=True):
    """What all leases of a step have in common on this machine."""

    template: StepTemplate
    renderer: Renderer
    params: Any
    patterns: tuple[str, ...]
    inputs: dict[str, PlannedInput]
    step_frames: FrameRange | None
    app: AppInstall | None


class Plan(msgspec.Struct, frozen=True):
    """One attempt, ready to be run.

    Attributes:
        lease: The lease.
        shared: What it has in common with the step's other attempts.
        files: Its folders and files; None when the step writes none.
        by_frame: Expected files of each frame (None: of a single step).
        site: The agent it runs on.
    """

    lease: LeaseMsg
    shared: Shared
    files: AttemptFiles | None
    by_frame: dict[int | None, tuple[Expected, ...]]
    site: Site

    @property
    def label(self) -> str:
        """The attempt's address: ``J12/beauty@7``."""
        template = self.shared.template
        return f"J{template.job}/{template.step}@{self.lease.no}"

    def context(self, scratch: str, frames: tuple[int, ...]) -> ChunkContext:
        """What the renderer may know, for these frames of the lease."""
        shared, lease = self.shared, self.lease
        planned: list[PlannedFile] = []
        patterns: tuple[str, ...] = ()
        if self.files is not None:
            wanted: tuple[int | None, ...] = frames or (None,)
            planned = [
                PlannedFile(file.output, file.frame, self.files.path_of(file))
                for frame in wanted
                for file in self.by_frame.get(frame, ())
            ]
            name = self.files.name
            patterns = tuple(
                with_folder(pattern, join(folder_of(pattern), name)) for pattern in shared.patterns
            )
        return ChunkContext(
            params=shared.params,
            frames=frames,
            step_frames=shared.step_frames,
            files=tuple(planned),
            patterns=patterns,
            inputs=shared.inputs,
            app=shared.app,
            cores=max(1, lease.resources.cores),
            slice_cores=self.site.slice_cores,
            gpus=lease.gpus,
            ram_mib=lease.resources.ram_mib,
            scratch=scratch,
            python=sys.executable,
            ffmpeg=self.site.ffmpeg,
        )


class Planner:
    """Makes plans; keeps what the leases of a step share.  Safe to use from several threads."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self._lock = threading.Lock()
        self._shared: dict[bytes, Shared] = {}

    def set_rules(self, farm_rules: Sequence[tuple[str, str]]) -> None:
        """Takes the farm's path rules for this site; the agent's own come first."""
        rules = (*self.site.own_rules, *(PathRule(source, target) for source, target in farm_rules))
        with self._lock:
            if rules != self.site.mapper.rules:
                self.site.mapper = PathMapper(rules)
                self._shared.clear()

    def plan(self, lease: LeaseMsg) -> Plan:
        """Plans an attempt.

        Raises:
            WorkTrouble: It cannot be run as asked; says whose fault that is.
        """
        raw = bytes(lease.template)
        with self._lock:
            shared = self._shared.get(raw)
            if shared is None:
                shared = self._share(raw)
                while len(self._shared) >= _CACHE:
                    del self._shared[next(iter(self._shared))]
                self._shared[raw] = shared
        template = shared.template
        if lease.kind in (AttemptKind.RENDER, AttemptKind.COPY):
            self._check_commands(template)
        by_frame = self._expected(shared, lease)
        files = None
        if shared.patterns:
            name = attempt_folder(template.job, template.step, lease.no, lease.nonce)
            files = AttemptFiles(
                name,
                (file for group in by_frame.values() for file in group),
                self.site.hooks,
                self.site.verify,
            )
        return Plan(lease, shared, files, by_frame, self.site)

    def _expected(self, shared: Shared, lease: LeaseMsg) -> dict[int | None, tuple[Expected, ...]]:
        template = shared.template
        neighbours = "neighbour" in template.checks
        found: dict[int | None, tuple[Expected, ...]] = {}
        frames: tuple[int | None, ...] = lease.frames or (None,)
        for frame in frames:
            group = []
            for index, pattern in enumerate(shared.patterns):
                kind = template.outputs[index].kind
                if frame is None:
                    anyone = kind == "sequence" and has_frame_token(pattern)
                    group.append(Expected(index, None, pattern, kind, any_frame=anyone))
                else:
                    before = expand(pattern, frame - 1) if neighbours else ""
                    group.append(Expected(index, frame, expand(pattern, frame), kind, before))
            found[frame] = tuple(group)
        return found

    def _share(self, raw: bytes) -> Shared:
        try:
            template = decode_template(raw)
            renderer = self._renderer(template.renderer)
            mapped = {
                key: self._mapped(value) if key in (*renderer.path_params, *renderer.input_params) else value
                for key, value in template.params.items()
            }
            params = read_params(renderer, mapped)
            return Shared(
                template,
                renderer,
                params,
                tuple(self._pattern(output.pattern) for output in template.outputs),
                {name: self._input(plan.pattern, plan.frames) for name, plan in template.inputs.items()},
                FrameRange.parse(template.frames) if template.frames else None,
                self._app(renderer.app, template.version),
            )
        except WorkTrouble:
            raise
        except OvercrankError as error:
            raise WorkTrouble(FailureClass.CONFIG, str(error)) from error

    def _renderer(self, name: str) -> Renderer:
        site = self.site
        if not site.allows(name):
            raise WorkTrouble(FailureClass.CONFIG, f"renderer {name} is not allowed on this node")
        return site.find(name)

    def _check_commands(self, template: StepTemplate) -> None:
        """A step's own commands are programs of its author's choice, like the renderer ``command``."""
        which = " and ".join(name for name in ("pre", "post") if getattr(template, name))
        if which and not self.site.allows("command"):
            raise WorkTrouble(
                FailureClass.CONFIG,
                f"the step has a {which} command, and this node runs no commands: its administrator does not"
                " allow the renderer command",
            )

    def _app(self, name: str, constraint: str) -> AppInstall | None:
        if not name:
            return None
        installed = self.site.apps.get(name, ())
        app = choose_app(installed, constraint)
        if app is None:
            have = ", ".join(found.version for found in installed) or "none"
            raise WorkTrouble(
                FailureClass.CONFIG,
                f"the step needs {name} {constraint}".rstrip() + f"; this node has {have}",
            )
        return app

    def _mapped(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.site.mapper.map(value) if is_absolute(value) else value
        if isinstance(value, list | tuple):
            return [self._mapped(item) for item in value]
        if isinstance(value, dict):
            return {key: self._mapped(item) for key, item in value.items()}
        return value

    def _pattern(self, pattern: str) -> str:
        path = self.site.mapper.map(pattern)
        if not is_absolute(path) or is_windows(path):
            raise WorkTrouble(
                FailureClass.PATH,
                f"the output {pattern} means nothing on this node: no path rule covers it",
            )
        return path

    def _input(self, pattern: str, frames: str) -> PlannedInput:
        path = self.site.mapper.map(pattern)
        if not frames:
            return PlannedInput((), (path,))
        numbers = tuple(FrameRange.parse(frames))
        return PlannedInput(numbers, tuple(expand(path, number) for number in numbers))

    def check_inputs(self, plan: Plan) -> None:
        """Looks whether the files a step names as parameters are on this node.

        A node whose mount is missing would else fail every frame with words only its renderer's author
        understands.

        Raises:
            WorkTrouble: One is missing.
        """
        shared = plan.shared
        for name in shared.renderer.path_params:
            path = getattr(shared.params, name, None)
            if (
                isinstance(path, str)
                and path.startswith("/")
                and not any(token in path for token in _TOKENS)
                and not os.path.exists(path)
            ):
                raise WorkTrouble(FailureClass.PATH, f"{name} {path} does not exist on this node")


def choose_app(installed: Sequence[AppInstall], constraint: str) -> AppInstall | None:
    """The newest installation a version constraint allows, None if there is none.

    Raises:
        WorkTrouble: The constraint cannot be read.
    """
    try:
        able = [app for app in installed if version_ok(app.version, constraint)]
    except CallError as error:
        raise WorkTrouble(FailureClass.CONFIG, f"{error.message}; {error.hint}") from None
    found = newest(app.version for app in able)
    return next((app for app in able if app.version == found), None)
