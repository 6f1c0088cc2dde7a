"""The repository itself: what it says is true, what it names exists, and nothing private is in it."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from farm.cli.main import load_command, make_parser
from farm.cli.verbs import VERBS, find_verb
from farm.config.load import load_agent_options, load_broker_options, options
from farm.config.places import Places
from farm.model.errors import JobFileError, NotBuiltYet
from farm.model.jobs import job_schema, read_job
from farm.sdk.jobfile import check_job_here

ROOT = Path(__file__).resolve().parents[2]
#: Pages with commands people copy.
PAGES = (
    *("README.md", "CONTRIBUTING.md", "docs/user-guide.md", "docs/admin-guide.md", "docs/job-file.md"),
    "docs/blender.md",
)
#: Files of the product longer than this say at their top why; tests may be as long as what they test.
LONG = 500
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".sh",
    ".json",
    ".service",
    ".yml",
    ".yaml",
    ".cfg",
    ".mako",
    ".pov",
    "",
}


@cache
def tracked() -> tuple[Path, ...]:
    """Files that belong to the repository, also those that are new and not ignored.

    Where there is no git, or no repository but its files, everything that no tool made.
    """
    names: list[str] = []
    if shutil.which("git"):
        done = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=False
        )
        names = [name for name in done.stdout.decode().split("\0") if name]
    if not names:
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if not _made(path)]
    return tuple(path for path in (ROOT / name for name in names) if path.is_file())


def _made(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    hidden = parts[0].startswith(".") and parts[0] not in (".ci", ".gitignore")
    return hidden or any(
        part in ("__pycache__", "build", "dist", "overcrank-demo") or part.endswith(".egg-info")
        for part in parts
    )


def texts() -> list[tuple[str, str]]:
    """Name and content of every text file."""
    return [
        (path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8", errors="replace"))
        for path in tracked()
        if path.suffix in TEXT
    ]


def blocks(page: str, *kinds: str) -> list[str]:
    """Code blocks of a page that are marked with one of ``kinds``."""
    found = re.findall(r"^```([a-z]*)\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    return [body for kind, body in found if kind in kinds]


def project() -> dict[str, object]:
    loaded: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return loaded["project"]  # type: ignore[return-value]


# -- what must not be in it --------------------------------------------------------------------------

#: Put together here, so that this file does not hold what it looks for.
_HOSTS = (
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "deb.debian" + ".org",
    "archive.ubuntu" + ".com",
)
_PRIVATE = (
    r"(?<![\w.])/wo" + r"rk/",
    r"(?<![\w.])/tmp" + r"/w/",
    r"\.\./sha" + r"red\b",
    r"/root" + r"/\.pyenv",
)
_SECRETS = (r"-----BEGIN [A-Z ]*PRIVATE KEY-----", r"\bAKIA[0-9A-Z]{16}\b", r"\bghp_[A-Za-z0-9]{36}\b")


def test_no_package_registry_and_no_path_of_a_machine_is_named() -> None:
    wrong = []
    for name, text in texts():
        wrong += [f"{name}: {host}" for host in _HOSTS if host in text]
        wrong += [
            f"{name}: {match[0]}" for regex in (*_PRIVATE, *_SECRETS) for match in re.finditer(regex, text)
        ]
    assert not wrong


def test_only_known_files_stand_at_the_top() -> None:
    known = {
        *(
            "pyproject.toml",
            "constraints.txt",
            "README.md",
            "ARCHITECTURE.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
        ),
        *("LICENSE", ".gitignore", ".gitattributes"),
        *("farm", "node_agent", "client_gui", "plugins", "tests", "docs", "benchmarks", "deploy", ".ci"),
    }
    assert {path.relative_to(ROOT).parts[0] for path in tracked()} <= known


def test_large_files_are_none_by_accident() -> None:
    large = [path.name for path in tracked() if path.stat().st_size > 1 << 20]
    assert large == []


# -- style that no linter checks ---------------------------------------------------------------------


def modules() -> list[tuple[str, str]]:
    """Name and source of every Python file that has something in it."""
    return [(name, text) for name, text in texts() if name.endswith(".py") and text]


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, text in modules() if not (ast.get_docstring(ast.parse(text)) or "").strip()]
    assert not silent


def test_long_files_say_why() -> None:
    silent = [
        f"{name} ({lines} lines)"
        for name, text in modules()
        if (lines := text.count("\n")) > LONG
        and not name.startswith("tests/")
        and not re.search(r"[Ll]ong because", "\n".join(text.split("\n")[:40]))
    ]
    assert not silent, "say 'Long because ...' in the module's docstring, or split it"


# -- what the pages say ------------------------------------------------------------------------------


def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_check_notices_a_stale_page(tmp_path: Path) -> None:
    code = (
        "import runpy, sys; from pathlib import Path; names = runpy.run_path('docs/generate.py');"
        "pages = names['PAGES']; folder = Path(sys.argv[1]);"
        "[(folder / name).write_text(make()) for name, make in pages.items()];"
        "assert names['stale'](folder) == [];"
        "(folder / 'states.md').write_text('old'); (folder / 'options.md').unlink();"
        "assert names['stale'](folder) == ['options.md', 'states.md'], names['stale'](folder)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True)


def test_the_schema_is_what_the_command_prints() -> None:
    assert json.loads((ROOT / "docs/job.schema.json").read_text()) == json.loads(json.dumps(job_schema()))


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{name}: {link}"
        for name, text in texts()
        if name.endswith(".md")
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        if "://" not in link and not ((ROOT / name).parent / link).exists()
    ]
    assert not broken


def farm_lines() -> list[tuple[str, str]]:
    """Every line of a code block that calls `farm`, with its page."""
    return [
        (page, line.strip())
        for page in PAGES
        for block in blocks(page, "", "sh")
        for line in block.splitlines()
        if line.strip().startswith("farm ")
    ]


@pytest.mark.parametrize(("page", "line"), farm_lines())
def test_a_command_in_a_page_is_one_that_farm_takes(page: str, line: str) -> None:
    words = shlex.split(line.replace("...", ""), comments=True)
    assert words[0] == "farm"
    verb = find_verb(words[1])
    assert verb is not None, f"{page}: {line}"
    command = load_command(verb)
    own = words[2 : words.index("--")] if "--" in words else words[2:]
    assert "--" not in words or command.takes_program
    make_parser(verb, command).parse_args(own)


def test_the_readme_has_its_two_lines_and_their_scripts_exist() -> None:
    lines = [block.strip() for block in blocks("README.md", "")]
    assert lines[:2] == ["sh deploy/demo.sh", "sh deploy/test.sh"]
    for page in PAGES:
        named = re.findall(r"(?:deploy|docs|tests|farm|node_agent)/[\w./-]+\w", (ROOT / page).read_text())
        missing = [name for name in named if not (ROOT / name).exists()]
        assert not missing, page
    for script in (ROOT / "deploy").glob("*.sh"):
        assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci/run")], check=False).returncode == 0


@pytest.mark.parametrize("text", blocks("docs/job-file.md", "json"))
def test_a_job_file_in_the_pages_is_one(text: str) -> None:
    job, warnings = read_job(text)
    assert not warnings
    assert job.steps
    trouble = ""
    try:
        check_job_here(job)
    except JobFileError as error:
        trouble = error.message
    assert not trouble or "/proj/" in trouble, "only that its files are not on this machine may be wrong"


def test_the_options_in_the_guide_are_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for option in options():
        monkeypatch.delenv(option.variable, raising=False)
    path = Places("local").options
    path.parent.mkdir(parents=True)
    for text in blocks("docs/admin-guide.md", "toml"):
        path.write_text(text)
        load_broker_options("local")
        load_agent_options("local")
    assert load_broker_options("local").listen == "0.0.0.0"
    agent = load_agent_options("local")
    assert (agent.ram_mib, agent.deny_renderers, len(agent.path_rules)) == (48 * 1024, ("command",), 2)


def test_verbs_that_are_not_built_are_listed_as_such() -> None:
    missing = []
    for verb in VERBS:
        try:
            load_command(verb)
        except NotBuiltYet:
            missing.append(verb.name)
    line = next(
        line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("- Verbs ")
    )
    assert re.findall(r"`(\w[\w-]*)`", line) == missing


def test_the_changelog_has_an_entry_for_what_is_unreleased() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = text.partition("## Unreleased")[2].partition("\n## ")[0]
    assert len(re.findall(r"^- ", unreleased, re.M)) >= 10


# -- dependencies ------------------------------------------------------------------------------------


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for line in pins:
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line
    return {canonicalize_name(line.partition("==")[0]): line.partition("==")[2] for line in pins}


def test_constraints_pin_everything_we_ask_for_within_our_bounds() -> None:
    pins = constraints()
    found = project()
    wanted = list(found["dependencies"])  # type: ignore[call-overload]
    for extra in found["optional-dependencies"].values():  # type: ignore[attr-defined]
        wanted += extra
    for requirement in map(Requirement, wanted):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(version, prereleases=True), f"{requirement} but {version}"


def test_no_package_comes_with_a_desktop_of_its_own() -> None:
    # These wheels install the same module as the headless one and bring their own Qt.
    assert not {"opencv-python", "opencv-contrib-python", "pynvml"} & set(constraints())


def test_entry_points_are_those_the_registry_knows() -> None:
    from farm.renderers.registry import BUILT_IN, GROUP

    points = project()["entry-points"][GROUP]  # type: ignore[index]
    assert {name: value.partition(":")[0] for name, value in points.items()} == BUILT_IN
