"""Mixes the sound of a scene into one file.

Runs inside Blender, 3.4 to 5.x (stdlib and bpy only, Python 3.7 syntax).  What belongs here: the sound of the
sequencer and of speakers, for exactly the frames of the film.  The open file is never saved.
"""

# os.path: one style for every Python from 3.7 on.
# ruff: noqa: PTH113, PTH122, PTH202
import os

import bpy

#: By suffix: container, codec, format of a sample.  Both lose nothing.
_KINDS = {".flac": ("FLAC", "FLAC", "S16"), ".wav": ("WAV", "PCM", "S16")}


def is_built_in():
    """Whether this build can mix at all; the bpy wheels up to 4.x cannot."""
    return bool(getattr(bpy.app.build_options, "audaspace", True))


def missing_sounds():
    """Texts naming every sound file that something uses and that is not there; Blender mixes silence then."""
    texts = []
    for sound in bpy.data.sounds:
        if getattr(sound, "packed_file", None) is not None or not sound.filepath:
            continue
        if sound.users - (1 if sound.use_fake_user else 0) <= 0:
            continue
        path = bpy.path.abspath(sound.filepath, library=sound.library)
        try:
            if not os.path.isfile(path):
                texts.append("the sound %s does not exist" % path)
            elif not os.path.getsize(path):
                texts.append("the sound %s is empty" % path)
        except OSError as error:
            texts.append("the sound %s: %s" % (path, error.strerror or error))
    return texts


def mixdown(scene, frames, path):
    """Mixes frames ``[first, last]`` of a scene into a .flac or .wav.

    Raises:
        RuntimeError: Blender says why it cannot.
    """
    container, codec, form = _KINDS[os.path.splitext(path)[1].lower()]
    scene.frame_start, scene.frame_end = frames
    window = bpy.context.window
    if window is not None:
        window.scene = scene
    if bpy.context.scene != scene:
        raise RuntimeError("scene %s cannot be made the open one" % scene.name)
    result = bpy.ops.sound.mixdown(
        filepath=path,
        check_existing=False,
        relative_path=False,
        container=container,
        codec=codec,
        format=form,
        accuracy=1024,
    )
    if "FINISHED" not in result or not os.path.isfile(path) or not os.path.getsize(path):
        raise RuntimeError("Blender said it was done but wrote no sound")
