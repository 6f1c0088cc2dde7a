"""The table of verbs: every word `farm` knows, with the module that does it.

What belongs here: names, one-line summaries, groups.  What must not: importing anything.  `farm --help`
is printed from this table alone, and a verb's module is imported only when the verb is called.

A verb's module has a dictionary ``COMMANDS`` from the verb's name to a ``farm.cli.command.Command``.
"""

from __future__ import annotations


class Verb:
    """One verb.

    Attributes:
        name: The word.
        summary: One line for ``--help``.
        module: Module that does it, empty for a verb that is not built yet.
        group: Heading it stands under.
    """

    __slots__ = ("group", "module", "name", "summary")

    def __init__(self, name: str, summary: str, module: str, group: str) -> None:
        self.name = name
        self.summary = summary
        self.module = module
        self.group = group


_BEGIN = "Begin here"
_WORK = "Work"
_ACT = "Act on work"
_FARM = "The farm"
_MEDIA = "Files on this machine"
_LATER = "Known, not built yet"

VERBS: tuple[Verb, ...] = (
    Verb("demo", "render a small film on this machine and show what the farm does", "verbs_demo", _BEGIN),
    Verb("run", "run a job here with a private farm and wait for it", "verbs_run", _BEGIN),
    Verb("gui", "open the desktop client", "verbs_gui", _BEGIN),
    Verb("doctor", "say what is missing on this machine and how to mend it", "verbs_doctor", _BEGIN),
    Verb("submit", "submit a scene, a clip, a command or a job file", "verbs_submit", _WORK),
    Verb(
        "estimate",
        "say what a job would take in time and money, without submitting it",
        "verbs_estimate",
        _WORK,
    ),
    Verb("jobs", "list jobs", "verbs_work", _WORK),
    Verb("job", "show one job with its steps", "verbs_work", _WORK),
    Verb("frames", "list frames of a job, a step or a range", "verbs_work", _WORK),
    Verb("attempts", "list attempts of a job, a step or a frame", "verbs_work", _WORK),
    Verb("history", "list recorded changes of a job or the farm", "verbs_work", _WORK),
    Verb("log", "print the log of an attempt", "verbs_log", _WORK),
    Verb("preview", "fetch the preview picture of a frame", "verbs_log", _WORK),
    Verb("why", "say why something is in the state it is in", "verbs_why", _WORK),
    Verb("pause", "let running frames finish and start no more", "verbs_act", _ACT),
    Verb("resume", "go on with what was paused", "verbs_act", _ACT),
    Verb("cancel", "stop a job, a step or frames for good", "verbs_act", _ACT),
    Verb("requeue", "stop running frames and queue them again; no try is spent", "verbs_act", _ACT),
    Verb("retry", "render again what failed or was canceled, or frames that are named", "verbs_act", _ACT),
    Verb("skip", "do without frames; what depends on them goes on", "verbs_act", _ACT),
    Verb("mark-done", "verify files that are there and count frames as done", "verbs_act", _ACT),
    Verb("archive", "put a finished job out of sight", "verbs_act", _ACT),
    Verb("delete", "remove a job at rest and its logs for good; its pictures stay", "verbs_act", _ACT),
    Verb("priority", "set a job's priority (0-100, 100 first)", "verbs_act", _ACT),
    Verb("next", "run a job, step or frames before others of their owner", "verbs_act", _ACT),
    Verb("last", "run a job, step or frames after others of their owner", "verbs_act", _ACT),
    Verb("set", "change fields of a job or a step", "verbs_set", _ACT),
    Verb("resubmit", "submit a job, some of its steps or frames again", "verbs_set", _ACT),
    Verb("status", "show the farm at a glance", "verbs_farm", _FARM),
    Verb("nodes", "list nodes", "verbs_farm", _FARM),
    Verb("node", "drain, disable, enable, forget, set or update nodes", "verbs_node", _FARM),
    Verb("gpus", "list GPUs by node", "verbs_farm", _FARM),
    Verb("policy", "show and change how the farm shares itself", "verbs_policy", _FARM),
    Verb("limits", "list counted tokens: how many, in use, by whom, who waits", "verbs_policy", _FARM),
    Verb("spend", "show what work cost, by job, user, project, node or site", "verbs_farm", _FARM),
    Verb("broker", "run the broker of a farm", "verbs_broker", _FARM),
    Verb("agent", "run render agents on this machine", "verbs_agent", _FARM),
    Verb("keys", "list, invite and revoke keys", "verbs_keys", _FARM),
    Verb("join", "join a farm with a token", "verbs_keys", _FARM),
    Verb("shutdown", "stop the broker in order", "verbs_farm", _FARM),
    Verb("db", "check, repair, back up or upgrade the database", "verbs_db", _FARM),
    Verb("record", "record the farm's events, to be replayed", "verbs_simulate", _FARM),
    Verb("simulate", "try a farm and its policy in virtual time", "verbs_simulate", _FARM),
    Verb("probe", "say what a picture, a sequence or a movie is", "verbs_media", _MEDIA),
    Verb("stitch", "make a movie of a sequence", "verbs_media", _MEDIA),
    Verb("verify", "decode files fully and say what is wrong with them", "verbs_media", _MEDIA),
    Verb("compare", "measure the difference between two files", "verbs_media", _MEDIA),
    Verb("plugin", "install plug-ins for other programs", "verbs_plugin", _MEDIA),
    Verb("schema", "print the schema of job files or a renderer's parameters", "verbs_schema", _MEDIA),
    Verb("budget", "set and show budgets", "", _LATER),
    Verb("cloud", "start and stop nodes elsewhere", "", _LATER),
    Verb("split", "split a movie into segments", "", _LATER),
)


def find_verb(name: str) -> Verb | None:
    """The verb of that name."""
    return next((verb for verb in VERBS if verb.name == name), None)


def help_text() -> str:
    """What ``farm --help`` prints."""
    lines = [
        "usage: farm [--farm NAME] VERB [ARGUMENTS]",
        "",
        "Overcrank, a render farm manager for video and 3D frames.",
    ]
    group = ""
    for verb in VERBS:
        if verb.group != group:
            group = verb.group
            lines += ["", f"{group}:"]
        lines.append(f"  {verb.name:<10} {verb.summary}")
    lines += [
        "",
        "`farm VERB --help` tells more of a verb, with examples.  --farm NAME (or OVERCRANK_FARM) chooses",
        "the farm; default: the one joined last, else this machine's.  --json prints stable JSON.",
        "Addresses: J12 a job, J12/beauty a step, J12/beauty/17-20 frames, J12/beauty@7 an attempt.",
        "Exit codes: 0 done, 1 the work failed, 2 the call was wrong, 3 the farm cannot be reached.",
    ]
    return "\n".join(lines) + "\n"
