"""What is told to the artist: a severity, plain words, and what to do about it.

What belongs here: the record and the words made of the farm's reply.  What it may not know: any host.
"""

#: Stops a submission.
ERROR = "error"
#: Is shown, goes along with the job, stops nothing.
WARNING = "warning"
#: Is shown only here.
NOTE = "note"
_ORDER = {ERROR: 0, WARNING: 1, NOTE: 2}


class Message(object):
    """One thing to say.

    Attributes:
        severity: ``ERROR``, ``WARNING`` or ``NOTE``.
        code: Stable name of the check, e.g. ``camera-missing``.
        text: What is so, naming the thing.
        cure: What to do about it, "" when there is nothing.
    """

    __slots__ = ("code", "cure", "severity", "text")

    def __init__(self, severity, code, text, cure=""):
        self.severity, self.code, self.text, self.cure = severity, code, text, cure

    def __repr__(self):
        return "Message(%r, %r, %r, %r)" % (self.severity, self.code, self.text, self.cure)

    def __str__(self):
        return "%s. %s" % (self.text, self.cure) if self.cure else self.text


def error(code, text, cure=""):
    """A message that stops the submission."""
    return Message(ERROR, code, text, cure)


def warning(code, text, cure=""):
    """A message that goes along with the job."""
    return Message(WARNING, code, text, cure)


def note(code, text, cure=""):
    """A message for the artist alone."""
    return Message(NOTE, code, text, cure)


def errors(messages):
    """Those that stop a submission."""
    return [message for message in messages if message.severity == ERROR]


def in_order(messages):
    """Errors first, then warnings, then notes; each once."""
    seen, kept = set(), []
    for message in sorted(messages, key=lambda one: _ORDER[one.severity]):
        key = (message.severity, message.code, message.text)
        if key not in seen:
            seen.add(key)
            kept.append(message)
    return kept


def of_reply(reply):
    """Messages for the reply file of ``farm submit``: the error, or the warnings of a job that was taken."""
    wrong = reply.get("error")
    if isinstance(wrong, dict):
        text = "The farm refused the job: %s" % (wrong.get("message") or "no reason was given")
        code = str(wrong.get("code") or "refused")
        if code in ("unreachable", "refused", "peer"):
            text = "The farm cannot be reached: %s" % wrong.get("message")
        return [Message(ERROR, "farm-" + code, text, str(wrong.get("hint") or ""))]
    return [Message(WARNING, "farm-warning", str(text)) for text in reply.get("warnings") or ()]
