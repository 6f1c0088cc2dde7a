"""Every action of the client as a record: menus, keys, palette, the sheet of keys and a reference page are
made from this one list.

What belongs here: what each action is called, where it works, its default keys, and which action of the farm
it asks for.  What may not: Qt, the store, and when an action is possible (``possible``).

An action that changes work or nodes has the id of its verb on the command line; what the farm cannot do is
not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from farm.model.roles import ACTIONS


class Scope(StrEnum):
    """Where an action works: everywhere, in any view, or on what is selected."""

    APP = "app"
    VIEW = "view"
    JOBS = "jobs"
    STEPS = "steps"
    FRAMES = "frames"
    NODES = "nodes"


class Menu(StrEnum):
    """The menu an action stands in, as it is called there."""

    FILE = "File"
    EDIT = "Edit"
    VIEW = "View"
    WORK = "Work"
    LOOK = "Look"
    NODES = "Nodes"
    HELP = "Help"


class Value(StrEnum):
    """What an action asks for before it can be done."""

    NONE = ""
    PRIORITY = "a priority"
    FIELDS = "settings"
    NODE_FIELDS = "settings of a node"


@dataclass(frozen=True, slots=True)
class Record:
    """An action.

    Attributes:
        id: Stable name; of an action of the farm that of its verb.
        text: What menus call it.
        summary: What it does, a sentence that starts with the verb.
        menu: The menu it stands in.
        scopes: Where it works.
        keys: Default keys, as ``QKeySequence`` writes them; the first is shown.
        farm: Name in ``farm.model.roles.ACTIONS``; "" for what only the client does.
        value: What has to be given.
        top: Whether a context menu shows it at once, not under More.
        done: What a notice says when it is done: ``Paused``.
        later: Whether it may wait for a farm that is away: it says how something shall be, not what is to
            happen, so that it does no harm whatever happened meanwhile.
        only_now: Why it may not, in words; "" when it may, and for what only the client does.
    """

    id: str
    text: str
    summary: str
    menu: Menu
    scopes: frozenset[Scope]
    keys: tuple[str, ...] = ()
    farm: str = ""
    value: Value = Value.NONE
    top: bool = False
    done: str = ""
    later: bool = False
    only_now: str = ""

    @property
    def changes(self) -> bool:
        """Whether it asks the farm to change something."""
        return bool(self.done)


_APP = frozenset({Scope.APP})
_VIEW = frozenset({Scope.VIEW})
_JOBS = frozenset({Scope.JOBS})
_WORK = frozenset({Scope.JOBS, Scope.STEPS, Scope.FRAMES})
_UNITS = frozenset({Scope.STEPS, Scope.FRAMES})
_JOBS_STEPS = frozenset({Scope.JOBS, Scope.STEPS})
_NODES = frozenset({Scope.NODES})
_ROWS = _WORK | _NODES

#: What Alt+1 to Alt+8 select: words of unit states, and ``left`` for all that is not done yet.
SELECT_STATES: Final = ("queued", "blocked", "running", "done", "failed", "skipped", "canceled", "left")
#: How many colours a job can be marked with.
COLOURS: Final = 9
#: What jobs can be grouped by.
GROUPS: Final = {
    "none": "nothing",
    "project": "project",
    "user": "user",
    "state": "state",
    "renderer": "renderer",
    "day": "day submitted",
}
#: How many workspaces have a key.
WORKSPACES: Final = 9
#: Settings of a job that may wait for a farm that is away; the others are limits of work that goes on.
LATER_FIELDS: Final = ("name", "priority")
#: Why an action is not sent later, where more can be said than that nobody knows how things stand by then.
ONLY_NOW: Final = {
    "retry": "frames that failed may be rendering again by then",
    "retry-selection": "what is done by then would be rendered once more",
    "next": "others may have been put ahead by then",
    "last": "others may have been put behind by then",
    "requeue": "what runs by then would lose its work",
    "skip": "frames that wait now may be done by then",
    "mark-done": "nobody knows what lies on the disk by then",
    "cancel": "what runs by then would lose its work",
    "archive": "somebody may need the job by then",
    "delete": "somebody may need the job by then",
    "node-disable": "what runs there by then would lose its work",
    "node-set": "what runs there by then may not fit any more",
    "node-update": "nobody knows what runs there by then",
    "node-update-stop": "nobody knows how far the update is by then",
    "node-forget": "the node may be back by then",
}


def _farm(
    name: str,
    text: str,
    menu: Menu,
    scopes: frozenset[Scope],
    done: str,
    *keys: str,
    farm: str = "",
    summary: str = "",
    value: Value = Value.NONE,
    top: bool = False,
    later: bool = False,
) -> Record:
    asked = farm or name
    what = "node" if Scope.NODES in scopes else "job"
    only_now = "" if later else ONLY_NOW.get(name, f"nobody knows how the {what} stands by then")
    return Record(
        name,
        text,
        summary or ACTIONS[asked].summary,
        menu,
        scopes,
        keys,
        asked,
        value,
        top,
        done,
        later,
        only_now,
    )


def _own(
    name: str,
    text: str,
    summary: str,
    menu: Menu,
    scopes: frozenset[Scope],
    *keys: str,
    farm: str = "",
    top: bool = False,
) -> Record:
    return Record(name, text, summary, menu, scopes, keys, farm, Value.NONE, top)


def _records() -> tuple[Record, ...]:
    work, look, nodes = Menu.WORK, Menu.LOOK, Menu.NODES
    return (
        # Work.
        _farm(
            "retry",
            "Retry failed",
            work,
            _WORK,
            "Retried",
            "R",
            summary="Render failed and canceled frames again",
            top=True,
        ),
        _farm(
            "retry-selection",
            "Render again",
            work,
            _UNITS,
            "Retried",
            "Shift+R",
            farm="retry",
            summary="Render the selected frames again, done ones too",
            top=True,
        ),
        _farm(
            "pause-toggle",
            "Pause or resume",
            work,
            _JOBS,
            "Paused",
            "P",
            farm="pause",
            summary="Pause jobs, or resume them when all are paused; running frames finish",
            top=True,
            later=True,
        ),
        _farm("pause", "Pause", work, _JOBS, "Paused", later=True),
        _farm("resume", "Resume", work, _JOBS, "Resumed", later=True),
        _farm(
            "priority-up",
            "Raise priority",
            work,
            _JOBS,
            "Raised the priority of",
            "]",
            farm="priority",
            summary="Raise the priority by 5",
            later=True,
        ),
        _farm(
            "priority-down",
            "Lower priority",
            work,
            _JOBS,
            "Lowered the priority of",
            "[",
            farm="priority",
            summary="Lower the priority by 5",
            later=True,
        ),
        _farm(
            "priority",
            "Set priority\N{HORIZONTAL ELLIPSIS}",
            work,
            _JOBS,
            "Set the priority of",
            "=",
            value=Value.PRIORITY,
            top=True,
            later=True,
        ),
        _farm(
            "set",
            "Edit settings\N{HORIZONTAL ELLIPSIS}",
            work,
            _JOBS_STEPS,
            "Set",
            "E",
            value=Value.FIELDS,
            top=True,
            later=True,
        ),
        _farm("next", "Run next", work, _WORK, "Put ahead", "N"),
        _farm("last", "Run last", work, _WORK, "Put behind", "Shift+N"),
        _farm("requeue", "Stop and requeue", work, _WORK, "Requeued", "X", top=True),
        _farm("skip", "Skip", work, _UNITS, "Skipped", "K", top=True),
        _farm("mark-done", "Mark done", work, _UNITS, "Asked to verify", "Shift+K"),
        _farm("cancel", "Cancel\N{HORIZONTAL ELLIPSIS}", work, _WORK, "Canceled", "Shift+X", top=True),
        _farm("archive", "Archive\N{HORIZONTAL ELLIPSIS}", work, _JOBS, "Archived", "A"),
        _farm("delete", "Delete\N{HORIZONTAL ELLIPSIS}", work, _JOBS, "Deleted", "Del"),
        # Looking.
        _own("open", "Open", "Show what is selected in full", look, _ROWS, "Return", "Enter", top=True),
        _own("log", "Log", "Read the log of the newest attempt", look, _WORK, "L", farm="log", top=True),
        _own("preview", "Preview", "Show the pictures", look, _WORK, "V", farm="preview", top=True),
        _own("why", "Why", "Explain why it waits, failed or is idle", look, _ROWS, "W", farm="why", top=True),
        _own("folder", "Open folder", "Open the folder of the finished files", look, _WORK, "O", top=True),
        _own(
            "resubmit",
            "Submit again\N{HORIZONTAL ELLIPSIS}",
            "Fill the submit form with this job, step or these frames, to change it and submit it anew",
            look,
            _WORK,
            "Ctrl+R",
            farm="submit",
        ),
        _own("copy-id", "Copy id", "Copy addresses or names of what is selected", look, _ROWS, "Ctrl+C"),
        _own("copy-path", "Copy path", "Copy paths of the files", look, _WORK, "Ctrl+Shift+C"),
        _own("copy-name", "Copy name", "Copy the names of jobs or nodes", look, _JOBS | _NODES),
        _own("star", "Star", "Mark jobs with a star, or take it off", look, _JOBS, "S"),
        _own("bell", "Bell", "Be told when the job ends or fails, or no more", look, _JOBS, "B"),
        *(
            _own(
                f"colour-{n}",
                f"Colour {n}" if n else "No colour",
                f"Mark jobs with colour {n}, seen by you alone" if n else "Take the colour off",
                look,
                _JOBS,
                f"Ctrl+Alt+{n}",
            )
            for n in range(COLOURS + 1)
        ),
        _own("attempt-previous", "Previous attempt", "Show the log of the attempt before", look, _VIEW, ","),
        _own("attempt-next", "Next attempt", "Show the log of the attempt after", look, _VIEW, "."),
        _own("error-next", "Next error", "Go to the next error in the log", look, _VIEW, "F8"),
        _own("error-previous", "Previous error", "Go to the error before", look, _VIEW, "Shift+F8"),
        # Nodes.
        _farm("node-drain", "Drain", nodes, _NODES, "Drained", "D", top=True, later=True),
        _farm("node-disable", "Disable", nodes, _NODES, "Disabled", "Shift+D", top=True),
        _farm("node-enable", "Enable", nodes, _NODES, "Enabled", "U", top=True, later=True),
        _farm(
            "node-set",
            "Edit slots, hours, rate\N{HORIZONTAL ELLIPSIS}",
            nodes,
            _NODES,
            "Set",
            "E",
            value=Value.NODE_FIELDS,
            top=True,
        ),
        _farm("node-update", "Update software\N{HORIZONTAL ELLIPSIS}", nodes, _NODES, "Began to update"),
        _farm("node-update-stop", "Stop updating", nodes, _NODES, "Stopped updating"),
        _farm("node-forget", "Forget\N{HORIZONTAL ELLIPSIS}", nodes, _NODES, "Forgot", "Del"),
        # Selecting and editing.
        _own("undo", "Undo", "Take back what was done last, while it can be", Menu.EDIT, _APP, "Ctrl+Z"),
        _own(
            "waiting",
            "What waits for the farm",
            "Show actions that wait until the farm is back, to take them back or send them",
            Menu.EDIT,
            _APP,
            "Ctrl+Shift+W",
        ),
        _own("waiting-send", "Send what waits", "Send actions that wait for a yes", Menu.EDIT, _APP),
        _own(
            "waiting-drop",
            "Take back all that waits",
            "Send nothing of what waits for the farm",
            Menu.EDIT,
            _APP,
        ),
        _own("find", "Find", "Go to the filter", Menu.EDIT, _VIEW, "/", "Ctrl+F"),
        _own("clear-filter", "Clear filter", "Show everything again", Menu.EDIT, _VIEW, "Esc"),
        _own("select-all", "Select all", "Select every row that is shown", Menu.EDIT, _VIEW, "Ctrl+A"),
        _own("select-invert", "Invert selection", "Select what is not", Menu.EDIT, _VIEW, "Ctrl+I"),
        _own("select-none", "Select nothing", "Select nothing", Menu.EDIT, _VIEW, "Ctrl+Shift+A"),
        *(
            _own(
                f"select-{word}",
                f"Select {word}",
                "Select all that is not done yet" if word == "left" else f"Select all that is {word}",
                Menu.EDIT,
                _VIEW,
                f"Alt+{n}",
            )
            for n, word in enumerate(SELECT_STATES, 1)
        ),
        # The window.
        _own("palette", "Find an action", "Search actions, jobs, nodes and views", Menu.VIEW, _APP, "Ctrl+K"),
        _own("next-view", "Next view", "Go to the next saved view", Menu.VIEW, _VIEW, "Ctrl+Tab"),
        _own(
            "previous-view",
            "Previous view",
            "Go to the saved view before",
            Menu.VIEW,
            _VIEW,
            "Ctrl+Shift+Tab",
        ),
        _own("save-view", "Save view", "Keep filter, columns and order under a name", Menu.VIEW, _VIEW),
        *(
            _own(
                f"group-{by}",
                f"Group by {title}" if by != "none" else "No groups",
                f"Put jobs in groups by {title}" if by != "none" else "Show jobs in no groups",
                Menu.VIEW,
                _VIEW,
            )
            for by, title in GROUPS.items()
        ),
        _own("group-close", "Collapse all groups", "Show the headers of groups alone", Menu.VIEW, _VIEW),
        _own("group-open", "Expand all groups", "Show the rows of all groups", Menu.VIEW, _VIEW),
        _own("back", "Back", "Go back to the list", Menu.VIEW, _VIEW, "Backspace"),
        _own("resync", "Refresh", "Ask the farm for everything anew", Menu.VIEW, _APP, "F5"),
        _own("zoom-in", "Larger", "Make everything larger", Menu.VIEW, _APP, "Ctrl++", "Ctrl+="),
        _own("zoom-out", "Smaller", "Make everything smaller", Menu.VIEW, _APP, "Ctrl+-"),
        _own("zoom-reset", "Usual size", "Make everything as large as usual", Menu.VIEW, _APP, "Ctrl+0"),
        _own("density", "Row height", "Put rows closer together or apart", Menu.VIEW, _APP, "Ctrl+Shift+D"),
        _own(
            "theme", "Next theme", "Change between dark, light and contrast", Menu.VIEW, _APP, "Ctrl+Shift+T"
        ),
        *(
            _own(
                f"workspace-{n}",
                f"Workspace {n}",
                f"Change to the workspace with number {n}",
                Menu.VIEW,
                _APP,
                f"Ctrl+{n}",
            )
            for n in range(1, WORKSPACES + 1)
        ),
        _own("workspace-reset", "Reset workspace", "Put every dock back to its place", Menu.VIEW, _APP),
        # The client itself.
        _own("submit", "Submit a job", "Make a job and submit it", Menu.FILE, _APP, "Ctrl+N", farm="submit"),
        _own("spend", "Spend", "Show what work has cost", Menu.FILE, _APP),
        _own("connect", "Connect to a farm", "Choose another farm", Menu.FILE, _APP),
        _own("new-window", "New window", "Open one more window", Menu.FILE, _APP, "Ctrl+Shift+N"),
        _own("settings", "Settings", "Change how the client behaves", Menu.FILE, _APP, "Ctrl+,"),
        _own("quit", "Quit", "Close every window", Menu.FILE, _APP, "Ctrl+Q"),
        _own("shortcuts", "Keys", "Show every key", Menu.HELP, _APP, "?"),
        _own("help", "Help", "Open the user guide", Menu.HELP, _APP, "F1"),
    )


#: Every action in the order menus show them.
RECORDS: Final = _records()
#: The same by id.
BY_ID: Final = {record.id: record for record in RECORDS}
if len(BY_ID) != len(RECORDS):
    raise AssertionError("two actions have the same id")


def overlap(one: frozenset[Scope], other: frozenset[Scope]) -> bool:
    """Whether a key could mean two actions: they work in one place, or one works everywhere."""
    everywhere = {Scope.APP, Scope.VIEW}
    return bool(one & other or one & everywhere or other & everywhere)


def where_text(record: Record) -> str:
    """Where an action works, in words."""
    words = {Scope.APP: "everywhere", Scope.VIEW: "in lists and docks"}
    return ", ".join(words.get(scope, scope.value) for scope in Scope if scope in record.scopes)


def works_on_rows(record: Record) -> bool:
    """Whether an action needs something to be selected."""
    return bool(record.scopes & _ROWS)
