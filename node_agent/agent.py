"""Puts the agent together and runs it: the composition root of ``node_agent``.

What belongs here: making every part, wiring them, starting and ending in the right order.  What it may not
know: how any part does its work.

Start: lock the state folder, kill what an earlier run left, open the outbox, report its attempts as lost,
sweep their folders, look at the machine, start the supervisor, dial.  End: stop or finish the attempts, hand
over the last reports, say goodbye, and leave no process behind.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from farm.model.errors import OvercrankError
from farm.model.nodes import AppInfo, GpuInfo, NodeFacts, NodeLoad
from farm.model.outputs import FileFacts
from farm.model.paths import PathRule
from farm.model.reports import RELEASED, UnitReport
from farm.protocol.agent import AgentWelcome
from farm.renderers.base import AppInstall
from farm.renderers.registry import get_renderer, renderers
from farm.transport.keys import load_keypair
from node_agent.apps import probe_apps
from node_agent.attempt import Attempt
from node_agent.crew import Crew
from node_agent.desk import Desk
from node_agent.environ import own_environment
from node_agent.gpuwatch import GpuWatch
from node_agent.home import ScratchFolders, agent_id, lock_state, make_scratch
from node_agent.keeper import Keeper
from node_agent.lane import Lane
from node_agent.ledger import Workshop, discard, sweep
from node_agent.line import Line, ZmqLine
from node_agent.link import Calls, Link
from node_agent.machine import Held
from node_agent.memory import MemoryGuard
from node_agent.options import AgentOptions
from node_agent.outbox import Outbox, decode_report
from node_agent.outputs import Hooks
from node_agent.pixels import Pixels
from node_agent.plan import Plan, Planner, Site
from node_agent.previews import Previewer
from node_agent.probe import HardwareFacts, offered_disk_mib, probe_hardware, slice_facts
from node_agent.proctree import AGENT_TAG
from node_agent.selfupdate import SelfUpdate
from node_agent.supervisor import Supervisor, SupervisorGone, kill_leftovers
from node_agent.uploads import Uploader

log = logging.getLogger("overcrank.agent")

#: Attempts at most at one time, twice: each may need two threads.
_THREADS = 1024
#: How long the last reports may take at the end, in seconds.
END_PATIENCE_S = 5.0
#: The same while no session is open: a line that is just being dialled anew gets this chance.
OFFLINE_PATIENCE_S = 1.0


class Spawners:
    """The agent's supervisor; a new one takes over when one died."""

    def __init__(self, agent_id: str) -> None:
        self._agent_id = agent_id
        self._lock = threading.Lock()
        self._supervisor = Supervisor(agent_id)
        self._lanes: list[Lane] = []
        self._closed = False

    def start(self) -> None:
        """Starts the first supervisor."""
        self._supervisor.start()

    def take_lane(self) -> Lane:
        """A lane to the supervisor that nobody else uses.

        Raises:
            SupervisorGone: There is no supervisor and none can be started.
        """
        with self._lock:
            if not self._supervisor.alive:
                self._supervisor.close()
                self._close_lanes()
                log.warning("event=supervisor-restart")
                self._supervisor = Supervisor(self._agent_id)
                self._supervisor.start()
            while self._lanes:
                lane = self._lanes.pop()
                if lane.usable:
                    return lane
                lane.close()
            try:
                return Lane(self._supervisor)
            except OSError as error:
                raise SupervisorGone(f"no connection to the supervisor: {error.strerror}") from error

    def give_lane(self, lane: Lane) -> None:
        """Takes a lane back; one over which something still runs is closed, which ends that."""
        with self._lock:
            if lane.usable and not lane.busy and lane.supervisor is self._supervisor and not self._closed:
                self._lanes.append(lane)
                return
        lane.close()

    def _close_lanes(self) -> None:
        while self._lanes:
            self._lanes.pop().close()

    @property
    def pid(self) -> int:
        """Process id of the supervisor."""
        return self._supervisor.pid

    def kill_all(self) -> None:
        """Kills every process at once."""
        for handle in self._supervisor.handles():
            handle.kill(0)

    def close(self) -> None:
        """Ends the supervisor and whatever it holds."""
        self._supervisor.close()
        with self._lock:
            self._closed = True
            self._close_lanes()


class Agent:
    """One agent; make, ``start``, then ``finish`` or ``abandon``, then ``close``."""

    def __init__(
        self,
        options: AgentOptions,
        *,
        control: Line | None = None,
        bulk: Line | None = None,
        planner_site: Site | None = None,
        hardware: HardwareFacts | None = None,
    ) -> None:
        """Opens what the agent owns on this machine; dials nothing yet.

        Args:
            options: The options.
            control: Control line; by the options when None.
            bulk: Bulk line; likewise.
            planner_site: What plans know of this node; found out when None.
            hardware: The machine; looked at when None.

        Raises:
            StorageError: The state folder cannot be used, or another agent uses it.
        """
        self.options = options
        self._state = Path(options.state_dir)
        self._lock_file = lock_state(self._state)
        self._draining = ""
        self._attempts: dict[int, Attempt] = {}
        self._threads: list[threading.Thread] = []
        self._crew = Crew(_THREADS, "attempt")
        self._control = control
        self._bulk = bulk
        self._site = planner_site
        #: Called when the agent cannot go on; it must be ended then.
        self.on_failure: Callable[[], None] = lambda: None
        self.failed = False
        try:
            self.agent_id = agent_id(self._state)
            self.killed = kill_leftovers(self.agent_id)
            self.outbox = Outbox(self._state / "outbox.db")
        except BaseException:
            os.close(self._lock_file)
            raise
        self.desk = Desk(self.outbox)
        self.recovered = recover(self.desk)
        self._scratch = make_scratch(options, self._state)
        self._hardware = slice_facts(
            hardware or self._with_overrides(probe_hardware(Path(self._scratch))),
            options.slice_index,
            options.slice_count,
        )
        self.spawners = Spawners(self.agent_id)
        #: Called when the software was updated: the agent must be ended and started anew.
        self.on_updated: Callable[[], None] = lambda: None
        self.updates = SelfUpdate(
            options.update_command,
            self._state,
            agent_tag={AGENT_TAG: self.agent_id},
            installed=_software,
            changed=lambda: self.link.greet_again(),
            ready=lambda: self.on_updated(),
            timeout_s=options.update_timeout_s,
        )

    def _with_overrides(self, hardware: HardwareFacts) -> HardwareFacts:
        options = self.options
        return msgspec.structs.replace(
            hardware,
            cores=min(options.cores, hardware.cores) if options.cores else hardware.cores,
            ram_mib=min(options.ram_mib, hardware.ram_mib) if options.ram_mib else hardware.ram_mib,
            disk_mib=options.disk_mib or offered_disk_mib(hardware.disk_free_mib),
            tokens=options.tokens,
        )

    # -- start --

    def start(self) -> None:
        """Starts everything and dials the broker."""
        options = self.options
        self.pixels = Pixels()
        site = msgspec.structs.replace(self._site or self._look_at_site(), verify=self.pixels.verify)
        self.planner = Planner(site)
        self.facts = self._node_facts(site)
        self.spawners.start()
        if self._control is None or self._bulk is None:
            pair = load_keypair(Path(options.key_file))
            self._control = self._control or ZmqLine(options.control, pair, options.broker_key)
            self._bulk = self._bulk or ZmqLine(options.bulk, pair, options.broker_key)
        self.uploader = Uploader(self._bulk, self._state / "logs", cap_bytes=options.log_cap_bytes)
        self.previewer = Previewer(
            options.preview_px, self.uploader.add_preview, Path(self._scratch), self.pixels.preview
        )
        self.workshop = Workshop(
            desk=self.desk,
            planner=self.planner,
            spawner=self.spawners,
            scratch=ScratchFolders(self._scratch),
            open_log=self.uploader.open_log,
            log_ended=self.uploader.log_ended,
            start_thread=self._crew.start,
            previews=self._previews,
            exit_grace_s=options.exit_grace_s,
            env=options.env,
            own_env=own_environment(),
        )
        self._gpu_watch = GpuWatch(self._hardware.gpus)
        self.keeper = Keeper(
            self.outbox,
            MemoryGuard(self._hardware.ram_mib, self._hardware.ram_mib),
            Path(self._scratch),
            lambda: list(self._attempts.values()),
            lambda: self.spawners.pid,
            gpus=lambda: self._gpu_watch.loads,
        )
        self.link = Link(
            self._control,
            self.desk,
            Calls(
                facts=self._facts_now,
                ending=lambda: bool(self._draining),
                load=self._load,
                lease=self._lease,
                discard=self._discard,
                welcome=self._welcome,
                other_farm=self._other_farm,
                cut=lambda: self._submit(self.outbox.harden),
                update=self.updates.ask,
            ),
            software=_software(),
            instance=os.urandom(8).hex(),
        )
        for name, body in (
            ("link", self._run_link),
            ("uploader", self.uploader.run),
            ("keeper", self.keeper.run),
            ("previewer", self.previewer.run),
        ):
            thread = threading.Thread(target=body, name=f"agent-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._gpu_watch.start()
        log.info(
            "event=started name=%s cores=%d ram_mib=%d gpus=%d renderers=%s killed=%d recovered=%d",
            options.name,
            self.facts.total.cores,
            self.facts.total.ram_mib,
            len(self.facts.gpus),
            ",".join(self.facts.renderers),
            self.killed,
            self.recovered,
        )
        for hook in ("damage_frame", "pause_before_publish"):
            if getattr(options, hook) not in (None, ""):
                log.warning("event=fault-injection option=%s value=%r", hook, getattr(options, hook))

    def _look_at_site(self) -> Site:
        options = self.options
        apps: dict[str, list[AppInstall]] = {}
        if not options.allow_renderers or any(get_renderer(name).app for name in options.allow_renderers):
            cache = Path(options.app_cache) if options.app_cache else self._state / "apps.json"
            for app in probe_apps([Path(path) for path in options.app_paths], cache=cache):
                apps.setdefault(app.name, []).append(app)
        return Site(
            apps=apps,
            slice_cores=self._hardware.cores,
            ffmpeg=apps["ffmpeg"][0].argv[0] if "ffmpeg" in apps else _ffmpeg(),
            allowed=frozenset(options.allow_renderers) if options.allow_renderers else None,
            denied=frozenset(options.deny_renderers),
            own_rules=tuple(PathRule(source, target) for source, target in options.path_rules),
            hooks=Hooks(options.damage_frame, options.pause_before_publish),
        )

    def _node_facts(self, site: Site) -> NodeFacts:
        options, hardware = self.options, self._hardware
        known = {name: get_renderer(name) for name in options.allow_renderers} or renderers()
        names = [name for name, found in known.items() if not found.app or site.apps.get(found.app)]
        return NodeFacts(
            name=options.name or socket.gethostname(),
            host=hardware.hostname or socket.gethostname(),
            machine=hardware.machine_id,
            total=hardware.resources(),
            gpus=tuple(GpuInfo(gpu.index, gpu.uuid, gpu.name, gpu.vram_mib) for gpu in hardware.gpus),
            apps=tuple(AppInfo(app.name, app.version) for group in site.apps.values() for app in group),
            renderers=tuple(name for name in names if name not in site.denied),
            attributes={"os": "linux", **options.attributes},
            slice=options.number if options.number >= 0 else options.slice_index,
            slices=options.slice_count,
            software=_software(),
            updates=self.updates.able,
        )

    # -- called by the link; each returns at once --

    def _facts_now(self) -> NodeFacts:
        told = self.updates.facts
        return msgspec.structs.replace(self.facts, update_no=told.rollout, update_failure=told.failure[:500])

    def _load(self) -> NodeLoad | None:
        return self.keeper.load

    def _run_link(self) -> None:
        try:
            self.link.run()
        except Exception:
            self.failed = True
            self.on_failure()

    def _lease(self, held: Held) -> None:
        if self._draining:
            with self.desk.lock:
                self.desk.machine.stop_one(held.attempt, self._draining)
        attempt = Attempt(self.workshop, held)
        self._attempts[held.attempt] = attempt
        self._submit(lambda: self._run(attempt))

    def _run(self, attempt: Attempt) -> None:
        try:
            attempt.run()
        finally:
            self._attempts.pop(attempt.held.attempt, None)

    def _discard(self, attempts: tuple[int, ...]) -> None:
        self._submit(lambda: discard(self.desk, attempts))

    def _welcome(self, welcome: AgentWelcome) -> None:
        self.workshop.kill_grace_s = welcome.timings.kill_grace_s
        self.uploader.cap_bytes = min(self.options.log_cap_bytes, welcome.log_cap)
        try:
            self.planner.set_rules(welcome.path_rules)
        except OvercrankError as error:
            log.error("event=bad-path-rules reason=%s", error)

    def _other_farm(self, farm_id: str) -> None:
        kept = [begun for begun in self.outbox.begun() if begun.kept]
        aside = self.outbox.set_aside()
        self.uploader.forget(self._state / "logs-aside" / time.strftime("%Y%m%d-%H%M%S"))
        log.warning("event=other-farm now=%s outbox_aside=%s kept=%d", farm_id, aside or "-", len(kept))
        for begun in kept:
            self._submit(functools.partial(sweep, begun))

    def _previews(self, plan: Plan, published: Mapping[int, tuple[FileFacts, ...]]) -> None:
        self.previewer.add(plan, published)

    def _submit(self, work: Callable[[], object]) -> None:
        try:
            self._crew.start(work)
        except RuntimeError:
            log.debug("event=late-work")

    # -- end --

    def drain(self, reason: str) -> None:
        """Takes no more work; what runs goes on."""
        self._draining = reason
        self.link.greet_again()

    def stop(self, reason: str) -> None:
        """Kills and gives back everything; takes no more work."""
        self._draining = reason
        # Said before anything is given back: else that would be leased to this very node again, and again.
        self.link.greet_again()
        self.desk.stop_all(reason)

    def force(self) -> None:
        """Kills every process without grace."""
        self.workshop.kill_grace_s = 0.0
        self.stop("the agent was stopped")
        self.spawners.kill_all()

    def close(self, reason: str = "stopped", patience_s: float = END_PATIENCE_S) -> None:
        """Hands over the last reports, says goodbye and ends every thread and process."""
        self.updates.close()
        if self._threads:
            patience_s = patience_s if self.desk.online else min(patience_s, OFFLINE_PATIENCE_S)
            self.previewer.end()
            self.link.end(reason, patience_s)
            self.uploader.end(patience_s)
            self.keeper.end()
            self._gpu_watch.close()
        for thread in self._threads:
            thread.join()
        self.spawners.close()
        self._crew.close()
        if self._threads:
            self.pixels.close()
        self.outbox.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        os.close(self._lock_file)
        log.info("event=ended reason=%s", reason)


def recover(desk: Desk) -> int:
    """Reports the attempts of an earlier run as lost and sweeps their folders; returns how many.

    Nothing of them runs: what an earlier run left was killed before.  Units whose outcome is in the outbox
    already keep it.
    """
    outbox = desk.outbox
    told: dict[int, set[int]] = {}
    for _, attempt, body in outbox.pending():
        told.setdefault(attempt, set()).update(unit.unit for unit in decode_report(body).units)
    count = 0
    for begun in outbox.begun():
        if begun.kept:
            desk.restore_kept(begun)
            continue
        sweep(begun)
        units = tuple(
            UnitReport(index, RELEASED, "lost", "the agent was restarted")
            for index in begun.units
            if index not in told.get(begun.attempt, ())
        )
        outbox.put(begun.attempt, begun.nonce, units, closed=True, durable=True)
        count += 1
    return count


def _ffmpeg() -> str:
    from farm.media.ffmpeg import find_ffmpeg

    try:
        return str(find_ffmpeg())
    except OvercrankError:
        return ""


def _software() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("overcrank")
    except PackageNotFoundError:
        return "0"
