"""The sources of the plug-ins, the zips that are made of them, and the verb that makes them."""

from __future__ import annotations

import ast
import json
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

import farm
from farm.cli.main import main
from farm.cli.plugin.sources import build_blender, farm_command, sources
from tests.support.addon import PLUGINS

# -- the sources and the zips ----------------------------------------------------------------------------


def python_files() -> list[Path]:
    return sorted(path for path in PLUGINS.rglob("*.py"))


@pytest.mark.parametrize("path", python_files(), ids=lambda path: path.relative_to(PLUGINS).as_posix())
def test_a_plug_in_is_old_python_and_the_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))
    names = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    names |= {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
    }
    assert names <= set(sys.stdlib_module_names) | {"bpy"}
    pure = path.parent.name == "_shared" or path.name in ("job.py", "naming.py", "checks.py")
    assert not (pure and "bpy" in names)


def test_every_source_is_in_the_wheel() -> None:
    project = tomllib.loads((PLUGINS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    globs = [one for group in project["tool"]["setuptools"]["data-files"].values() for one in group]
    names = [
        path.relative_to(PLUGINS.parent).as_posix()
        for path in PLUGINS.rglob("*")
        if path.suffix in (".py", ".toml")
    ]
    assert [
        name for name in names if name != "plugins/ruff.toml" and not any(fnmatch(name, one) for one in globs)
    ] == []


def test_all_say_the_same_version() -> None:
    manifest = tomllib.loads((PLUGINS / "blender" / "blender_manifest.toml").read_text(encoding="utf-8"))
    entry = ast.parse((PLUGINS / "blender" / "__init__.py").read_text(encoding="utf-8"))
    info = next(
        ast.literal_eval(node.value)
        for node in entry.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "bl_info"
    )
    assert manifest["version"] == ".".join(map(str, info["version"])) == farm.__version__
    assert len(manifest["tagline"]) <= 64
    # An older Blender says itself that it is too old, before it runs a line of the add-on.
    assert (info["blender"], manifest["blender_version_min"]) == ((3, 4, 0), "4.2.0")


def test_the_zips_have_the_two_forms_and_are_the_same_each_time(tmp_path: Path) -> None:
    forms = {}
    for extension in (False, True):
        path = build_blender(tmp_path / "a.zip", extension=extension, command=["/opt/farm", "--x"])
        first = path.read_bytes()
        assert (
            build_blender(tmp_path / "b.zip", extension=extension, command=["/opt/farm", "--x"]).read_bytes()
            == first
        )
        with zipfile.ZipFile(path) as packed:
            forms[extension] = set(packed.namelist())
            told = packed.read("installed.json" if extension else "overcrank/installed.json")
            assert json.loads(told) == {"command": ["/opt/farm", "--x"]}
    assert {"blender_manifest.toml", "__init__.py", "_shared/submission.py"} <= forms[True]
    assert {"overcrank/__init__.py", "overcrank/_shared/submission.py"} <= forms[False]
    assert "overcrank/blender_manifest.toml" not in forms[False], "4.2 would take it for an extension"


def test_the_farm_writes_down_how_it_is_called() -> None:
    command = farm_command()
    assert Path(command[0]).is_file()
    assert sources() == PLUGINS


# -- the verb --------------------------------------------------------------------------------------------


def test_zips_are_built_for_others_without_this_machines_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "build", "blender", "--out", str(tmp_path / "zips"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["built"]
    assert [one["form"] for one in told] == ["add-on", "extension"]
    for one in told:
        with zipfile.ZipFile(one["path"]) as packed:
            assert not [name for name in packed.namelist() if name.endswith("installed.json")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["install", "maya"], "a plug-in for maya is not built yet"),
        (["build", "Nuke", "--out", "x"], "a plug-in for Nuke is not built yet"),
        (["install", "gimp"], "there is no plug-in for 'gimp'"),
        (["install", ""], "there is no plug-in for ''"),
        (["remove", ""], "there is no plug-in for ''"),
        (["build", "blender", "--out", ""], "--out and --path take a folder"),
        (["install", "blender", "--path", ""], "--out and --path take a folder"),
        (["install", "blender", "--blender", "/nowhere/blender"], "--blender /nowhere/blender is no Blender"),
        (["list", "blender", "--path", "/nowhere"], "--path /nowhere is no folder"),
    ],
)
def test_what_there_is_not_is_refused_by_name(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", *words]) == 2
    assert said in capsys.readouterr().err
