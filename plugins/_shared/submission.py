"""Sends a job in the background: looks at the disk, writes the job file, calls the farm, reads the reply.

Or opens it in the farm's window (`farm gui`), where it is finished and sent.

What belongs here: one submission from start to end, in a thread of its own, so that no slow disk, network or
farm ever holds the host's window.  What it may not know: the host; its modules must not be touched from here.

A host calls ``start`` and then, from a timer, ``poll``: the answer is there when ``done`` is true.  A thread
that is stuck on a dead file server is given up when the time is over; it can do no harm any more then, since
the submission it belongs to counts as ended and calls nothing.
"""

import hashlib
import json
import os
import subprocess
import threading
import time
import uuid

from . import disk, farm_program, files, messages

#: Longest time for everything.
TIMEOUT_S = 30.0
#: The farm's window that still runs after so long has opened.
_OPENS_S = 4.0
_ERRORS_KEPT = 2000


class Submission(object):
    """One job on its way to the farm.

    Attributes:
        document: The job file's content.
        messages: What is to be said so far: what the host found, then what the disk and the farm said.
        phase: ``waiting``, ``checking``, ``sending``, ``opening``, ``sent``, ``opened``, ``checked`` or
            ``failed``, for people.
        job: The farm's answer about the job: ``{"address": "J12", "number", "name", "farm"}``, or None.
        job_file: Where the job file was written, "" before.
    """

    def __init__(
        self,
        document,
        found,
        setting="",
        plugin_folder="",
        farm_name="",
        timeout_s=TIMEOUT_S,
        looks=(),
        send=True,
        window=False,
    ):
        """Prepares; nothing runs yet.

        Args:
            document: The job, without a token.
            found: Messages of the host's own checks; an error among them sends nothing.
            setting: The farm program the user named.
            plugin_folder: Folder of the plug-in (holds ``installed.json``).
            farm_name: Which farm, "" for the user's default.
            timeout_s: Longest time for everything.
            looks: What is to be looked at on the disk, see ``disk.look``.
            send: False only checks.
            window: The job is not sent but opened in the farm's window, to be finished there.
        """
        self.document, self.messages = document, list(found)
        self.phase, self.job, self.job_file = "waiting", None, ""
        self._setting, self._folder, self._farm = setting, plugin_folder, farm_name
        self._timeout_s, self._looks, self._send = timeout_s, list(looks), send
        self._window = window
        self._began_s, self._process, self._thread = 0.0, None, None
        self._lock, self._over = threading.Lock(), False

    @property
    def done(self):
        """Whether it has ended, one way or the other."""
        return self._over

    @property
    def ok(self):
        """Whether the farm or its window has the job; if nothing was to be sent, whether nothing is wrong."""
        if self.phase == "checked":
            return not messages.errors(self.messages)
        return self.phase in ("sent", "opened")

    def start(self):
        """Begins; returns at once."""
        self._began_s = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="overcrank-submit", daemon=True)
        self._thread.start()

    def poll(self):
        """Looks whether it has ended, and ends it when the time is over; returns ``done``."""
        if not self._over and self._thread is not None and self._left_s() <= 0:
            self._time_over()
        return self._over

    def wait(self):
        """Waits to the end; for scripts and for hosts without a window."""
        while not self.poll():
            self._thread.join(0.05)
        return self.ok

    # -- in the thread ---------------------------------------------------------------------------

    def _run(self):
        try:
            self.phase = "checking"
            found = disk.look(self._looks)
            with self._lock:
                if self._over:
                    return
                self.messages += found
            if messages.errors(self.messages):
                self._end("failed" if self._send else "checked")
                return
            if not self._send:
                self._end("checked")
                return
            if self._window:
                self._open_window()
            else:
                self._submit()
        except farm_program.NotFound as error:
            text = "%s%s" % (str(error)[:1].upper(), str(error)[1:])
            cure = "Install it, run `farm plugin install`, or name it in the add-on's preferences"
            self._end("failed", messages.error("farm-missing", text, cure))
        except OSError as error:
            self._end("failed", messages.error("job-file", "The job file cannot be written: %s" % error))
        except Exception as error:  # A bug must reach the artist as words, not vanish in a thread.
            text = "The add-on failed: %s: %s" % (type(error).__name__, error)
            self._end("failed", messages.error("bug", text))

    def _prepare(self, **more):
        """Writes the job file; returns how the farm is called, and the path of what belongs to this job."""
        command = farm_program.find_farm(self._setting, self._folder)
        folder = files.own_folder("submissions")
        files.forget_old(folder)
        stem = os.path.join(folder, "%s-%s" % (time.strftime("%Y%m%d-%H%M%S"), uuid.uuid4().hex[:6]))
        warned = [str(one) for one in messages.in_order(self.messages) if one.severity == messages.WARNING]
        files.write_json(stem + ".job.json", dict(self.document, warnings=warned, **more))
        self.job_file = stem + ".job.json"
        if self._farm:
            command = command + ["--farm", self._farm]
        return command, stem

    def _submit(self):
        self.phase = "sending"
        command, stem = self._prepare(token=token_for(self.document))
        folder = os.path.dirname(stem)
        reply_file = stem + ".reply.json"
        words = command + ["submit", self.job_file, "--reply", reply_file]
        with open(stem + ".txt", "wb") as said:
            with self._lock:
                if self._over:
                    return
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    cwd=folder,
                    env=farm_program.clean_environment(),
                    creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
                )
            try:
                code = self._process.wait(timeout=max(0.1, self._left_s()))
            except subprocess.TimeoutExpired:
                self._time_over()
                self._process.wait()
                return
        self._read_reply(files.read_json(reply_file), code, stem + ".txt")

    def _open_window(self):
        """Starts the farm's window, a program of its own that outlives the host, with the job in it."""
        self.phase = "opening"
        # Without a token: the window gives it one when it sends it.
        command, stem = self._prepare()
        with self._lock:
            if self._over:
                return
            with open(stem + ".txt", "wb") as said:
                window = subprocess.Popen(
                    command + ["gui", "--submit", self.job_file],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    cwd=os.path.dirname(stem),
                    env=farm_program.clean_environment(),
                    **_apart(),
                )
        _WINDOWS[:] = [one for one in _WINDOWS if one.poll() is None] + [window]
        try:
            code = window.wait(timeout=max(0.1, min(_OPENS_S, self._left_s())))
        except subprocess.TimeoutExpired:
            code = 0
        if code == 0:  # it is open, or one that was open already has taken the job
            self._end("opened")
            return
        with open(stem + ".txt", encoding="utf-8", errors="replace") as stream:
            told = " ".join(stream.read()[-_ERRORS_KEPT:].split())
        text = "The farm's window does not open (exit code %d)%s" % (code, ": " + told if told else "")
        self._end("failed", messages.error("window", text, "Submit it from here, or install the window"))

    def _read_reply(self, reply, code, said_file):
        if not isinstance(reply, dict):
            with open(said_file, encoding="utf-8", errors="replace") as stream:
                said = " ".join(stream.read()[-_ERRORS_KEPT:].split())
            text = "The farm program gave no answer (exit code %d)%s" % (code, ": " + said if said else "")
            self._end("failed", messages.error("farm-silent", text))
            return
        told = messages.of_reply(reply)
        known = {str(one) for one in self.messages} | {one.text for one in self.messages}
        told = [one for one in told if one.text not in known]
        job = reply.get("job")
        if isinstance(job, dict) and job.get("address") and not messages.errors(told):
            forget_token(self.document)
            self._end("sent", *told, job=job)
        else:
            self._end("failed", *(told or [messages.error("farm-silent", "The farm's answer names no job")]))

    # -- either --------------------------------------------------------------------------------------

    def _left_s(self):
        return self._began_s + self._timeout_s - time.monotonic()

    def _end(self, phase, *said, job=None):
        with self._lock:
            if self._over:
                return
            self.messages += said
            self.phase, self.job = phase, job
            self._over = True

    def _time_over(self):
        what = "looking at the files" if self.phase == "checking" else "the farm"
        text = "No answer after %.0f seconds of waiting for %s" % (self._timeout_s, what)
        cure = "Submitting it again is safe: the farm takes it for the same job"
        self._end("failed", messages.error("time-out", text, cure))
        process = self._process
        if process is not None:
            try:
                process.kill()  # The thread, which waits for it, takes its exit code.
            except OSError:
                pass


# -- the farm's window ---------------------------------------------------------------------------------

#: Windows that were opened from here; kept so that what has ended can be laid to rest.
_WINDOWS = []


def _apart():
    """What makes a program one of its own, which does not end with the host."""
    if os.name == "nt":
        flags = getattr(subprocess, "DETACHED_PROCESS", 0x8)
        return {"creationflags": flags | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0x200)}
    return {"start_new_session": True}


# -- tokens: the same job submitted again after a lost answer is the same job --------------------------

_TOKENS = {}


def token_for(document):
    """The token of this very job, the same until the farm has answered."""
    return _TOKENS.setdefault(_digest(document), str(uuid.uuid4()))


def forget_token(document):
    """The farm has answered: submitting the same again is a new job."""
    _TOKENS.pop(_digest(document), None)


def _digest(document):
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode("ascii")).hexdigest()
