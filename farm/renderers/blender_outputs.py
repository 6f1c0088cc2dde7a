"""Which file of a Blender step is which output: view layers, stereo views, File Output nodes, sound.

What belongs here: the order of the outputs, and refusing a step whose outputs and parameters do not match.
What must not: command lines (``blender``), and what happens inside Blender (``runners/``).

The outputs of a step are, in this order: the picture of each view layer, of each of its stereo views; then
the files of File Output nodes as ``node_outputs`` names them.  A single step has one output, a sound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from farm.model.errors import JobFileError
from farm.model.jobs import StepSpec
from farm.renderers.checks import suffix_of

FORMAT_SUFFIXES = {
    "PNG": (".png",),
    "EXR": (".exr",),
    "EXR_MULTILAYER": (".exr",),
    "JPEG": (".jpg", ".jpeg"),
    "TIFF": (".tif", ".tiff"),
}
#: What the render itself is written as.
SUFFIXES = tuple(dict.fromkeys(suffix for group in FORMAT_SUFFIXES.values() for suffix in group))
#: What a File Output node may write beyond that: the node's own format, which the farm can decode.
NODE_SUFFIXES = (*SUFFIXES, ".bmp", ".cin", ".dpx", ".hdr", ".jp2", ".rgb", ".tga", ".webp")
#: What a mixdown is written as; both are lossless.
SOUND_SUFFIXES = (".flac", ".wav")
_ONE_RUN = re.compile(r"(-?[0-9]{1,7})(?:-(-?[0-9]{1,7}))?$")


class NodeOutput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One file a frame of a File Output node.

    Attributes:
        node: Name of the node.
        slot: Name of its slot (4.x: the slot's path, 5.x: the item's name); "" = all slots in the one file
            of a MultiLayer node.
        tree: Name of the node group it is in; "" = the scene's own compositor.
        view: Stereo view the file is of; "" = the node writes no view as a file of its own.
    """

    node: str
    slot: str = ""
    tree: str = ""
    view: str = ""


def check_counts(
    step: StepSpec, layers: Sequence[str], views: Sequence[str], nodes: Sequence[NodeOutput]
) -> None:
    """Refuses outputs that are more or fewer than what is asked for.

    Raises:
        JobFileError: They do not match, or something is asked for twice.
    """
    for what, names in (("view layer", layers), ("view", views)):
        if len(set(names)) != len(names):
            raise JobFileError(f"a {what} is named twice", f"params.{what.replace(' ', '_')}s")
    for index, node in enumerate(nodes):
        where = f"params.node_outputs[{index}]"
        if not node.node:
            raise JobFileError("the File Output node has no name", f"{where}.node")
        if node in nodes[:index]:
            raise JobFileError("a file of a File Output node is named twice", where)
    if nodes and len(layers) > 1:
        raise JobFileError(
            "File Output nodes belong to the compositor, which joins view layers",
            "params.node_outputs",
            hint="ask for one view layer, or leave view_layers out",
        )
    pictures = max(1, len(layers)) * max(1, len(views))
    if len(step.outputs) == pictures + len(nodes):
        return
    asked = [
        f"{len(names)} {what}"
        for what, names in (("view layers", layers), ("views", views), ("node outputs", nodes))
        if names
    ]
    raise JobFileError(
        f"{' and '.join(asked)} and {len(step.outputs)} outputs do not match"
        if asked
        else f"{len(step.outputs)} outputs need as many view layers, views or node_outputs",
        "outputs",
        hint="one output for each name in params.view_layers (for each of params.views), then one for each "
        "of params.node_outputs, in the same order",
    )


def check_suffixes(step: StepSpec, pictures: int, wanted: str, depth: str) -> None:
    """Refuses pictures whose suffix, format and depth do not go together.

    Args:
        step: The step.
        pictures: How many of its outputs the render itself writes; the others are of nodes.
        wanted: Format asked for, "" for the suffix's own.
        depth: Bits a channel asked for, "" for the scene's.

    Raises:
        JobFileError: A suffix and a parameter contradict.
    """
    for index, output in enumerate(step.outputs):
        suffix, where = suffix_of(output.pattern), f"outputs[{index}].pattern"
        if index >= pictures:
            continue
        if suffix not in SUFFIXES:
            raise JobFileError(
                f"blender cannot write {suffix}", where, hint="it writes " + ", ".join(SUFFIXES)
            )
        if wanted and suffix not in FORMAT_SUFFIXES[wanted]:
            raise JobFileError(f"{suffix} is not a suffix of {wanted}", where)
        if depth:
            allowed = {".png": "8 16", ".exr": "16 32", ".tif": "8 16", ".tiff": "8 16"}.get(suffix, "8")
            if depth not in allowed.split():
                raise JobFileError(f"{suffix} cannot have {depth} bits per channel", "params.color_depth")


def mixdown_range(text: str) -> tuple[int, int]:
    """First and last frame of a mixdown.

    Raises:
        JobFileError: It is not one run of frames.
    """
    match = _ONE_RUN.match(text.strip())
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if last < first:
        raise JobFileError(
            f"{text!r} is not one run of frames from first to last", "params.mixdown", hint="e.g. 1-250"
        )
    return first, last


def check_mixdown(step: StepSpec, mixdown: str) -> None:
    """Refuses a single step that mixes no sound, and a sound where pictures are rendered.

    Raises:
        JobFileError: The step's kind, its output and ``mixdown`` do not go together.
    """
    if step.kind == "per_frame":
        if mixdown:
            raise JobFileError(
                "sound is mixed by a step of kind single", "params.mixdown", hint="give it a step of its own"
            )
        return
    if not mixdown:
        raise JobFileError(
            "a single blender step mixes sound, and params.mixdown names no frames",
            "params.mixdown",
            hint="e.g. 1-250; pictures need a per_frame step",
        )
    mixdown_range(mixdown)
    if len(step.outputs) != 1 or suffix_of(step.outputs[0].pattern) not in SOUND_SUFFIXES:
        raise JobFileError(
            "a mixdown is one sound file", "outputs", hint="its suffix is " + " or ".join(SOUND_SUFFIXES)
        )
