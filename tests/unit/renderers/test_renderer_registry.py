"""Finding renderers, and describing their parameters for people."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace

import msgspec
import pytest

from farm.model.errors import UnknownName
from farm.renderers import registry
from farm.renderers.base import read_params
from farm.renderers.registry import broken_renderers, describe, get_renderer, renderer_for_file, renderers

BUILT_IN = ["blender", "mitsuba", "ffmpeg", "stitch", "command"]


def test_every_built_in_is_there_and_knows_its_name() -> None:
    every = renderers()
    assert list(every)[:5] == BUILT_IN
    for name, renderer in every.items():
        assert renderer.name == name
        assert renderer.summary
        assert renderer.kinds <= {"per_frame", "single", "per_segment"}
        known = renderer.params_type.__struct_fields__
        assert set(renderer.path_params) | set(renderer.input_params) <= set(known)
        assert all(suffix.startswith(".") for suffix in renderer.suffixes)


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(UnknownName, match="blender, mitsuba, ffmpeg, stitch, command") as caught:
        get_renderer("bledner")
    assert "'bledner'" in str(caught.value)


def test_asking_for_one_does_not_import_the_others() -> None:
    code = (
        "import sys; from farm.renderers.registry import get_renderer; get_renderer('command');"
        "print([m for m in sys.modules if m.startswith(('farm.renderers.blender', 'farm.renderers.ffmpeg'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b.blend", "blender"),
        ("B.BLEND", "blender"),
        ("s.xml", "mitsuba"),
        ("x.MOV", "ffmpeg"),
        ("f.####.png", "ffmpeg"),
    ],
)
def test_files_go_to_the_renderer_of_their_suffix(path: str, name: str) -> None:
    assert renderer_for_file(path).name == name


def test_a_file_nobody_takes_is_refused_with_the_suffixes() -> None:
    with pytest.raises(UnknownName, match=r"\.blend"):
        renderer_for_file("/a/notes.txt")


def test_every_parameter_has_help_and_a_default_that_its_type_accepts() -> None:
    for renderer in renderers().values():
        params = describe(renderer)
        assert [param.name for param in params] == list(renderer.params_type.__struct_fields__)
        given = {"command": ["x"], "input": "a.####.png"}
        for param in params:
            assert param.help, f"{renderer.name}.{param.name} has no help"
            assert param.type
            assert param.required == (param.default == "")
            if not param.required:
                given[param.name] = msgspec.json.decode(param.default)
        known = {key: value for key, value in given.items() if key in renderer.params_type.__struct_fields__}
        read_params(renderer, known)


def test_types_are_said_in_words() -> None:
    words = {param.name: param.type for param in describe(get_renderer("blender"))}
    assert words["scene"] == "path"
    assert words["samples"] == "integer"
    assert words["autoexec"] == "true|false"
    assert words["view_layers"] == "list of text"
    assert words["device"] == "auto|cpu|cuda|optix|hip|oneapi|metal"
    assert words["parameters"] == "table"
    assert "step" in {param.name: param.type for param in describe(get_renderer("stitch"))}["input"]


class _Point:
    """An entry point of a third party."""

    def __init__(self, name: str, value: object) -> None:
        self.name, self.value, self._value = name, f"pkg.{name}:RENDERER", value

    def load(self) -> object:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


def _fake(name: str) -> SimpleNamespace:
    real = get_renderer("command")
    fields = {field: getattr(real, field) for field in registry._ATTRIBUTES}
    return SimpleNamespace(**{**fields, "name": name, "suffixes": (".fake",)})


def test_third_parties_join_and_broken_ones_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        _Point("fake", _fake("fake")),
        _Point("broken", ImportError("no such library")),
        _Point("halfway", SimpleNamespace(name="halfway")),
        _Point("blender", _fake("blender")),
        _Point("liar", _fake("other")),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert list(renderers()) == [*BUILT_IN, "fake"]
    assert get_renderer("fake").name == "fake"
    assert renderer_for_file("a.fake").name == "fake"
    reasons = broken_renderers()
    assert set(reasons) == {"broken", "halfway", "blender", "liar"}
    assert "no such library" in reasons["broken"]
    assert "lacks" in reasons["halfway"]
    with pytest.raises(UnknownName, match=r"broken: .*no such library"):
        get_renderer("broken")
    assert get_renderer("blender").name == "blender"
    assert "other" in reasons["liar"]


def test_our_own_entry_points_are_not_third_parties(monkeypatch: pytest.MonkeyPatch) -> None:
    own = EntryPoints([EntryPoint("blender", "farm.renderers.blender:RENDERER", registry.GROUP)])
    monkeypatch.setattr(registry, "entry_points", lambda group: own)
    assert broken_renderers() == {}
    assert list(renderers()) == BUILT_IN
