"""The verbs that fetch what an attempt left with the broker: log and preview."""

from __future__ import annotations

from typing import TYPE_CHECKING

from farm.cli.command import Command, address_of, connect
from farm.model.errors import CallError, StorageError, UnknownName

if TYPE_CHECKING:
    import argparse

    from farm.cli.console import Console
    from farm.model.ids import Address
    from farm.sdk.client import Farm

#: How far back `--tail` looks for line ends at first; doubled until enough are found.
_TAIL_BYTES = 64 * 1024


def _setup_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        help="J12/beauty/17, J12/stitch or J12/beauty@7; default: the last attempt",
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the attempt has ended")
    parser.add_argument("-n", "--tail", type=int, metavar="LINES", help="only the last so many lines")
    parser.add_argument("--offset", type=int, default=0, help="begin at this byte (negative: from the end)")
    parser.add_argument("--limit", type=int, default=0, help="at most so many bytes")


def _log(arguments: argparse.Namespace, console: Console) -> int:
    address = address_of(arguments.address)
    if address.step is None:
        raise CallError(
            f"{address} has many logs", hint=f"name a step or a frame, e.g. J{address.job}/beauty/17"
        )
    if arguments.tail is not None and (arguments.tail < 0 or arguments.offset):
        raise CallError("--tail is a number of lines, and goes without --offset")
    with connect(arguments) as farm:
        number = last_attempt(farm, address)
        step = address.step
        offset = arguments.offset
        if arguments.tail is not None:
            offset = _tail_offset(farm, address.job, step, number, arguments.tail)
        if console.json:
            return _log_json(farm, address, number, offset, arguments, console)
        visible = _Visible(console) if console.is_terminal else None
        left = arguments.limit or None
        for piece in farm.log_stream(address.job, step, number, offset, follow=arguments.follow):
            part = piece if left is None else piece[:left]
            console.data(visible.show(part) if visible else part)
            if left is not None:
                left -= len(part)
                if left <= 0:
                    break
    return 0


def _log_json(
    farm: Farm, address: Address, number: int, offset: int, arguments: argparse.Namespace, console: Console
) -> int:
    step = address.step or ""
    first = farm.log_page(address.job, step, number, offset, 1)
    start = first.offset
    pieces: list[bytes] = []
    for piece in farm.log_stream(address.job, step, number, start, follow=arguments.follow):
        pieces.append(piece)
        if arguments.limit and sum(map(len, pieces)) >= arguments.limit:
            break
    data = b"".join(pieces)
    if arguments.limit:
        data = data[: arguments.limit]
    last = farm.log_page(address.job, step, number, start + len(data), 1)
    console.document(
        {
            "attempt": f"J{address.job}/{step}@{number}",
            "offset": start,
            "size": last.size,
            "ended": last.ended,
            "text": data.decode("utf-8", "replace"),
        }
    )
    return 0


class _Visible:
    """Makes what a terminal would obey visible, line ends and tabs apart, across pieces."""

    def __init__(self, console: Console) -> None:
        import codecs

        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._keep = "\n\t"

    def show(self, data: bytes) -> bytes:
        text = self._decode(data).replace("\r\n", "\n").replace("\r", "\n")
        return "".join(
            char if char.isprintable() or char in self._keep else f"\\x{ord(char):02x}" for char in text
        ).encode()


def last_attempt(farm: Farm, address: Address) -> int:
    """Number of the attempt an address means: the one it names, else the last there.

    Raises:
        UnknownName: There was none yet.
    """
    if address.attempt is not None:
        return address.attempt
    if address.frames is not None:
        reply = farm.frames(str(address))
        numbers = [row.attempt for rows in reply.steps.values() for row in rows if row.attempt is not None]
    else:
        numbers = [row.no for row in farm.attempts(str(address), limit=1).attempts]
    if not numbers:
        raise UnknownName(
            f"{address} was not attempted yet, so there is no log", hint=f"see `farm why {address}`"
        )
    return max(numbers)


def _tail_offset(farm: Farm, job: int, step: str, number: int, lines: int) -> int:
    """Where the last so many lines begin."""
    size = farm.log_page(job, step, number, -1, 1).size
    reach = _TAIL_BYTES
    while True:
        start = max(0, size - reach)
        data = b""
        for piece in farm.log_stream(job, step, number, start):
            data += piece
            if start + len(data) >= size:
                break
        data = data[: size - start]
        ends = [index for index, byte in enumerate(data[:-1]) if byte == 0x0A] if lines else []
        if not lines:
            return size
        if len(ends) >= lines:
            return start + ends[-lines] + 1
        if start == 0:
            return 0
        reach *= 4


def _setup_preview(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="ADDRESS", help="a frame or a single step: J12/beauty/17, J12/stitch"
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="JPEG file to write")


def _preview(arguments: argparse.Namespace, console: Console) -> int:
    address = address_of(arguments.address)
    if address.step is None:
        raise CallError(f"{address} has many previews", hint=f"name a frame, e.g. J{address.job}/beauty/17")
    with connect(arguments) as farm:
        reply = farm.frames(str(address), limit=2)
        rows = [row for units in reply.steps.values() for row in units]
        if len(rows) != 1:
            what = "no frame" if not rows else "more than one frame"
            raise CallError(f"{address} names {what}", hint="name one, e.g. J12/beauty/17")
        data = farm.preview(address.job, address.step, rows[0].unit)
    from pathlib import Path

    target = Path(arguments.output)
    try:
        target.write_bytes(data)
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror or error}") from error
    if console.json:
        console.document({"address": str(address), "file": str(target), "bytes": len(data)})
    else:
        console.line(f"{target}: preview of {address}")
    return 0


COMMANDS = {
    "log": Command(
        _setup_log,
        _log,
        ("farm log J12/beauty/17", "farm log J12/beauty/17 --follow", "farm log J12/beauty@7 --tail 50"),
    ),
    "preview": Command(_setup_preview, _preview, ("farm preview J12/beauty/17 -o frame17.jpg",)),
}
