"""The typed client: one method per request, used by the command line, the desktop client and scripts.

What belongs here: the session on the control socket, its replies and their errors, following topics, and
logs and previews from the bulk socket.  What must not: how anything is shown, and ZeroMQ.

    with Farm.connect() as farm:
        for row in farm.jobs().jobs:
            print(row.job, row.state)

A ``Farm`` is used from one thread.

Long because every request has its own method with its words here, and the rules of asking again after a lost
connection must be read beside them.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from farm.model.errors import (
    FarmUnreachable,
    OvercrankError,
    PeerError,
    SessionRefused,
    UnknownName,
    from_wire,
)
from farm.protocol import client as wire
from farm.protocol.agent import ByeMsg
from farm.protocol.bulk import (
    PIECE,
    AnyBulkOut,
    BulkErrorMsg,
    ColumnsGetMsg,
    ColumnsMsg,
    LogGetMsg,
    LogPageMsg,
    PreviewGetMsg,
    PreviewMsg,
)
from farm.protocol.codec import Codec, bulk_out_codec, client_codec, encode
from farm.protocol.common import RefusedMsg, WelcomeMsg
from farm.protocol.session import PeerSession, Phase
from farm.sdk import talk
from farm.sdk.link import Link
from farm.sdk.mirror import Mirror

R = TypeVar("R")

#: Default wait for an answer, in seconds.
TIMEOUT_S = 10.0
#: Longest single wait for a message, so that news of the connection is seen.
_SLICE_S = 0.5
#: Longest wait for the goodbye to be on its way.
_BYE_S = 0.5
#: How often a growing log is asked for more.
_LOG_POLL_S = 0.5


class Farm:
    """A farm, as a client sees it.

    Args:
        control: Connection to the broker's control socket.
        open_bulk: Makes the connection to its bulk socket, when one is first needed.
        timeout_s: How long to wait for an answer.
        name: The farm's name here.
        place: Where the broker is, for messages.
        clock: Seconds that only grow.
        pause: Waits so many seconds.
    """

    def __init__(
        self,
        control: Link,
        open_bulk: Callable[[], Link] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        name: str = "",
        place: str = "the broker",
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.place = place
        self.timeout_s = timeout_s
        self._link = control
        self._open_bulk = open_bulk
        self._bulk: Link | None = None
        self._bulk_codec: Codec[AnyBulkOut] | None = None
        self._clock = clock
        self._pause = pause
        self._session = PeerSession(client_codec(), talk.hello)
        self._greeted_on = -1
        self._greetings = 0
        self._news: deque[Any] = deque()
        self._id = 0
        self._closed = False

    @classmethod
    def connect(cls, name: str | None = None, timeout_s: float | None = None) -> Farm:
        """Opens a session with a farm.

        Args:
            name: Which one; default: OVERCRANK_FARM, else the last joined, else this machine's.
            timeout_s: How long to wait for this and later answers; default: option ``timeout_s``.

        Raises:
            FarmUnreachable: No broker answers.
            SessionRefused: It does not know this key, or speaks another version.
        """
        from farm.sdk.connect import dial, find_access

        access = find_access(name)
        if timeout_s is None:
            timeout_s = _option_timeout_s(access.farm)
        control = dial(access, access.endpoint.control, timeout_s)
        wait_s = timeout_s
        farm = cls(
            control,
            lambda: dial(access, access.endpoint.bulk, wait_s),
            timeout_s=timeout_s,
            name=access.farm,
            place=access.endpoint.control,
        )
        try:
            farm.open()
        except BaseException:
            farm.close()
            raise
        return farm

    def __enter__(self) -> Farm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; may be called twice."""
        linger_s = 0.0
        if self._session.phase is Phase.OPEN and not self._closed:
            # So that the broker forgets this session at once; where that is lost, it does so later.
            with contextlib.suppress(OvercrankError):
                linger_s = _BYE_S if self._link.send(encode(ByeMsg())) else 0.0
        self._closed = True
        self._link.close(linger_s)
        if self._bulk is not None:
            self._bulk.close()
            self._bulk = None

    @property
    def welcome(self) -> WelcomeMsg:
        """What the broker said of itself and of this key; opens the session if need be."""
        self.open()
        assert self._session.welcome is not None
        return self._session.welcome

    def open(self) -> None:
        """Opens the session unless it is open.

        Raises:
            FarmUnreachable: The broker does not answer.
            SessionRefused: It refuses this key or version.
        """
        self._greet_if_needed(self._clock() + self.timeout_s)

    # -- requests ------------------------------------------------------------------------------------

    def submit(self, job: bytes, *, repeat: bool = False, force: bool = False) -> wire.SubmitReply:
        """Submits a job file (JSON).

        Args:
            job: The job file.
            repeat: It has a client token, so that submitting it again after a lost answer gives the same
                job (``farm.sdk.jobfile.with_token`` adds one).
            force: Also when no node of the farm could ever take a step.
        """
        return self._ask(wire.SubmitReq, wire.SubmitReply, repeat=repeat, job=job, force=force)

    def jobs(
        self,
        states: tuple[str, ...] = (),
        *,
        user: str = "",
        archived: bool = False,
        before: int = 0,
        limit: int = 200,
    ) -> wire.JobsReply:
        """Jobs, newest first; ``before`` pages."""
        return self._ask(
            wire.JobsReq,
            wire.JobsReply,
            states=states,
            user=user,
            archived=archived,
            before=before,
            limit=limit,
        )

    def job(self, job: int, *, spec: bool = False) -> wire.JobReply:
        """One job with its steps, and its job file if asked."""
        return self._ask(wire.JobReq, wire.JobReply, job=job, spec=spec)

    def frames(
        self, address: str, states: tuple[str, ...] = (), *, offset: int = 0, limit: int = 1000
    ) -> wire.FramesReply:
        """Units of a job, a step or some frames."""
        return self._ask(
            wire.FramesReq, wire.FramesReply, address=address, states=states, offset=offset, limit=limit
        )

    def attempts(self, address: str, *, limit: int = 200) -> wire.AttemptsReply:
        """Attempts of a job, a step or a frame, newest first."""
        return self._ask(wire.AttemptsReq, wire.AttemptsReply, address=address, limit=limit)

    def history(self, job: int = 0, *, before_us: int = 0, limit: int = 200) -> wire.HistoryReply:
        """Recorded changes of a job, or of the farm, newest first."""
        return self._ask(wire.HistoryReq, wire.HistoryReply, job=job, before_us=before_us, limit=limit)

    def act(
        self, action: str, address: str, value: str = "", *, reason: str = "", force: bool = False
    ) -> wire.ActReply:
        """Does something to work: ``job-pause``, ``unit-retry`` ... (``farm.model.roles.ACTIONS``)."""
        return self._ask(
            wire.ActReq,
            wire.ActReply,
            repeat=False,
            action=action,
            address=address,
            value=value,
            reason=reason,
            force=force,
        )

    def set(
        self, address: str, values: dict[str, Any], *, reason: str = "", force: bool = False
    ) -> wire.ActReply:
        """Sets fields of a job or a step: all of them, or none when one is wrong.

        With ``force`` also when no node of the farm could ever take the step then; the answer warns.
        """
        return self.act("set", address, msgspec.json.encode(values).decode(), reason=reason, force=force)

    def estimate(self, job: bytes) -> wire.EstimateReply:
        """What a job file (JSON) would take if it were submitted now; submits nothing."""
        return self._ask(wire.EstimateReq, wire.EstimateReply, job=job)

    def policy(self) -> wire.PolicyReply:
        """The farm's policy, and what its limits hold now."""
        return self._ask(wire.PolicyReq, wire.PolicyReply)

    def set_policy(
        self, values: dict[str, str] | None = None, *, whole: bytes = b"", reason: str = ""
    ) -> wire.ActReply:
        """Changes fields of the policy by dotted keys, or replaces it (JSON)."""
        return self._ask(
            wire.PolicySetReq, wire.ActReply, repeat=False, values=values or {}, whole=whole, reason=reason
        )

    def nodes(self) -> wire.NodesReply:
        """The nodes."""
        return self._ask(wire.NodesReq, wire.NodesReply)

    def node_act(self, action: str, node: str, *, reason: str = "", value: str = "") -> wire.ActReply:
        """Does something to a node: ``node-drain``, ``node-enable`` ...; see ``NodeActReq``."""
        return self._ask(
            wire.NodeActReq,
            wire.ActReply,
            repeat=False,
            action=action,
            node=node,
            reason=reason,
            value=value,
        )

    def spend(self, by: str = "job", *, job: int = 0) -> wire.SpendReply:
        """Money by job, user, project, node or site."""
        return self._ask(wire.SpendReq, wire.SpendReply, by=by, job=job)

    def why(self, address: str = "", *, node: str = "") -> wire.WhyReply:
        """Why work is in its state, or why a node is idle."""
        return self._ask(wire.WhyReq, wire.WhyReply, address=address, node=node)

    def status(self) -> wire.StatusReply:
        """The farm at a glance."""
        return self._ask(wire.StatusReq, wire.StatusReply)

    def ping(self) -> float:
        """Seconds until a question that asks for nothing is answered."""
        begun_s = time.perf_counter()
        self._ask(wire.PingReq, wire.OkReply)
        return time.perf_counter() - begun_s

    def series(self, since_us: int = 0) -> wire.SeriesReply:
        """How the farm went since a moment, for plots; 0 = as far as the broker knows."""
        return self._ask(wire.SeriesReq, wire.SeriesReply, since_us=since_us)

    def keys(self, action: str = "keys-list", **fields: Any) -> wire.KeysReply:
        """Manages keys: ``keys-list``, ``keys-invite``, ``keys-add``, ``keys-revoke``; see ``KeysReq``."""
        return self._ask(wire.KeysReq, wire.KeysReply, repeat=action == "keys-list", action=action, **fields)

    def record(self, action: str, name: str = "") -> wire.RecordReply:
        """Starts, stops, lists and finds recordings of the farm's events; see ``RecordReq``."""
        repeat = action in ("list", "get")
        return self._ask(wire.RecordReq, wire.RecordReply, repeat=repeat, action=action, name=name)

    def shutdown(self, reason: str = "") -> None:
        """Stops the broker in order."""
        self._ask(wire.ShutdownReq, wire.OkReply, repeat=False, reason=reason)

    # -- following -----------------------------------------------------------------------------------

    def subscribe(self, *topics: str, idle_s: float | None = None) -> Iterator[Mirror]:
        """Follows ``jobs``, ``nodes`` or ``job:12``.

        Yields the same mirror after the snapshot and after every change; while the connection is lost it
        yields once with ``trouble`` set, and again after the new snapshot.

        Args:
            topics: What to follow; replaces what this session followed before.
            idle_s: Also yield after so many seconds without news.

        Raises:
            SessionRefused: The broker refuses this key or version from now on.
        """
        mirror = Mirror()
        greeting = self._follow(mirror, topics)
        yield mirror
        idle_since_s = self._clock()
        while True:
            if not self._news:
                self._news += self._receive(_SLICE_S if idle_s is None else min(_SLICE_S, idle_s))
            while self._news:
                message = self._news.popleft()
                if isinstance(message, wire.DeltaMsg):
                    mirror.delta(message)
                elif isinstance(message, wire.SnapshotMsg):  # too much had changed to be told one by one
                    mirror.snapshot(message)
                else:
                    continue
                yield mirror
                idle_since_s = self._clock()
            if self._stale or self._greetings != greeting:
                if self._stale and not mirror.trouble:
                    mirror.trouble = f"the connection to {self.place} was lost; dialling again"
                    yield mirror
                try:
                    greeting = self._follow(mirror, topics)
                except SessionRefused:
                    raise
                except FarmUnreachable:
                    continue
                yield mirror
                idle_since_s = self._clock()
            elif idle_s is not None and self._clock() - idle_since_s >= idle_s:
                yield mirror
                idle_since_s = self._clock()

    def _follow(self, mirror: Mirror, topics: tuple[str, ...]) -> int:
        """Subscribes and takes the snapshot; returns the number of the greeting it belongs to."""
        snapshot = self._ask(wire.SubscribeReq, wire.SnapshotMsg, topics=topics)
        self._news.clear()  # what came before it is in it
        mirror.snapshot(snapshot)
        return self._greetings

    # -- logs and previews ---------------------------------------------------------------------------

    def log_page(self, job: int, step: str, no: int, offset: int = 0, limit: int = PIECE) -> LogPageMsg:
        """A page of an attempt's log; negative ``offset`` counts from the end."""
        return self._ask_bulk(
            lambda id_: LogGetMsg(id=id_, job=job, step=step, no=no, offset=offset, limit=limit), LogPageMsg
        )

    def log_stream(
        self, job: int, step: str, no: int, offset: int = 0, *, follow: bool = False
    ) -> Iterator[bytes]:
        """An attempt's log from ``offset`` on, piece by piece.

        Args:
            job: Job number.
            step: Step name.
            no: Attempt number within the step.
            offset: Where to begin; negative counts from the end.
            follow: Go on until the attempt has ended, instead of stopping at the present end.
        """
        while True:
            page = self.log_page(job, step, no, offset)
            offset = page.offset + len(page.data)
            if page.data:
                yield page.data
            if offset < page.size and page.data:
                continue
            if page.ended or not follow:
                return
            self._pause(_LOG_POLL_S)

    def preview(self, job: int, step: str, unit: int) -> bytes:
        """The newest preview (JPEG) of a unit.

        Raises:
            UnknownName: There is none yet.
        """
        answer = self._ask_bulk(lambda id_: PreviewGetMsg(id=id_, job=job, step=step, unit=unit), PreviewMsg)
        if not answer.data:
            raise UnknownName(f"there is no preview of that frame of J{job}/{step} yet")
        return answer.data

    def columns(self, job: int, step: str, since: int = 0, first: int = 0) -> ColumnsMsg:
        """Figures of a step's frames, a page of all of them or what changed; see ``ColumnsGetMsg``."""
        return self._ask_bulk(lambda id_: ColumnsGetMsg(id_, job, step, since, first), ColumnsMsg)

    # -- inside --------------------------------------------------------------------------------------

    @property
    def _stale(self) -> bool:
        """Whether hello has to be said: never said, asked for again, or on an older connection."""
        return self._session.phase is not Phase.OPEN or self._link.connections != self._greeted_on

    def _ask(self, request: type[wire.Request], reply: type[R], *, repeat: bool = True, **fields: Any) -> R:
        """Sends a request and waits for its reply.

        A request is sent again when the broker says that it never took it, and after a lost connection
        when asking twice does no harm.

        Raises:
            OvercrankError: As the broker's ErrorReply says.
            FarmUnreachable: No reply in time.
        """
        deadline_s = self._clock() + self.timeout_s
        if not repeat:
            self._catch_up()
        self._greet_if_needed(deadline_s)
        self._id += 1
        body = encode(request(id=self._id, **fields))
        self._send(body, deadline_s)
        sent_on, gaps = self._link.connections, self._session.gaps
        while True:
            for message in self._receive(self._left(deadline_s)):
                if getattr(message, "id", None) != self._id:
                    if isinstance(message, (wire.DeltaMsg, wire.SnapshotMsg)):
                        self._news.append(message)  # of what is followed: not lost while asking
                    continue
                if isinstance(message, wire.ErrorReply):
                    raise from_wire(message.code, message.message, message.hint)
                if isinstance(message, reply):
                    return message
                raise PeerError(f"{self.place} answered {request.__name__} with {type(message).__name__}")
            if self._stale:
                # A rehello on the very connection we sent on means that the request was not taken.
                unknown = self._link.connections != sent_on or self._session.gaps != gaps
                if unknown and not repeat:
                    raise talk.outcome_unknown(self.place)
                self._greet_if_needed(deadline_s)
                self._send(body, deadline_s)
                sent_on, gaps = self._link.connections, self._session.gaps
            elif self._clock() >= deadline_s:
                raise talk.no_answer(self.place, self.timeout_s)

    def _greet_if_needed(self, deadline_s: float) -> None:
        while self._stale:
            self._link.wait_up(max(0.0, deadline_s - self._clock()))
            connections = self._link.connections
            self._send(self._session.greet(), deadline_s)
            self._greeted_on = connections
            self._greetings += 1
            while self._phase is Phase.GREETING and self._link.connections == connections:
                self._receive(self._left(deadline_s))
                if self._phase is Phase.GREETING and self._clock() >= deadline_s:
                    raise talk.no_welcome(self.place, self.timeout_s)

    def _send(self, body: bytes, deadline_s: float) -> None:
        while not self._link.send(body):
            self._link.wait_up(max(0.0, deadline_s - self._clock()))
            if self._clock() >= deadline_s:
                raise FarmUnreachable(f"{self.place} takes no messages")

    def _catch_up(self) -> None:
        """Takes what has come while nobody listened, the news of the connection last.

        A connection that was lost and is back is not the one a session was opened on: what is sent on it
        before a hello would be answered by nothing, and its outcome be unknown.
        """
        while (body := self._link.recv(0.0)) is not None:
            found = self._understand(body)
            self._news += [m for m in found if isinstance(m, (wire.DeltaMsg, wire.SnapshotMsg))]

    def _receive(self, timeout_s: float) -> list[Any]:
        body = self._link.recv(timeout_s)
        return self._understand(body) if body is not None else []

    def _understand(self, body: bytes) -> list[Any]:
        try:
            found = self._session.receive(body)
        except PeerError as error:
            if self._session.phase is Phase.OPEN:
                raise
            # What a broker of another version says may not be understood at all.
            raise talk.not_understood(error) from error
        if self._session.phase is Phase.REFUSED and self._session.refusal is not None:
            raise talk.refusal(self._session.refusal)
        return [message for message in found if not isinstance(message, (WelcomeMsg, RefusedMsg))]

    @property
    def _phase(self) -> Phase:
        return self._session.phase

    def _left(self, deadline_s: float) -> float:
        return min(_SLICE_S, max(0.0, deadline_s - self._clock()))

    def _ask_bulk(self, make: Callable[[int], msgspec.Struct], reply: type[R]) -> R:
        if self._bulk is None:
            if self._open_bulk is None:
                raise FarmUnreachable("this connection has no bulk socket")
            self._bulk = self._open_bulk()
        deadline_s = self._clock() + self.timeout_s
        self._id += 1
        body = encode(make(self._id))
        codec = self._bulk_codec = self._bulk_codec or bulk_out_codec()
        connections = -1
        while True:
            if connections != self._bulk.connections:
                # Reads only: asking again after a lost connection does no harm.
                self._bulk.wait_up(max(0.0, deadline_s - self._clock()))
                if self._bulk.send(body):
                    connections = self._bulk.connections
            answer = self._bulk.recv(self._left(deadline_s))
            if answer is None:
                if self._clock() >= deadline_s:
                    raise talk.no_bulk_answer(self.place, self.timeout_s)
                continue
            message = codec.decode(answer)
            # An error of number 0 is about the sender (its key is let in no more), not about a request.
            if isinstance(message, BulkErrorMsg) and message.id in (0, self._id):
                raise talk.bulk_error(message)
            if getattr(message, "id", None) != self._id:
                continue
            if isinstance(message, reply):
                return message


def _option_timeout_s(farm: str) -> float:
    import os

    from farm.config.places import Places

    if "OVERCRANK_TIMEOUT_S" not in os.environ and not Places(farm).options.exists():
        return TIMEOUT_S  # as most often; reading options takes longer than asking the broker
    from farm.config.load import load_client_options

    return load_client_options(farm).timeout_s
