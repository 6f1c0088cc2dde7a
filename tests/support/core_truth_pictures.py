"""Whether only one file of a unit is published, and all frames of a step look alike.

What belongs here: the judge of publication: what agents asked, what was granted, who renamed a file.  What it
may not know: how the core settles which look counts.
"""

from __future__ import annotations

from typing import Any

from farm.core.events import VerifiedEvent
from farm.core.outcome import GrantCommand, Outcome
from farm.core.rows import ResultRow, SpecRow
from farm.model.states import AttemptKind, UnitState
from tests.support.core_account import Account, must


class Pictures:
    """What files look like, by (attempt, unit) where they are asked for and by (step, unit) where done."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.asked: dict[tuple[int, int], tuple[object, ...]] = {}
        self.granted: dict[tuple[int, int], tuple[object, ...]] = {}
        self.pictures: dict[tuple[int, int], object] = {}

    def restarted(self) -> None:
        """The broker came back: agents ask again for what was granted and not published."""
        self.granted.clear()

    def spec(self, row: SpecRow) -> None:
        """What the frames of a step must look like was settled, or is open again."""
        self.account.seen["spec"] += 1
        if not row.specs or not self._was_granted(row.step_id, row.unit):
            self._specs_dropped(row.step_id)

    def _was_granted(self, step_id: int, unit: int) -> bool:
        return any(
            self.account.leases[attempt].row.step_id == step_id and other == unit
            for attempt, other in self.granted
        )

    def _specs_dropped(self, step_id: int) -> None:
        """The looks that counted count no more: what was granted by them is refused once it is done.

        Either the only done frame is rendered again, or a file marked done came before the frame that was
        granted as the first.
        """
        for attempt, unit in list(self.granted):
            if self.account.leases[attempt].row.step_id == step_id:
                del self.granted[attempt, unit]

    def judge_grants(self, event: Any, out: Outcome) -> None:
        """All pictures that may be published or are done look alike, as far as anyone could know."""
        if isinstance(event, VerifiedEvent):
            self.asked[event.attempt, event.unit] = event.specs
        for command in out.commands:
            if not isinstance(command, GrantCommand):
                continue
            key = (command.attempt, command.unit)
            self.account.seen["refused-picture" if command.reason else "granted"] += 1
            lease = self.account.leases[command.attempt]
            if command.reason or lease.over or command.unit not in lease.owed:
                continue
            step_id, mine = lease.row.step_id, self.asked[key]
            self.granted[key] = mine
            if lease.row.kind == AttemptKind.COPY:
                told = {*command.supersedes, *lease.supersedes}
                missing = self.account.lost_folders.get((step_id, command.unit), set()) - told
                must(not missing, f"{key}: the grant does not supersede {missing}")
                for peer in self.account.leases.values():
                    rival = peer is not lease and not peer.over and peer.row.kind != AttemptKind.VERIFY
                    mine_too = peer.row.step_id == step_id and command.unit in peer.owed
                    must(not (rival and mine_too), f"{key} may publish while @{peer.row.no} may")
            first = mine[0] if mine else None
            for (other_step, unit), picture in self.pictures.items():
                if (
                    other_step == step_id
                    and picture
                    and first
                    and self.account.maps[step_id][unit] == UnitState.DONE
                ):
                    must(picture == first, f"{key} may publish what looks unlike done unit {unit}")
            for (attempt, unit), other in self.granted.items():
                peer = self.account.leases[attempt]
                if (
                    peer.row.step_id == step_id
                    and not peer.over
                    and unit in peer.owed
                    and unit in peer.may_run
                ):
                    must(
                        self._alike(step_id, unit, other, mine),
                        f"{key} and {(attempt, unit)} may both publish",
                    )

    def _alike(self, step_id: int, unit: int, one: object, two: object) -> bool:
        running = self.account.maps[step_id][unit] == UnitState.RUNNING
        return one == two or not running

    def judge_done(self, row: ResultRow, said: list[Any], where: str) -> None:
        """All done frames of a step look alike."""
        files = [file for unit in said for file in unit.files]
        mine = files[0].spec if files else None
        state = self.account.maps[row.step_id]
        for (step_id, unit), other in self.pictures.items():
            if (
                step_id == row.step_id
                and unit != row.unit
                and state[unit] == UnitState.DONE
                and mine
                and other
            ):
                must(mine == other, f"{where} is done but looks unlike unit {unit}")
        self.pictures[row.step_id, row.unit] = mine

    def may_publish(self, number: int, unit: int) -> None:
        """A file of an attempt moves to its final name now.

        Raises:
            Broken: Another attempt of the same unit published it, or still may.
        """
        mine = self.account.leases[number]
        for other in self.account.leases.values():
            if other is mine or other.over or other.row.step_id != mine.row.step_id:
                continue
            if other.row.kind == AttemptKind.VERIFY or unit not in other.units:
                continue
            done = other.row.id in self.account.published.get((mine.row.step_id, unit), ())
            must(
                not (done and unit in other.owed),
                f"unit {unit}: @{mine.row.no} and @{other.row.no} published",
            )
            if mine.row.kind == AttemptKind.COPY:
                must(
                    unit not in other.owed,
                    f"unit {unit}: copy @{mine.row.no} published before @{other.row.no} ended",
                )
