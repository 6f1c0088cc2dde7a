"""Programs and libraries: Python, packages, encryption, pictures, ffmpeg, renderers.

What belongs here: trying each for real, in the way the farm will use it.  What must not: installing
anything, and the farm's own state (``farm.cli.doctor.farms``).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from farm.cli.doctor.check import Check

#: The oldest Python this version runs on.
PYTHON = (3, 11)
#: What the demo asks of ffmpeg: the film's encoders and the filters of its grade.
ENCODERS = ("libx264", "ffv1", "aac")
FILTERS = ("drawtext", "eq", "vignette")
#: Seconds a program may take to answer; a first start from a network disk is slow.
PATIENCE_S = 60.0
#: Distributions that install a module of the same name over one of ours.
RIVALS = {
    "opencv-python": "opencv-python-headless",
    "opencv-contrib-python": "opencv-python-headless",
    "opencv-contrib-python-headless": "opencv-python-headless",
    "pynvml": "nvidia-ml-py",
}
#: Debian's packages of shared libraries that wheels expect of the system.
LIBRARIES = {"libatomic.so.1": "libatomic1", "libGL.so.1": "libgl1", "libstdc++.so.6": "libstdc++6"}


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Check:
    """The interpreter."""
    text = ".".join(map(str, version))
    if version[:2] >= PYTHON:
        return Check("python", "ok", f"{text} ({sys.executable})", needed=True)
    oldest = ".".join(map(str, PYTHON))
    return Check("python", "missing", f"{text} is too old", f"use Python {oldest} or newer", needed=True)


def requirements() -> list[str]:
    """What our distribution asks for, without extras; from pyproject.toml where it is not installed."""
    import importlib.metadata as metadata

    try:
        return [text for text in metadata.requires("overcrank") or [] if "extra ==" not in text]
    except metadata.PackageNotFoundError:
        pass
    import tomllib

    source = Path(__file__).parents[3] / "pyproject.toml"
    try:
        found: list[str] = tomllib.loads(source.read_text(encoding="utf-8"))["project"]["dependencies"]
    except (OSError, KeyError, tomllib.TOMLDecodeError):
        return []
    return found


def packages(wanted: Iterable[str] | None = None) -> list[Check]:
    """Python packages against the versions we ask for, and packages that overwrite one of them."""
    import importlib.metadata as metadata

    from packaging.requirements import Requirement

    bad, count = [], 0
    for requirement in map(Requirement, requirements() if wanted is None else wanted):
        count += 1
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            bad.append(f"{requirement.name} is not installed")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            bad.append(f"{requirement.name} is {version}, must be {requirement.specifier}")
    cure = "install them anew: pip install -c constraints.txt '.[demo]'"
    if not count:
        found = [Check("packages", "warn", "what Overcrank asks for is not known here", cure, needed=True)]
    elif bad:
        found = [Check("packages", "missing", "; ".join(bad), cure, needed=True)]
    else:
        found = [Check("packages", "ok", f"all {count} are here in a version that will do", needed=True)]
    for name, ours in RIVALS.items():
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        mend = f"pip uninstall {name} && pip install --force-reinstall {ours}"
        found.append(Check("packages", "warn", f"{name} is installed beside {ours} and overwrites it", mend))
    return found


def encryption() -> Check:
    """A key pair is made: without CURVE no socket of the farm opens."""
    from farm.model.errors import OvercrankError
    from farm.transport.keys import generate_keypair

    try:
        generate_keypair()
    except OvercrankError as error:
        return Check("encryption", "missing", error.message, error.hint, needed=True)
    except ImportError as error:
        return Check("encryption", "missing", str(error), "pip install pyzmq", needed=True)
    return Check("encryption", "ok", "the ZeroMQ library here has CURVE", needed=True)


def pictures() -> list[Check]:
    """A picture of each kind is written, decoded fully and compared."""
    return [_picture(suffix, kind) for suffix, kind in ((".png", "uint8"), (".exr", "half"))]


def _picture(suffix: str, kind: str) -> Check:
    import tempfile

    name, cure = f"pictures{suffix}", "pip install --force-reinstall OpenImageIO numpy"
    try:
        import numpy as np
        import OpenImageIO as oiio  # noqa: N813 - the name all its documentation uses

        from farm.media.verify import verify_file
        from farm.model.errors import OvercrankError
    except ImportError as error:
        return Check(name, "missing", str(error), cure, needed=True)
    try:
        with tempfile.TemporaryDirectory(prefix="overcrank-doctor-") as folder:
            path = f"{folder}/test{suffix}"
            made = oiio.ImageBuf(oiio.ImageSpec(16, 8, 3, kind))
            wave = np.linspace(0.0, 1.0, 16 * 8 * 3, dtype=np.float32).reshape(8, 16, 3)
            made.set_pixels(oiio.ROI(), wave)
            if not made.write(path):
                return Check(name, "missing", f"cannot be written: {made.geterror()}", cure, needed=True)
            verify_file(path)
            back = oiio.ImageBuf(path)
            if not back.read(force=True):
                return Check(name, "missing", f"cannot be read: {back.geterror()}", cure, needed=True)
            stored = back.get_pixels(oiio.FLOAT)
            if stored is None or float(np.abs(stored - wave).max()) > 1 / 250:
                return Check(name, "missing", "what is read is not what was written", cure, needed=True)
    except OSError as error:
        return Check(name, "warn", f"could not be tried: {error}", needed=True)
    except OvercrankError as error:
        return Check(name, "missing", f"cannot be read: {error.message}", cure, needed=True)
    return Check(
        name, "ok", f"written, decoded and compared with OpenImageIO {oiio.VERSION_STRING}", needed=True
    )


def ffmpeg() -> Check:
    """The ffmpeg program, and what the demo needs built into it."""
    from farm.media.ffmpeg import ffmpeg_version, find_ffmpeg
    from farm.model.errors import OvercrankError

    try:
        program = find_ffmpeg()
        version = ffmpeg_version(program)
    except OvercrankError as error:
        return Check("ffmpeg", "missing", error.message, error.hint, needed=True)
    lacking = [
        *_absent(ENCODERS, _ask(program, "-hide_banner", "-encoders")),
        *_absent(FILTERS, _ask(program, "-hide_banner", "-filters")),
    ]
    if lacking:
        detail = f"{version} ({program}) was built without {', '.join(lacking)}"
        cure = "install a full build: apt-get install ffmpeg, or set OVERCRANK_FFMPEG to one"
        return Check("ffmpeg", "missing", detail, cure, needed=True)
    return Check("ffmpeg", "ok", f"{version} ({program})", needed=True)


def _ask(program: str, *words: str) -> str:
    try:
        done = subprocess.run(
            [program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _absent(names: Iterable[str], listing: str) -> list[str]:
    # A row of the listing is flags, the name, then words: " V....D libx264   H.264 / AVC ...".
    there = set(re.findall(r"^\s*\S+\s+(\S+)", listing, re.MULTILINE))
    return [name for name in names if name not in there]


def renderers() -> list[Check]:
    """Blender, Mitsuba, whether the demo has one of them, and third parties' renderers that are broken."""
    blender, mitsuba = blenders(), mitsuba_wheel()
    return [blender, mitsuba, demo_renderer(blender, mitsuba), *third_parties()]


def blenders() -> Check:
    """Blender programs on the PATH and the bpy wheel."""
    import shutil

    from node_agent.apps import find_blenders, wheel_version

    found = [f"{app.version} ({app.argv[0]})" for app in find_blenders()]
    wheel = wheel_version("bpy")
    if wheel:
        found.append(f"{wheel} (the bpy wheel)")
    if found:
        return Check("blender", "ok", ", ".join(found))
    program = shutil.which("blender")
    if program:
        return Check("blender", "warn", f"{program} does not tell its version", f"try: {program} --version")
    return Check("blender", "missing", "no Blender here", "apt-get install blender, or put it on the PATH")


def mitsuba_wheel() -> Check:
    """Mitsuba, loaded for real in a process of its own."""
    from node_agent.apps import wheel_version

    version = wheel_version("mitsuba")
    if not version:
        return Check("mitsuba", "missing", "no Mitsuba here", "pip install 'mitsuba>=3.7'")
    code = "import mitsuba; mitsuba.set_variant('scalar_rgb')"
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE_S,
            check=False,
        )
        said = done.stdout.decode("utf-8", "replace").strip()
        failed = (
            f"exit code {done.returncode}: {said.splitlines()[-1] if said else ''}" if done.returncode else ""
        )
    except (OSError, subprocess.SubprocessError) as error:
        said, failed = "", str(error)
    if failed:
        cure = "pip install --force-reinstall mitsuba drjit"
        # What it lacks stands somewhere in the traceback, and its last line may hide it.
        if match := re.search(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file", said):
            failed = f"there is no {match[1]}"
            cure = f"apt-get install {LIBRARIES.get(match[1], 'what brings ' + match[1])}"
        return Check("mitsuba", "warn", f"{version} is here but does not load: {failed}", cure)
    return Check("mitsuba", "ok", version)


def demo_renderer(blender: Check, mitsuba: Check) -> Check:
    """What `farm demo` would render with: Blender if something called so is here, else Mitsuba."""
    chosen = mitsuba if blender.status == "missing" else blender
    if chosen.status == "ok":
        return Check("demo-renderer", "ok", chosen.name, needed=True)
    if chosen.status == "warn":
        other = "mitsuba" if chosen is blender else "blender"
        cure = f"mend it, or choose the other: farm demo --renderer {other}"
        return Check(
            "demo-renderer", "missing", f"{chosen.name} is here but does not work", cure, needed=True
        )
    cure = "pip install 'mitsuba>=3.7', or apt-get install blender"
    return Check("demo-renderer", "missing", "neither Blender nor Mitsuba is here", cure, needed=True)


def third_parties() -> list[Check]:
    """Renderers of other packages that cannot be used."""
    from farm.renderers.registry import BUILT_IN, broken_renderers
    from farm.renderers.registry import renderers as working

    broken = broken_renderers()
    found = [
        Check("renderers", "warn", f"{name}: {reason}", "mend or uninstall the package that brings it")
        for name, reason in broken.items()
    ]
    extra = [name for name in working() if name not in BUILT_IN]
    more = f" and of other packages {', '.join(extra)}" if extra else ""
    return [Check("renderers", "ok", f"built in {', '.join(BUILT_IN)}{more}"), *found]
