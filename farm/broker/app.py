"""Composition root of the broker: opens the store, restores the core, binds sockets, runs, cleans up."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable

from farm.broker.announce import announcer
from farm.broker.book import LeaseBook
from farm.broker.broom import Broom
from farm.broker.bulk import BulkThread
from farm.broker.clock import SteadyClock
from farm.broker.falls import Falls, TurnLost
from farm.broker.keydesk import KeyDesk
from farm.broker.loop import Loop
from farm.broker.ports import KeyRecord, Store
from farm.broker.recorder import Recorder
from farm.broker.state import Addresses, BrokerState
from farm.config.options import BrokerOptions
from farm.config.places import Endpoint, Places
from farm.config.rules import read_path_rules
from farm.core.checkpoint import restore
from farm.core.core import Core
from farm.core.events import RestartEvent
from farm.core.state import Settings
from farm.model.errors import FarmUnreachable, StorageError
from farm.model.money import parse_usd
from farm.model.roles import Role
from farm.protocol.agent import Timings
from farm.protocol.codec import CONTROL_LIMIT
from farm.storage.logs import ASIDE, LogStore
from farm.storage.opening import open_follower, open_store
from farm.storage.previews import PreviewStore
from farm.transport.keyring import Keyring
from farm.transport.keys import load_or_create_keypair
from farm.transport.server_link import ServerLink

log = logging.getLogger("overcrank.broker")

#: How long a broker whose disk failed waits between looks whether it works again.
RETRY_S = 5.0
#: Bytes a log may exceed its cap by: the agent's own lines that say what was dropped.
LOG_MARGIN = 64 * 1024


class Broker:
    """One running broker.

    Args:
        farm_name: Which farm; decides where state and keys are.
        options: Its options.
        user: Who administers it on this machine.
        announce: Called with the endpoint once it serves.
    """

    def __init__(
        self,
        farm_name: str,
        options: BrokerOptions,
        *,
        user: str,
        announce: Callable[[Endpoint], None] | None = None,
        tick_s: float | None = None,
    ) -> None:
        self._name = farm_name
        self._options = options
        self._user = user
        self._announce = announce
        self._tick_s = tick_s
        self._places = Places(farm_name)
        self._stopping = threading.Event()
        self._loop: Loop | None = None
        #: One clock for all reloads: time does not go back at one.
        self._clock = SteadyClock()
        self._falls = Falls()
        #: Control, join and bulk port once taken: whoever dialled them finds them again after a reload.
        self._ports: tuple[int, int, int] | None = None

    def stop(self) -> None:
        """Asks the broker to end in order (any thread, or a signal handler)."""
        self._stopping.set()
        loop = self._loop
        if loop is not None:
            loop.stop()

    def run(self) -> None:
        """Serves until stopped.

        When a commit fails, or the core fails in the middle of an event, everything of that turn is
        forgotten, the sockets close, and the broker starts again from its disk as soon as that can be
        written.

        Raises:
            StorageError: The state cannot be read at the first start.
            FarmUnreachable: A port is taken.
        """
        self._places.make()
        _raise_file_limit()
        first = True
        while not self._stopping.is_set():
            falls = self._falls.count
            try:
                self._serve()
                return
            except (StorageError, FarmUnreachable) as error:
                if first and self._loop is None:
                    raise
                log.error("storage-failed reason=%s retry_s=%s", error.message, RETRY_S)
            except TurnLost as error:
                if first and self._loop is None:
                    raise StorageError(
                        f"the farm's state brings the broker down: {error.what}: {error.__cause__}",
                        hint="see `farm db check`",
                    ) from error
                # What it was is remembered in ``_falls``; a fall without any message (a deadline) would come
                # again at once, so that one waits as for a disk.
                if not error.blame:
                    self._falls.note_state(error.what, error.cause)
                    error.blame = "no message: what is stored"
                log.error("turn-lost reason=%s cause=%s", error.what, error.blame, exc_info=error)
                if self._falls.count != falls and self._disk_works():
                    continue
            finally:
                first = False
            while not self._stopping.wait(RETRY_S) and not self._disk_works():
                pass

    def _disk_works(self) -> bool:
        probe = self._places.state / ".probe"
        try:
            with probe.open("wb") as file:
                file.write(b"\0" * 262_144)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                probe.unlink()
        return True

    def _serve(self) -> None:
        places, options = self._places, self._options
        with contextlib.ExitStack() as stack:
            store = open_store(options.database, places.database)
            stack.callback(store.close)
            core = restore_core(store, _settings(options))
            farm_id = store.meta("farm_id")
            if farm_id is None:
                farm_id = secrets.token_hex(16)
                store.set_meta("farm_id", farm_id)
            keyring = Keyring()
            keydesk = KeyDesk(store, keyring, farm_id, self._name)
            self._let_local_admin_in(keydesk)
            pair = load_or_create_keypair(places.broker_key)
            ports = self._ports or (options.control_port, options.join_port, options.bulk_port)
            link = ServerLink(
                pair,
                keyring,
                host=options.listen,
                control_port=ports[0],
                join_port=ports[1],
                bulk_port=ports[2],
                control_limit=CONTROL_LIMIT,
            )
            stack.callback(link.close, 0.5)
            self._ports = (link.control_address.port, link.join_address.port, link.bulk_address.port)
            keydesk.bulk_port = link.bulk_address.port
            now_us = self._clock.now_us()
            state = BrokerState(
                core,
                store,
                keydesk,
                farm_id=farm_id,
                farm_name=self._name,
                addresses=_addresses(options, link),
                timings=Timings(
                    heartbeat_s=options.heartbeat_s,
                    suspect_s=options.suspect_s,
                    lost_s=options.lost_s,
                    lease_ttl_s=options.lease_ttl_s,
                    kill_grace_s=options.kill_grace_s,
                ),
                rate_nano_h=parse_usd(str(options.rate_usd_h)),
                log_cap=options.log_cap_bytes,
                path_rules=tuple((rule.source, rule.target) for rule in read_path_rules(options.path_rules)),
                now_us=now_us,
                falls=self._falls,
            )
            state.more_alerts = self._clock.alerts
            # Agents may still be uploading logs of attempts that ended before the restart.
            state.book = book = LeaseBook(state.step_name, state.node_key)
            book.note_rows(store.recent_leases(20_000))
            state.recorder = Recorder(core, places.state / "recordings", state.watch)
            stack.callback(state.recorder.close)
            state.apply(RestartEvent(now_us, int(options.restart_grace_s * 1e6)))
            logs = LogStore(places.logs, cap=options.log_cap_bytes + LOG_MARGIN)
            previews = PreviewStore(places.previews)
            broom = Broom(ASIDE, places.logs, places.previews)
            broom.start()
            stack.callback(broom.stop)
            bulk = BulkThread(
                link.bulk,
                keyring,
                book,
                logs,
                previews,
                lambda: open_follower(options.database, places.database),
            )
            bulk.on_aside = broom.sweep
            bulk.start()
            stack.callback(bulk.stop)
            state.on_deleted = bulk.remove
            for number in core.farm.shelved.clearing:
                # Deleted just before the broker ended: what it left on disk may still be there.
                bulk.remove(number)
            loop = Loop(
                state,
                link,
                tick_s=self._tick_s or max(0.01, options.heartbeat_s / 8),
                clock_us=self._clock.now_us,
                grace_us=int(options.restart_grace_s * 1e6),
            )
            if options.metrics_port:
                self._serve_metrics(stack, state, loop)
            self._loop = loop
            if self._stopping.is_set():
                loop.stop()
            endpoint = Endpoint(
                control=_local(options.listen, link.control_address.port),
                join=_local(options.listen, link.join_address.port),
                bulk=_local(options.listen, link.bulk_address.port),
                public=link.public,
                farm_id=farm_id,
                pid=os.getpid(),
            )
            endpoint.write(places.endpoint)
            log.info("serving farm=%s control=%s", self._name, endpoint.control)
            network = announcer(options, self._name, farm_id, link)
            if network is not None:
                stack.callback(network.stop)
                network.start()
            if self._announce is not None:
                self._announce(endpoint)
            loop.run()

    def _serve_metrics(self, stack: contextlib.ExitStack, state: BrokerState, loop: Loop) -> None:
        """Figures for Prometheus, on the address the broker listens on."""
        from farm.broker.metrics import Metrics
        from farm.broker.metrics_http import MetricsServer

        options = self._options
        state.metrics = Metrics(state.core.farm)
        state.metrics.on_wanted(loop.waker.wake)
        server = MetricsServer(state.metrics, options.listen, options.metrics_port, self._places.database)
        stack.callback(server.stop)
        server.start()
        log.info("metrics at=http://%s/metrics", _local(options.listen, server.port))

    def _let_local_admin_in(self, keydesk: KeyDesk) -> None:
        """Who can read the broker's own key folder administers it: no key is handled by hand."""
        pair = load_or_create_keypair(self._places.admin_key)
        known = keydesk.keyring.lookup(pair.public)
        if known is None:
            keydesk.add(
                KeyRecord(
                    public=pair.public,
                    role=Role.ADMIN.value,
                    user=self._user,
                    label="local administrator",
                    added_us=time.time_ns() // 1000,
                )
            )


def _raise_file_limit() -> None:
    """Lets the broker open as many files as the system allows it.

    Every connection is one, and the usual soft limit of 1,024 ends before a thousand agents.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):  # no such limit here, or it is fixed
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def restore_core(store: Store, settings: Settings) -> Core:
    """The core as the store remembers it."""
    stored = store.load()
    return Core(farm=restore(settings, stored, store.replay(stored.after)))


def _settings(options: BrokerOptions) -> Settings:
    return Settings(
        suspect_us=int(options.suspect_s * 1e6),
        lost_us=int(options.lost_s * 1e6),
        chunk_target_us=int(options.chunk_target_s * 1e6),
        archive_after_us=int(options.archive_after_days * 86_400e6),
    )


def _local(listen: str, port: int) -> str:
    """Address for programs on this machine."""
    host = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(listen, listen)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _addresses(options: BrokerOptions, link: ServerLink) -> Addresses:
    """Addresses to put into join tokens."""

    def text(port: int) -> str:
        if options.advertise:
            host = options.advertise
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return _local(options.listen, port)

    return Addresses(
        control=text(link.control_address.port),
        join=text(link.join_address.port),
        bulk=text(link.bulk_address.port),
        public=link.public,
    )
