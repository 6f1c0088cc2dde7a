"""Is a file complete?  Walks over the skeletons of the containers whose decoders are lenient.

Image and video libraries conceal damage: a PNG without its end, a JPEG without its end marker and an
MP4 or Matroska file cut near its end all decode without a word.  Each walk here reads lengths, marks
and checksums only, never pixels.  Formats whose decoder reports every cut (OpenEXR) have no walk.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from farm.model.errors import OutputError

_BLOCK = 1 << 20
#: More directories than this in one TIFF mean a loop or nonsense.
_MAX_TIFF_PAGES = 65_536


class Structure(NamedTuple):
    """What a walk found.

    Attributes:
        format: ``png``, ``jpeg``, ``tiff``, ``openexr``, ``mp4``, ``matroska``, ``avi`` or "".
        parts: Pictures in the file where the walk can tell (TIFF directories), else 0.
        index_first: MP4 only: the index (``moov``) lies before the data, so that playback can start
            while the file still loads.
    """

    format: str
    parts: int = 0
    index_first: bool | None = None


#: Each byte with its bits turned round: FFV1 runs its checksum from the other end than zlib.
_MIRROR = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
_FFV1_FOOTER = 8


def ffv1_intact(packet: bytes) -> bool:
    """Whether one FFV1 packet (version 3 and up) consists of slices with right checksums.

    Decoders only log a wrong slice and show the last picture's pixels there.  Each slice ends with its
    length (24 bit), an error byte and a CRC over all of it, which leaves 0 (RFC 9043, section 4.9).

    Returns:
        False also for packets without checksums; a stream has them when any packet is intact.
    """
    end = len(packet)
    while end > _FFV1_FOOTER:
        length = int.from_bytes(packet[end - 8 : end - 5], "big") + _FFV1_FOOTER
        if length > end:
            return False
        # Starting from all ones cancels zlib's own inversion: FFV1 starts from 0.
        if zlib.crc32(packet[end - length : end].translate(_MIRROR), 0xFFFFFFFF) != 0xFFFFFFFF:
            return False
        end -= length
    return end == 0 and bool(packet)


class _Bad(Exception):
    """What is wrong, without the file's name."""


def check_structure(path: str | os.PathLike[str]) -> Structure:
    """Walks over a file by its content and says what it is.

    Raises:
        OutputError: The file is cut off or its structure is damaged; names the file and the place.
    """
    name = os.fspath(path)
    try:
        with Path(name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = file.read(12)
            for matches, walk in _WALKS:
                if matches(head):
                    file.seek(0)
                    return walk(file, size)
    except _Bad as bad:
        raise OutputError(f"{name}: {bad}", name) from None
    except OSError as error:
        raise OutputError(f"{name}: the file cannot be read: {error.strerror}", name) from error
    return Structure("openexr" if head[:4] == b"\x76\x2f\x31\x01" else "")


def _exactly(file: BinaryIO, count: int, what: str) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise _Bad(f"the file is cut off in {what}")
    return data


def _png(file: BinaryIO, size: int) -> Structure:
    """Chunks with length and CRC up to IEND (PNG specification, section 5.3)."""
    file.read(8)
    first, data_seen = True, False
    while True:
        at = file.tell()
        if at == size:
            raise _Bad("the PNG is cut off: it has no end (IEND)")
        head = _exactly(file, 8, "a PNG chunk header")
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        label = kind.decode("latin-1") if kind.isalpha() else repr(kind)
        if first and kind != b"IHDR":
            raise _Bad(f"the PNG begins with {label}, not IHDR")
        if length > size - at - 12:
            raise _Bad(f"the PNG is cut off in its {label} chunk at byte {at}")
        crc = zlib.crc32(kind)
        left = length
        while left:
            block = _exactly(file, min(left, _BLOCK), f"the PNG's {label} chunk")
            crc = zlib.crc32(block, crc)
            left -= len(block)
        if crc != int.from_bytes(_exactly(file, 4, f"the PNG's {label} chunk"), "big"):
            raise _Bad(f"the PNG is damaged: wrong checksum in its {label} chunk at byte {at}")
        first = False
        data_seen = data_seen or kind == b"IDAT"
        if kind == b"IEND":
            if not data_seen:
                raise _Bad("the PNG holds no picture data (IDAT)")
            return Structure("png")


_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])", re.DOTALL)


def _jpeg(file: BinaryIO, size: int) -> Structure:
    """Segments and scans up to the end marker (ITU T.81, annex B)."""
    data = file.read()
    at, scan_seen = 2, False
    while True:
        if at >= size:
            raise _Bad("the JPEG is cut off: it has no end marker (EOI)")
        if data[at] != 0xFF:
            raise _Bad(f"the JPEG is damaged: no marker at byte {at}")
        marker = data[at + 1] if at + 1 < size else 0xFF
        if marker == 0xFF:
            at += 1  # fill byte
            continue
        if marker == 0xD9:
            if not scan_seen:
                raise _Bad("the JPEG holds no picture data")
            return Structure("jpeg")
        if marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if at + 4 > size or length < 2 or at + 2 + length > size:
            raise _Bad(f"the JPEG is cut off in the segment at byte {at}")
        at += 2 + length
        if marker == 0xDA:
            scan_seen = True
            found = _JPEG_MARKER.search(data, at)
            if found is None:
                raise _Bad("the JPEG is cut off in its picture data: it has no end marker (EOI)")
            at = found.start(1) - 1


_TIFF_SIZES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}
_TIFF_INTEGERS = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q", 18: "Q"}
#: Tags that hold where the pixels lie, with the tag that holds how many bytes.
_TIFF_EXTENTS = {273: 279, 324: 325}


def _tiff(file: BinaryIO, size: int) -> Structure:
    """Directories and the extents of their strips or tiles (TIFF 6.0, section 2; BigTIFF)."""
    head = _exactly(file, 8, "the TIFF header")
    order = "<" if head[:2] == b"II" else ">"
    big = struct.unpack(order + "H", head[2:4])[0] == 43
    count_code, offset_code, entry_size = ("Q", "Q", 20) if big else ("H", "I", 12)
    if big:
        offset = struct.unpack(order + "Q", _exactly(file, 8, "the TIFF header"))[0]
    else:
        offset = struct.unpack(order + "I", head[4:])[0]

    def values(entry: bytes) -> tuple[int, ...]:
        kind, number = struct.unpack(order + "H" + offset_code, entry[2 : 4 + struct.calcsize(offset_code)])
        code = _TIFF_INTEGERS.get(kind)
        if code is None:
            raise _Bad("the TIFF is damaged: strip positions are no integers")
        width = number * _TIFF_SIZES[kind]
        inline = entry[4 + struct.calcsize(offset_code) :]
        if width <= len(inline):
            raw = inline[:width]
        else:
            place = struct.unpack(order + offset_code, inline)[0]
            if place + width > size:
                raise _Bad("the TIFF is cut off: its strip table lies behind the end of the file")
            file.seek(place)
            raw = _exactly(file, width, "the TIFF's strip table")
        return struct.unpack(f"{order}{number}{code}", raw)

    pages = 0
    seen: set[int] = set()
    while offset:
        if offset in seen or pages >= _MAX_TIFF_PAGES:
            raise _Bad("the TIFF is damaged: its directories form a loop")
        seen.add(offset)
        if offset + struct.calcsize(count_code) > size:
            raise _Bad("the TIFF is cut off: a directory lies behind the end of the file")
        file.seek(offset)
        number = struct.unpack(
            order + count_code, _exactly(file, struct.calcsize(order + count_code), "a directory")
        )[0]
        if number * entry_size > size:
            raise _Bad("the TIFF is cut off in a directory")
        table = _exactly(file, number * entry_size, "a TIFF directory")
        next_offset = struct.unpack(
            order + offset_code, _exactly(file, struct.calcsize(order + offset_code), "a TIFF directory")
        )[0]
        entries = {}
        for at in range(0, len(table), entry_size):
            entry = table[at : at + entry_size]
            entries[struct.unpack(order + "H", entry[:2])[0]] = entry
        for where, how_much in _TIFF_EXTENTS.items():
            if where in entries and how_much in entries:
                for start, length in zip(values(entries[where]), values(entries[how_much]), strict=False):
                    if start + length > size:
                        raise _Bad(f"the TIFF is cut off: picture data lies behind its end ({size} bytes)")
        pages += 1
        offset = next_offset
    if not pages:
        raise _Bad("the TIFF holds no picture")
    return Structure("tiff", parts=pages)


def _mp4(file: BinaryIO, size: int) -> Structure:
    """Top-level boxes (ISO/IEC 14496-12, section 4.2); the index must be there and nothing cut."""
    at, order = 0, []
    while at < size:
        file.seek(at)
        head = _exactly(file, 8, "a box header")
        length, kind = int.from_bytes(head[:4], "big"), head[4:]
        if length == 1:
            length = int.from_bytes(_exactly(file, 8, "a box header"), "big")
        elif length == 0:
            length = size - at
        label = kind.decode("latin-1") if kind.isalnum() else repr(kind)
        if length < 8:
            raise _Bad(f"the movie is damaged: box {label} at byte {at} has no size")
        if at + length > size:
            raise _Bad(f"the movie is cut off: {at + length - size} bytes of its {label} box are missing")
        order.append(kind)
        at += length
    if b"moov" not in order:
        raise _Bad("the movie has no index (moov): its writer was interrupted")
    if b"mdat" not in order:
        raise _Bad("the movie holds no data (mdat)")
    return Structure("mp4", index_first=order.index(b"moov") < order.index(b"mdat"))


def _vint(file: BinaryIO, keep_mark: bool) -> tuple[int, bool]:
    """One EBML variable-length integer (RFC 8794, section 4) and whether it says "unknown"."""
    first = _exactly(file, 1, "a Matroska element")[0]
    width = 9 - first.bit_length()
    if width > 8:
        raise _Bad("the movie is damaged: no Matroska element where one must be")
    rest = _exactly(file, width - 1, "a Matroska element")
    value = first if keep_mark else first & ((1 << (8 - width)) - 1)
    number = (value << (8 * (width - 1))) | int.from_bytes(rest, "big")
    return number, not keep_mark and number == (1 << (7 * width)) - 1


def _matroska(file: BinaryIO, size: int) -> Structure:
    """EBML header, then one segment whose stored size must fit (RFC 9559).

    Writers store "unknown" first and the real size when they finish, so an unknown size means that
    the writer was interrupted.
    """
    segments = 0
    while file.tell() < size:
        element, _ = _vint(file, keep_mark=True)
        length, unknown = _vint(file, keep_mark=False)
        if unknown:
            raise _Bad(
                "the movie was never finished: its length is not stored (interrupted, or a live stream)"
            )
        segments += element == 0x18538067
        if file.tell() + length > size:
            raise _Bad(f"the movie is cut off: {file.tell() + length - size} bytes are missing")
        file.seek(length, os.SEEK_CUR)
    if not segments:
        raise _Bad("the movie holds no data: it ends after its header")
    return Structure("matroska")


def _avi(file: BinaryIO, size: int) -> Structure:
    """RIFF lists (one, or several in OpenDML files)."""
    at = 0
    while at + 8 <= size:
        file.seek(at)
        head = _exactly(file, 8, "a RIFF header")
        if head[:4] != b"RIFF":
            break
        length = int.from_bytes(head[4:], "little")
        if length == 0:
            raise _Bad("the movie was never finished: its length is not stored")
        if at + 8 + length > size:
            raise _Bad(f"the movie is cut off: {at + 8 + length - size} bytes are missing")
        at += 8 + length + (length & 1)
    return Structure("avi")


_WALKS: tuple[tuple[Callable[[bytes], bool], Callable[[BinaryIO, int], Structure]], ...] = (
    (lambda head: head[:8] == b"\x89PNG\r\n\x1a\n", _png),
    (lambda head: head[:3] == b"\xff\xd8\xff", _jpeg),
    (lambda head: head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), _tiff),
    (lambda head: head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"), _mp4),
    (lambda head: head[:4] == b"\x1a\x45\xdf\xa3", _matroska),
    (lambda head: head[:4] == b"RIFF" and head[8:12] == b"AVI ", _avi),
)
