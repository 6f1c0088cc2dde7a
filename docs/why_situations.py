"""Makes the situations of docs/why.md on a real farm and writes down what `farm why` says of them.

What belongs here: the situations, the commands that make them, what to do about them.  What must not: an
answer written by hand; every answer on the page was printed by the real command, asked of a real broker whose
agents speak the real protocol and render nothing (``tests/support/scene.py``).

    .venv/bin/python docs/why_situations.py           writes docs/why.md (half a minute)
    .venv/bin/python docs/why_situations.py --check   makes them again and ends with 1 where answers differ

Times depend on how fast the machine is that asks; a comparison leaves them out.

Long because it is a list: a situation is a dozen lines, and they stand one after the other.
"""

from __future__ import annotations

import difflib
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.support.scene import Node, Scene, play  # noqa: E402
from tests.support.waiting import eventually  # noqa: E402

PAGE = ROOT / "docs" / "why.md"
#: Who types the commands.
WRANGLER = "lee"
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = r"\d+(?:\.\d+)? (?:s|min|h)\b"


class Situation(NamedTuple):
    """A section of the page: what it is about, the function that makes it, what to do about it."""

    title: str
    about: str
    make: Callable[[Scene], None]
    cure: str


# ---------------------------------------------------------------- the situations


def _never(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2")
    scene.node("gpu-1", 16, gpus=1, pool="gpu")
    scene.submit("--name shot010 --frames 1-20 --gpus 2 --force")
    scene.ask("farm why J1")


def _busy(scene: Scene) -> None:
    first, second = scene.nodes("ws-1", "ws-2")
    scene.submit("--name shot010 --project film --frames 1-20 --cores 8 --chunk 1")
    first.done(40.0)
    second.done(44.0)
    scene.note("both nodes are at shot010; its first frames took 40 and 44 s")
    scene.submit("--name logo --project advert --frames 1-10 --cores 8", user="kim")
    first.lease()
    second.lease()
    scene.submit("--name shot020 --project film --frames 1-30 --cores 8")
    scene.ask("farm why J3")
    scene.ask("farm why J1/command/3")


def _paused(scene: Scene) -> None:
    scene.log_in("wrangler", WRANGLER)
    scene.nodes("ws-1")
    scene.submit("--name shot010 --frames 1-20 --cores 8")
    scene.until("farm job J1", "running")
    scene.type("farm pause J1 --reason 'the client changed the plate'")
    scene.ask("farm why J1")


def _later(scene: Scene) -> None:
    scene.nodes("ws-1")
    scene.submit("--name overnight --frames 1-200 --start-after 2099-01-31T19:00:00+01:00")
    scene.ask("farm why J1")


def _scout(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    scene.submit("--name shot010 --frames 1-100 --cores 8 --chunk 1 --scout 3")
    node.lease()
    scene.ask("farm why J1/command/2")
    for seconds in (40.0, 44.0, 52.0):
        node.done(seconds)
    scene.note("the three scout frames are done; they took 40, 44 and 52 s")
    scene.until("farm job J1", "paused")
    scene.ask("farm why J1")


def _limit(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2")
    scene.type("farm policy set limits.nuke.total=1")
    scene.submit("--name comp010 --frames 1-20 --cores 8 --limit nuke=1")
    scene.submit("--name comp020 --frames 1-20 --cores 8 --limit nuke=1")
    scene.until("farm limits", "J2")
    scene.ask("farm why J2")
    scene.ask("farm limits")


def _left(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    scene.log_in("wrangler", WRANGLER)
    scene.type("farm policy set limits.nuke.total=4 reserve_after_s=0")
    scene.submit("--name comp010 --frames 1-40 --cores 2 --chunk 1 --limit nuke=1")
    node.lease()
    scene.submit("--name stereo --frames 1-2 --cores 2 --limit nuke=4", user="kim")
    scene.type("farm priority J2 60")
    node.done(40.0)
    scene.note("as a frame of comp010 ends, the next takes its licence, so four are never free at once")
    node.done(44.0)
    scene.until("farm why J1", "left to J2")
    scene.note("that went on for reserve_after_s; what comes free now is left to stereo")
    scene.ask("farm why J1")
    scene.ask("farm why J2")


def _user_cap(scene: Scene) -> None:
    scene.nodes("ws-1", "ws-2")
    scene.type("farm policy set 'user_max_cores.*=8'")
    scene.submit("--name shot010 --frames 1-20 --cores 8")
    scene.ask("farm why J1")
    scene.ask("farm why --node ws-2")


def _job_cap(scene: Scene) -> None:
    scene.nodes("ws-1")
    scene.submit("--name shot010 --frames 1-20 --cores 2 --max-cores 4")
    scene.ask("farm why J1")


def _blocked(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    job = {
        "overcrank_job": 1,
        "name": "shot010",
        "user": "ann",
        "steps": [
            {
                "name": "sim",
                "renderer": "command",
                "frames": "1-3",
                "chunk": 1,
                "resources": {"cores": 8},
                "params": {"command": ["/studio/bin/simulate", "{frame}"]},
            },
            {
                "name": "beauty",
                "renderer": "command",
                "frames": "1-3",
                "params": {"command": ["/studio/bin/trace", "{frame}"]},
                "after": [{"step": "sim", "frames": True}],
            },
            {
                "name": "film",
                "kind": "single",
                "renderer": "command",
                "params": {"command": ["/studio/bin/film"]},
                "after": ["beauty"],
            },
        ],
    }
    scene.file("shot010.json", job)
    scene.note("shot010.json: sim 1-3; beauty 1-3 after sim, frame by frame; film after beauty")
    scene.type("farm submit shot010.json")
    node.done(30.0)
    node.fail("config", "cache/plate.0002.bgeo does not exist")
    node.done(30.0)
    scene.note("sim 1 and 3 are done; sim 2 failed: its cache file does not exist")
    scene.until("farm job J1", "failed")
    scene.ask("farm why J1/beauty/2")
    scene.ask("farm why J1")


def _failed(scene: Scene) -> None:
    first, second = scene.nodes("ws-1", "ws-2")
    scene.submit("--name shot010 --frames 7 --cores 8")
    words = "Error: texture wood_04.tx: unexpected end of file"
    first.fail("renderer", words)
    second.fail("renderer", words)
    scene.note(f"ws-1, then ws-2: {words}")
    eventually(lambda: _took(first, second), "the third try is leased")
    (first if first.agent.leases else second).fail("renderer", words)
    scene.note("and once more, since no other node is left to try")
    scene.until("farm job J1", "failed")
    scene.ask("farm why J1")
    scene.ask("farm why J1/command/7")


def _took(*nodes: Node) -> bool:
    for node in nodes:
        node.agent.take()
    return any(node.agent.leases for node in nodes)


def _away(scene: Scene) -> None:
    *_, gone = scene.nodes("ws-1", "ws-2", "ws-3", "ws-4")
    scene.type("farm node drain ws-1 ws-2 --reason 'fans are loud'")
    scene.type(f"farm node set ws-3 schedule={_other_day()}")
    gone.leave()
    scene.note("ws-4's agent was stopped")
    scene.until("farm nodes", "offline")
    scene.submit("--name shot010 --frames 1-20 --cores 8")
    scene.ask("farm why J1")
    scene.ask("farm why --node ws-1")
    scene.ask("farm why --node ws-3")


def _other_day() -> str:
    """A day of the week that is neither today nor tomorrow, anywhere."""
    return DAYS[(datetime.now(UTC).weekday() + 3) % 7]


def _kept(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    scene.type("farm policy set reserve_after_s=1")
    scene.submit("--name small --frames 1-40 --cores 2 --chunk 1")
    node.lease()
    scene.submit("--name large --frames 1-2 --cores 8", user="kim")
    scene.note("ws-1 renders four frames of small at a time; as one ends, the next takes its place")
    node.done(600.0)
    scene.until("farm why --node ws-1", "kept for J2")
    node.done(600.0)
    scene.note("the large frames were passed over for a second: ws-1 is kept for them")
    scene.ask("farm why J1")
    scene.ask("farm why J2")
    scene.ask("farm why --node ws-1")


def _avoided(scene: Scene) -> None:
    first, second = scene.nodes("ws-1", "ws-2")
    scene.submit("--name shot010 --frames 7 --cores 8")
    first.lease()
    scene.submit("--name logo --frames 1-10 --cores 8 --chunk 1", user="kim")
    second.done(40.0)
    second.lease()
    first.fail("renderer", "Error: texture wood_04.tx: unexpected end of file")
    scene.note("J1/command/7 failed on ws-1, where its texture could not be read; ws-1 got frames of logo")
    first.lease()
    scene.type("farm cancel J2/command/4-10")
    first.done(40.0)
    scene.ask("farm why J1/command/7")


def _licence(scene: Scene) -> None:
    (node,) = scene.nodes("ws-1")
    scene.submit("--name comp010 --frames 1001 --cores 8")
    node.fail("licence", "no licence: FLEXnet error -4, licensed number of users already reached")
    scene.note("the licence server had none left")
    scene.ask("farm why J1/command/1001")
    scene.ask("farm why --node ws-1")


def _idle(scene: Scene) -> None:
    scene.nodes("ws-1")
    scene.ask("farm why --node ws-1")


def _idle_beside_work(scene: Scene) -> None:
    scene.node("ws-1")
    scene.node("gpu-1", 16, gpus=2, pool="gpu")
    scene.submit("--name shot010 --frames 1-20 --gpus 2 --cores 8")
    scene.submit("--name shot020 --frames 1-20 --pool gpu --cores 8 --ram-mib 24GiB")
    scene.submit("--name big --frames 1-20 --cores 12")
    scene.ask("farm why --node ws-1")


def _site(scene: Scene) -> None:
    scene.node("cloud-1", site="cloud")
    scene.type("farm policy set sites.cloud.projects=feature")
    scene.submit("--name shot010 --project advert --frames 1-20 --cores 8 --force")
    scene.ask("farm why J1")


SITUATIONS: tuple[Situation, ...] = (
    Situation(
        "Nothing can ever take it",
        "The job asks for more than any node of the farm has. `farm submit` refuses such a job; "
        "`--force` sends it all the same, to wait for a node that can.",
        _never,
        "Ask for less with the command it names: that of the node which comes nearest. Or let a larger "
        "node join. Nodes that have none of what is asked for (no GPU at all) are named without a cure.",
    ),
    Situation(
        "All nodes are busy, and others come first",
        "What comes before a job is decided by priority, then by fair share, then by age "
        "([scheduling.md](scheduling.md)); the answer names whose jobs those are.",
        _busy,
        "Wait, or raise the priority where it is warranted (artists up to 75). A start between two "
        "times means that the order may still change: somebody with a small share so far goes first.",
    ),
    Situation(
        "Somebody paused it",
        "Running frames finish, nothing new starts.",
        _paused,
        "Ask who paused it, then `farm resume J1`. `farm history J1` has every change.",
    ),
    Situation(
        "It starts later",
        "The job has a `start_after`.",
        _later,
        "`farm resume J1` starts it now; `farm set J1 start_after=...` moves it.",
    ),
    Situation(
        "Scout frames first, then approval",
        "The job renders three frames and waits until somebody agrees to what the rest will take.",
        _scout,
        "Look at the frames (`farm preview J1/command/1`), then `farm resume J1` or `farm cancel J1`.",
    ),
    Situation(
        "A licence limit is used up",
        "The farm counts one licence of nuke, and another job holds it.",
        _limit,
        "Wait until a chunk of its holder ends, or have a wrangler raise the limit if there are more "
        "licences. Smaller chunks pass licences on sooner.",
    ),
    Situation(
        "Tokens are left to a job that needs many",
        "Two jobs share four licences; one takes one a frame, the other four at once. After "
        "`reserve_after_s` of being overtaken what comes free is left to the large one, for ten minutes at "
        "most; then the others have as long.",
        _left,
        "Nothing: the large one starts when the running frames end, and the small ones follow. Where that is "
        "wrong, the cure puts the small ones first. The same goes for cores of a cap.",
    ),
    Situation(
        "A cap of the user",
        "The policy lets nobody hold more than 8 cores at once, so the second node stays idle.",
        _user_cap,
        "It goes on as the user's own frames end. Where the cap is too tight for an empty farm, a "
        "wrangler lifts it (`farm policy set 'user_max_cores.*='`).",
    ),
    Situation(
        "A cap of the job",
        "Its owner keeps it from taking the whole farm.",
        _job_cap,
        "`farm set J1 max_cores=0` takes the cap away.",
    ),
    Situation(
        "It waits for a frame that failed",
        "A step waits for another, here frame by frame; one frame there failed.",
        _blocked,
        "Mend the cause and `farm retry J1/sim/2`. Or do without: `farm skip J1/sim/2` lets what waits "
        "go on. What a failure means for what waits can be said beforehand (`on_failure` in "
        "[job-file.md](job-file.md)).",
    ),
    Situation(
        "It failed",
        "The answer has the reason, the class of failure, the nodes, and where to read on.",
        _failed,
        "Read the log, mend the scene, `farm retry J1`. What each class of failure means is in "
        "[failure-policy.md](failure-policy.md). The same words on several nodes mean the job; on one "
        "node only, the node.",
    ),
    Situation(
        "Its nodes are drained, outside their hours or gone",
        "Four nodes could take it, and none takes anything now.",
        _away,
        "Every line has its cure. A node that drained itself says why; mend that first.",
    ),
    Situation(
        "A node is kept for a large request",
        "Two frames need a whole node, which small frames would fill again and again. After "
        "`reserve_after_s` of being passed over, the node that has room first is kept for them; what "
        "ends in time may still use it.",
        _kept,
        "Nothing: the large frames start when the running ones end, and the small ones follow. `farm "
        "policy set reservations=0` turns it off; `preempt` in the policy lets high priorities take "
        "room at once.",
    ),
    Situation(
        "It failed on the only free node",
        "A frame that failed goes to another node while there is one that can take it, even if that one is "
        "busy.",
        _avoided,
        "Wait for the other node, or raise the job's priority so that it is next there. Once ws-1 is mended, "
        "`farm cancel J1/command/7` and `farm retry J1/command/7` give it all its tries anew, there too.",
    ),
    Situation(
        "No licence at the licence server",
        "The program found no token. Nobody is blamed and no try is spent; the frame waits 15 s, then "
        "30, up to ten minutes.",
        _licence,
        "Nothing, or more licences. Let the farm count them (`limits`), so that frames do not start in vain.",
    ),
    Situation(
        "A site is kept for others",
        "The policy says whose work may run at a site.",
        _site,
        "A wrangler changes the site's rule, or a node elsewhere joins.",
    ),
    Situation(
        "A node is idle, and there is nothing to do",
        "Asked of a node.",
        _idle,
        "Nothing. Where jobs are paused, blocked or wait to be tried again, the answer counts them.",
    ),
    Situation(
        "A node is idle though work waits",
        "Asked of a node: each step that waits, with what keeps it from this node.",
        _idle_beside_work,
        "Where the same reason comes again and again, jobs ask for more than they need: memory and "
        "whole pools are the usual ones.",
    ),
)

HEAD = """<!-- Made by docs/why_situations.py, which makes each situation on a farm; change that. -->

# Why does it wait, why did it fail, why is a node idle?

`farm why` answers with the very tests the scheduler decides by, so it cannot be of another opinion. Ask it of
a job (`farm why J12`), a step (`farm why J12/beauty`), frames (`farm why J12/beauty/17-20`) or a node
(`farm why --node ws-07`); `--json` for scripts.

An answer has, for each step:

- its state, with the number of frames the answer is about;
- what holds it, most important first, and after `->` what would help;
- for work that waits, every node of the farm in groups, those nearest to taking it first:
  `NODES: reason -> cure`;
- when it is expected to start. No line about it means that it stands still until somebody acts, or that
  nobody can tell.

Every answer below was printed by the real command on a farm in that situation.
"""


def page() -> str:
    """Makes all situations; returns the page."""
    parts = [HEAD]
    with tempfile.TemporaryDirectory(prefix="why-") as name:
        for number, situation in enumerate(SITUATIONS):
            scene = play(situation.make, Path(name) / str(number))
            made = "\n".join(scene.lines)
            asked = "\n\n".join(f"$ {line}\n{answer}" for line, answer in scene.answers)
            parts.append(f"## {situation.title}\n\n{situation.about}\n")
            if made:
                parts.append(f"```\n{made}\n```\n")
            parts.append(f"```\n{asked}\n```\n\n**What to do.** {situation.cure}\n")
    return "\n".join(parts)


def lasting(text: str) -> str:
    """A page without what differs from one making to the next: times, money that grows with them, days."""
    text = re.sub(r"expected to start [^;\n]*|may start at any moment", "expected to start then", text)
    text = re.sub(_TIME, "some time", text)
    text = re.sub(r"\d+\.\d{6}", "some", text)
    return re.sub(rf"\b(?:{'|'.join(DAYS)})\b", "someday", text)


def main(arguments: Sequence[str]) -> int:
    """Writes or checks."""
    if list(arguments) not in ([], ["--check"]):
        print("usage: why_situations.py [--check]", file=sys.stderr)
        return 2
    made = page()
    if not arguments:
        PAGE.write_text(made, encoding="utf-8")
        return 0
    there = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    old, new = lasting(there).splitlines(), lasting(made).splitlines()
    if old == new:
        return 0
    print("docs/why.md is stale: run docs/why_situations.py", file=sys.stderr)
    for line in difflib.unified_diff(old, new, "docs/why.md", "the farm", lineterm="", n=2):
        print(line, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
