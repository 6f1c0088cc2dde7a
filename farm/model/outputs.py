"""What is known of output files: their specification and the facts of one verified file."""

from __future__ import annotations

import msgspec


class PictureSpec(msgspec.Struct, frozen=True):
    """What must be equal between the pictures of one output.

    Data windows may differ between frames (autocrop); these may not.

    Attributes:
        width: Display window width in pixels.
        height: Display window height in pixels.
        channels: Channel names in file order, all subimages one after another.
        formats: Sample format of each channel (``uint8``, ``uint16``, ``half``, ``float`` ...).
        subimages: Number of parts in the file.
    """

    width: int
    height: int
    channels: tuple[str, ...]
    formats: tuple[str, ...]
    subimages: int = 1

    def difference(self, other: PictureSpec) -> str:
        """In words, how ``other`` differs from this; empty when it does not."""
        if (self.width, self.height) != (other.width, other.height):
            return f"is {other.width}x{other.height}, not {self.width}x{self.height}"
        if self.channels != other.channels:
            return f"has channels {','.join(other.channels)}, not {','.join(self.channels)}"
        if self.formats != other.formats:
            theirs, ours = "/".join(sorted(set(other.formats))), "/".join(sorted(set(self.formats)))
            return f"has samples {theirs}, not {ours}"
        if self.subimages != other.subimages:
            return f"has {other.subimages} parts, not {self.subimages}"
        return ""


class FileFacts(msgspec.Struct, frozen=True):
    """One verified file.

    Attributes:
        path: Final path, as the agent's machine sees it.
        size: Bytes.
        sha256: Hex digest of the content.
        output: Index of the step's output it belongs to.
        spec: Picture specification, None for a movie or a file that is no picture.
        frames: Video frames counted by decoding, None for a picture.
        warnings: What the optional checks found (black, NaN, same as its neighbour).
    """

    path: str
    size: int
    sha256: str
    output: int = 0
    spec: PictureSpec | None = None
    frames: int | None = None
    warnings: tuple[str, ...] = ()
