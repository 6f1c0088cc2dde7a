"""Writes the reference pages that are made from the code, or checks that they are up to date.

What belongs here: turning tables and records of the code into Markdown and JSON.  What must not: a fact that
the code does not have; prose that no table implies belongs into a page written by hand.

    .venv/bin/python docs/generate.py           writes them
    .venv/bin/python docs/generate.py --check   says which are stale, and ends with 1 if one is
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from client_gui.actions.keys import KEPT
from client_gui.actions.records import LATER_FIELDS, RECORDS, Menu, where_text
from farm.broker.metric_names import METRICS
from farm.config.load import Option, options
from farm.core import pace
from farm.model import failures, states
from farm.model.jobs import job_schema
from farm.model.policy import Policy
from farm.model.query import VOCABULARIES, Kind
from farm.model.states import FailureClass, UnitState, WorkState
from farm.renderers.registry import BUILT_IN, describe, get_renderer
from node_agent import machine

FOLDER = Path(__file__).resolve().parent
NOTE = "<!-- Made by docs/generate.py from {source}; change that, not this page. -->\n"

#: What each class means to people.  A class without words here is an error, so that none is forgotten.
CLASSES: dict[FailureClass, str] = {
    FailureClass.RENDERER: "the program crashed, or its log has an error",
    FailureClass.OUTPUT: "a file is missing, empty, unreadable or not as specified",
    FailureClass.TIMEOUT: "the chunk took longer than the step's `timeout_s`, or a frame than its "
    "`failure.frame_timeout_s`",
    FailureClass.SILENT: "the program said nothing and used nothing for too long (`failure.silent_x`)",
    FailureClass.OOM_VRAM: "the GPU's memory was not enough",
    FailureClass.OOM_RAM: "the machine's memory was not enough",
    FailureClass.LICENCE: "the licence server had no token",
    FailureClass.CONFIG: "the job can never work as it is: no such scene, engine, parameter",
    FailureClass.PATH: "the job's own input or destination is missing, unwritable or full",
    FailureClass.NODE: "the node's own disk, GPU, driver or mount is at fault",
    FailureClass.LOST: "the agent is gone",
    FailureClass.PREEMPTED: "the machine or the place was taken away for something else",
}
#: Classes the table is ready for but no part of this version finds yet.
UNREPORTED = (FailureClass.PREEMPTED,)
MEANINGS: dict[UnitState, str] = {
    UnitState.BLOCKED: "waits for what it depends on",
    UnitState.QUEUED: "can be leased as soon as a node can take it",
    UnitState.RUNNING: "leased to an agent under an attempt",
    UnitState.DONE: "every expected file is there and was decoded fully",
    UnitState.FAILED: "given up; the reason is kept with it",
    UnitState.SKIPPED: "done without; what depends on it goes on",
    UnitState.CANCELED: "stopped for good by somebody",
}
PHASES: dict[machine.Phase, str] = {
    machine.Phase.WAITING: "leased, not begun",
    machine.Phase.RENDERING: "its program runs",
    machine.Phase.CHECKING: "its files are being decoded and compared",
    machine.Phase.ASKING: "verified; the broker must say whether the picture fits the step",
    machine.Phase.READY: "may be published once a heartbeat answer is fresh",
    machine.Phase.PUBLISHING: "files move to their final names",
    machine.Phase.SETTLED: "its outcome is reported",
}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(heads) + " |", "| " + " | ".join("---" for _ in heads) + " |"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def options_page() -> str:
    """Every option by table of the configuration file."""
    groups: dict[str, list[Option]] = {}
    for option in options():
        groups.setdefault(option.group, []).append(option)
    heads = ("option", "type", "default", "unit", "what it does")
    parts = [
        NOTE.format(source="farm.config.options"),
        "# Options\n",
        "Each can stand in `farm.toml`, in the table named in the heading; in an environment variable, "
        "`OVERCRANK_` and its name in capitals; and, where the verb has it, in a flag, its name with "
        "hyphens. The flag wins over the variable, the variable over the file. Options of `[farm]` may "
        "also stand in the other tables. Sizes may be written with a unit (`8GiB`). "
        "A wrong value is refused with its place.\n",
    ]
    for group, found in groups.items():
        rows = [(f"`{one.name}`", one.kind, one.default, one.unit, one.help) for one in found]
        parts += [f"## `[{group}]`\n", table(heads, rows)]
    return "\n".join(parts)


def failures_page() -> str:
    """The failure table in words."""
    rows = []
    for kind in FailureClass:
        rule = failures.RULES[kind]
        rows.append((f"`{kind.value}`", CLASSES[kind], _tries(rule), _where(rule), _then(rule)))
    return "\n".join(
        (
            NOTE.format(source="farm.model.failures"),
            "# What happens when a frame fails\n",
            "Every failure has a class, found from the renderer's log, its exit code, its files and the "
            "node. The class decides what happens next; the reason in words is kept with the frame "
            "(`farm why`).\n",
            table(("class", "what", "tries", "the next try", "besides"), rows),
            f"- A node that failed {failures.NODE_FAILURES_PER_STEP} times for a step is not used for it any "
            "more, unless it is the last able one.",
            f"- A job pauses itself when {failures.PAUSE_SHARE:.0%} of its frames, and at least "
            f"{failures.PAUSE_MIN}, have failed. A step with `failure.pause_share` or `pause_least` is "
            "judged by those, and its frames are left out of the job's.",
            "- `attempts` of a step replaces the number of failures in the classes that have one.",
            "- A retry renders only the frames that are missing, never the whole chunk.",
            f"- A node on which work of {Policy().quarantine_users} users failed as "
            f"{_words(sorted(failures.BLAMES_NODE))} within {Policy().quarantine_h:g} hours, and nothing "
            "worked since, is drained and names their steps; never the last node that could do what waits. "
            "`farm node enable` puts it back and begins the count anew (`quarantine_users` and "
            "`quarantine_h` of the policy).",
            "- `failure.silent_x` of a step: an attempt is ended once it printed no line, changed no file, "
            "did no disk I/O and used less than 2 % of a core, all of it for that many times the step's "
            f"median frame (at least {pace.SILENT_LEAST_US / 1e6:g} s). Nothing is ended before a first "
            "frame is done.",
            "- `failure.min_run_s` of a step: a frame that ended well in less has failed as `renderer`.",
            "- `pre` and `post` of a step run once per chunk, as argument lists without a shell, in the "
            "renderer's environment and folder. `{frames}`, `{output}`, `{scratch}` and `{cores}` are filled "
            "in; `{frame}` is refused. When `pre` fails, nothing is rendered and all frames of the chunk "
            "fail; `post` runs for the frames that were rendered, before they are published, and its failure "
            "fails them.",
            "- An attempt that an agent ends without a word about its frames counts as `lost`.",
            f"- Nothing of this version reports {_words(UNREPORTED)} yet.\n",
        )
    )


def _words(classes: Sequence[FailureClass]) -> str:
    return " or ".join(f"`{kind.value}`" for kind in classes)


def _tries(rule: failures.FailureRule) -> str:
    if rule.attempts == 0:
        return "none: the frame fails at once"
    if rule.attempts is not None:
        return f"fails at the {rule.attempts}{_ordinal(rule.attempts)} failure"
    if rule.cap is None:
        return "spends none, no end"
    times = "once" if rule.cap == 1 else f"{rule.cap} times"
    return f"spends none, put back {times} at most"


def _ordinal(number: int) -> str:
    return {1: "st", 2: "nd", 3: "rd"}.get(number, "th")


def _where(rule: failures.FailureRule) -> str:
    if rule.attempts == 0:
        return ""
    place = "another node while there is one" if rule.other_node else "any able node"
    if rule.bigger:
        place = "a bigger placement: twice the memory, or a node with a larger GPU, while there is one"
    if rule.backoff_s:
        place += f", after {rule.backoff_s:g} s (doubled each time, at most 600 s)"
    return place


def _then(rule: failures.FailureRule) -> str:
    found = []
    if rule.drains_node:
        found.append("the node is drained and shows why")
    if rule.pauses_job:
        found.append("then the job pauses itself with the reason")
    return "; ".join(found)


def states_page() -> str:
    """States and moves of units, jobs, nodes, and of a unit on its agent."""
    moves = [
        (
            f"`{old.word}`",
            MEANINGS[old],
            ", ".join(f"`{new.word}`" for new in UnitState if (old, new) in states.LEGAL_MOVES),
        )
        for old in UnitState
    ]
    phases = [
        (
            f"`{phase.name.lower()}`",
            PHASES[phase],
            ", ".join(f"`{new.name.lower()}`" for new in sorted(machine.MOVES[phase])),
        )
        for phase in machine.Phase
    ]
    satisfying = " and ".join(f"`{state.word}`" for state in sorted(states.SATISFIES))
    marked = all(
        (old, UnitState.DONE) in states.MARK_DONE_MOVES for old in UnitState if old is not UnitState.DONE
    )
    assert marked, "the sentence about mark-done below is no longer true"
    return "\n".join(
        (
            NOTE.format(source="farm.model.states and node_agent.machine"),
            "# States\n",
            "## Of a unit (a frame, or the one unit of a single step)\n",
            table(("state", "meaning", "can become"), moves),
            "`farm mark-done` verifies the files first and then makes a unit of any other state `done`. "
            f"{satisfying.capitalize()} satisfy what depends on them. Every change is kept with the old "
            "state, the new one and the reason.\n",
            "## Of a step or job\n",
            "Shown is the first that applies: "
            + " > ".join(f"`{state.value}`" for state in WorkState)
            + ". A paused job lets running frames finish.\n",
            "## Of a node\n",
            ", ".join(f"`{state.value}`" for state in states.NodeState)
            + ": `suspect` gets no new work, `lost` has its attempts closed for good.\n",
            "## Of a leased unit on its agent\n",
            table(("phase", "meaning", "can become"), phases),
        )
    )


def renderers_page() -> str:
    """Parameters of the built-in renderers."""
    parts = [
        NOTE.format(source="farm.renderers"),
        "# Renderers and their parameters\n",
        "A step names one in `renderer` and gives its parameters in `params`; `farm submit` sets one with "
        "`--param NAME=VALUE`. `farm schema renderer NAME` prints the same, also for renderers of other "
        "packages.\n",
    ]
    for name in BUILT_IN:
        renderer = get_renderer(name)
        facts = [f"Step kinds: {', '.join(f'`{kind}`' for kind in sorted(renderer.kinds))}"]
        if renderer.app:
            facts.append(f"needs {renderer.app} on the node")
        if renderer.suffixes:
            facts.append("takes files " + ", ".join(f"`{suffix}`" for suffix in renderer.suffixes))
        if renderer.whole_slice:
            facts.append("one attempt takes the agent's whole slice")
        rows = [
            (f"`{one.name}`", one.type, "required" if one.required else f"`{one.default}`", one.help)
            for one in describe(renderer)
        ]
        parts += [
            f"## {name}\n",
            f"{renderer.summary}. {'; '.join(facts)}.\n",
            table(("parameter", "type", "default", "meaning"), rows),
        ]
    return "\n".join(parts)


def metrics_page() -> str:
    """Every figure that Prometheus can scrape."""
    rows = [
        (
            f"`{metric.shown}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.help + ".",
        )
        for metric in METRICS.values()
    ]
    return "\n".join(
        [
            NOTE.format(source="farm.broker.metric_names"),
            "# Metrics\n",
            "`farm broker --metrics-port 7463` (option `metrics_port`) serves these figures to Prometheus "
            "at `/metrics`, in plain HTTP and without a password, on the address the broker listens on. It "
            "is off by default. Keep the port on a network you trust, or listen on 127.0.0.1 and scrape "
            "there.\n",
            "`deploy/prometheus/` has a scrape configuration and alert rules to begin with, "
            "`deploy/grafana/` a dashboard.\n",
            "Figures are gathered when somebody asks, at most once a second; dispatch never waits for HTTP. "
            "Counters begin at zero when the broker starts, except those of money, which go on (`waste_usd` "
            "and `waste_seconds` count from the start). A frame is any unit of a step. Units are seconds, "
            "bytes and USD. What begins with `overcrank_process_` is about the broker's process.\n",
            table(("name", "kind", "by", "meaning"), rows),
        ]
    )


#: What may follow a field of each kind.  A kind without words here is an error, so that none is forgotten.
FILTER_KINDS: dict[Kind, str] = {
    Kind.TEXT: "text it contains: `:fx`, several `:fx,lgt`, exactly `=fx`, anything between `:fx*v02`, "
    "a regular expression `:/fx_v[0-9]+/`",
    Kind.WORD: "a whole word: `:failed`, one of several `:failed,blocked`, `:/regex/`",
    Kind.COUNT: "a number: `:5`, `>5`, `<=5`, `:40..60`, `:40..`; `k` and `m` are thousands and millions",
    Kind.PERCENT: "of a hundred: `<50%`, `:50..80`, `:100`",
    Kind.MEMORY: "memory with `k`, `m`, `g` or `t` (GiB without one): `>32g`, `:16g..64g`",
    Kind.MONEY: "USD: `>5`, `:0.50..2`",
    Kind.DURATION: "a time with `s`, `m`, `h`, `d` or `w`: `<2d`, `>1h30m`, `:1h..3h`",
    Kind.FRAMES: "frames as in a job file, one of which is enough: `:1001-1020`, `:1-100x5,200`, `>1500`",
    Kind.FLAG: "`:yes` or `:no`",
}


def filters_page() -> str:
    """The filter language and every field."""
    parts = [
        NOTE.format(source="farm.model.query.fields"),
        "# Filters\n",
        "`farm jobs --filter TEXT`, `farm nodes --filter TEXT` and `farm frames ADDRESS --filter TEXT` show "
        "what fits. Upper and lower case are the same. One that begins with a minus is written "
        "`--filter=-proxy`.\n",
        "```\nfarm jobs --filter 'mine state:failed,blocked age<2d -proxy'\n"
        "farm jobs --filter '(fx or lgt) priority:60.. -user:bo'\n"
        "farm nodes --filter 'pool:gpu ramfree>32g -busy:yes'\n"
        "farm frames J12 --filter 'frame:1001-1020 tries>1'\n```\n",
        table(
            ("write", "to get"),
            (
                ("`fx lgt`", "what has both words in one of the fields marked with *"),
                ("`fx or lgt`", "what has one of them; `or` binds less than a blank"),
                ("`-proxy`, `-state:done`, `-(a b)`", "what does not fit; `state!=done` says the same"),
                ("`(fx or lgt) mine`", "brackets group"),
                ('`"or"`, `"a b"`', "quotes: just that text; a backslash makes the next character ordinary"),
                ("`sh04*fx`", "`*` stands for anything"),
                ("`/fx_v[0-9]+/`", "a regular expression; no repeat inside a repeat, at most four of them"),
                ("`field:value`", "see below; lists with commas mean one of them"),
            ),
        ),
        "What a job or node does not have never fits: `eta<2h` leaves out jobs without an expected end, and "
        "`-eta<2h` shows them.\n",
        "With a filter `farm jobs` looks through every job that is not archived, however many pages that "
        "takes, and says so; with `--archived`, or when the filter asks about `archived`, through the "
        "archive too. With `--watch` only jobs that are not archived are followed.\n",
        "## What follows a field\n",
        table(("kind", "what may follow"), [(kind.value, FILTER_KINDS[kind]) for kind in Kind]),
    ]
    for vocabulary in VOCABULARIES:
        rows = [
            (
                f"`{field.name}`{'*' if field.searched else ''}",
                ", ".join(f"`{alias}`" for alias in field.aliases),
                field.kind.value,
                field.help
                + (f" (`{field.name}` alone means yes)" if field.bare else "")
                + (
                    ": " + ", ".join(f"`{word}`" for word in field.words)
                    if field.kind is Kind.WORD and field.words
                    else ""
                ),
            )
            for field in vocabulary.fields
        ]
        parts += [f"## Fields of {vocabulary.name}\n", table(("field", "or", "kind", "what it is"), rows)]
    return "\n".join(parts)


def client_keys_page() -> str:
    """Every action of the desktop client with its keys."""
    kept = " and ".join(f"`{key}`" for key in KEPT.values())
    parts = [
        NOTE.format(source="client_gui.actions.records"),
        "# Actions and keys of the desktop client\n",
        "`?` shows this list in the client, with the keys in force; Enter on a key there changes it. A key "
        f"that means something else where the action works is refused; {kept} cannot be given away. `Ctrl+K` "
        "finds actions, jobs, nodes, docks and saved views by a few letters.\n",
        "Keys that type a character work while a list or grid has the focus; in a text they are typed. An "
        "action that is not possible says why, in its menu entry and when its key is pressed. Of several "
        "selected rows it is done to those it is possible for, and one notice says what became of all. What "
        "can be taken back is done at once and can be undone for a while (`Ctrl+Z`); the rest is asked about "
        "first.\n",
        "An action that changes work or nodes has the name of the verb on the command line. What becomes of "
        "it while the farm is away is said [below](#while-the-farm-is-away).\n",
    ]
    for menu in (Menu.WORK, Menu.LOOK, Menu.NODES, Menu.EDIT, Menu.VIEW, Menu.FILE, Menu.HELP):
        rows = [
            (
                record.text,
                ", ".join(f"`{key}`" for key in record.keys),
                where_text(record),
                record.summary,
                f"`farm {_verb(record.farm)}`" if record.changes else "",
            )
            for record in RECORDS
            if record.menu is menu
        ]
        heads = ("action", "keys", "works", "what it does", "verb")
        parts += [f"## {menu.value}\n", table(heads, rows)]
    return "\n".join([*parts, *_away()])


def _away() -> list[str]:
    """What becomes of actions while the farm is away."""
    waits = [f"*{record.text}*" for record in RECORDS if record.later]
    never = [(record.text, record.only_now) for record in RECORDS if record.only_now]
    fields = " and ".join(f"`{name}`" for name in LATER_FIELDS)
    return [
        "## While the farm is away\n",
        "These wait and are sent when it is back, since they say how something shall be, whatever happened "
        f"meanwhile: {', '.join(waits)}. Of settings that is so for {fields} of a job; a priority that is "
        "raised or lowered waits as the number it comes to.\n",
        "All others are disabled, and say why:\n",
        table(("action", "why it is not sent later"), never),
    ]


def _verb(action: str) -> str:
    """An action as it is typed."""
    return action.replace("node-", "node ", 1).replace("update-stop", "update --stop")


def schema_page() -> str:
    """JSON Schema of the job file."""
    return json.dumps(job_schema(), indent=2) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "options.md": options_page,
    "failure-policy.md": failures_page,
    "states.md": states_page,
    "renderers.md": renderers_page,
    "job.schema.json": schema_page,
    "metrics.md": metrics_page,
    "filters.md": filters_page,
    "client-keys.md": client_keys_page,
}


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of pages that are not what the code says."""
    found = []
    for name, make in PAGES.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != make():
            found.append(name)
    return found


def main(arguments: Sequence[str]) -> int:
    """Writes or checks."""
    if list(arguments) == ["--check"]:
        old = stale()
        for name in old:
            print(f"docs/{name} is stale: run docs/generate.py", file=sys.stderr)
        return 1 if old else 0
    if arguments:
        print("usage: generate.py [--check]", file=sys.stderr)
        return 2
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
