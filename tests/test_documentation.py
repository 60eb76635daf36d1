"""Pages of the docs: their examples work, their commands, types and names are the code's."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path

import pytest
import torch

import nnfuzz
from nnfuzz.backend.conformance import check_backend
from nnfuzz.backend.registry import import_plugin
from nnfuzz.check.operators import check_operators
from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import FLOAT8S, INT4S, DType
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.registry import OpRegistry

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def example(tmp_path):
    """The file that a reader makes of the only block with a mark."""

    def made(mark):
        (block,) = [block for block in BLOCKS if mark in block]
        file = tmp_path / "mine.py"
        file.write_text(block)
        return file

    return made


def test_the_operator_conforms(example):
    registry = OpRegistry()
    registry.add_module(import_plugin(example("class Atan(")))
    assert list(registry) == ["Atan"]
    (report,) = check_operators(registry.specs(), seed=0, instances=3)
    assert report.ok, report.problems
    assert report.forward and report.backward


def test_the_operator_that_is_made_of_others_needs_no_rounding(example):
    registry = OpRegistry.load([import_plugin(example("class Gudermannian("))])
    (report,) = check_operators([registry.get("Gudermannian")], seed=0, instances=3)
    assert report.ok, report.problems
    x = torch.tensor([0.5], dtype=torch.float64)
    (interval,) = admitted(registry.get("Gudermannian")(), [x], [DType.FLOAT32], u=2.0**-24)
    width = float(interval.hi - interval.lo)
    assert 2.0**-24 < width < 1e-5


def test_the_motif_is_found(example):
    module = import_plugin(example("@motif"))
    found = [made for made in vars(module).values() if isinstance(made, Motif)]
    assert [(made.name, made.size) for made in found] == [("gelu", 5)]


def test_the_backend_keeps_the_contract(example):
    fates = check_backend("onnxref", plugins=[example("class OnnxReference")])
    assert fates["add"] == "ok"


def test_the_model_optimiser_keeps_the_contract(example):
    fates = check_backend("inferred", plugins=[example("class Inferred")])
    assert fates["add"] == "ok"


@pytest.mark.skipif(not (find_spec("tinygrad") and shutil.which("clang")), reason="no tinygrad")
def test_the_plugin_for_tinygrad_keeps_the_contract():
    fates = check_backend("tinygrad", plugins=[ROOT / "examples" / "tinygrad_backend.py"])
    lacking = {name: fate for name, fate in fates.items() if fate != "ok"}
    assert all("unsupported at import" in fate for fate in lacking.values()), lacking
    assert lacking.keys() <= {dtype.value for dtype in (*INT4S, *FLOAT8S)}


DOCS = ROOT / "docs"
TOUR = [DOCS / "HOW_IT_WORKS.md", DOCS / "SECURITY_MODEL.md", *sorted(DOCS.glob("rooms/*.md"))]


@pytest.mark.parametrize("page", TOUR, ids=lambda page: page.stem)
def test_the_tour_names_files_that_there_are(page):
    places = [ROOT / room for room in ("nnfuzz", "opspecs", "backends", "scripts", "tests")]
    names = {path.name for place in places for path in place.rglob("*.py")}
    for named in re.findall(r"`([\w/]+\.py)`", page.read_text()):
        assert (ROOT / named).exists() or named in names, f"{page.name} names {named}"


def test_the_tour_is_short():
    assert len(TOUR[0].read_text().split()) <= 2000


def _signature(name: str) -> str:
    """As docs/API.md has it: without types, `self`, and the text of functions."""
    found = attrgetter(name)(nnfuzz)
    signature = inspect.signature(found)
    parameters = [
        p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"
    ]
    plain = signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)
    return re.sub(r"<function .*? at \w+>", "...", f"{name}{plain}")


def test_the_main_signatures_of_the_library_are_those_of_the_code():
    page = (ROOT / "docs" / "API.md").read_text()
    (block,) = re.findall(r"The main signatures:\n\n```text\n(.*?)```", page, re.DOTALL)
    lines = re.sub(r"\n +", " ", block).splitlines()
    assert lines == [_signature(line.partition("(")[0]) for line in lines]
    named = {line.partition("(")[0].partition(".")[0] for line in lines}
    assert named >= {"Generator", "check_model", "Experiment", "Oracle", "reduce", "register"}


# The page that follows one test names files that exist, and none of them twice.


PAGE = ROOT / "docs" / "rooms" / "one_test.md"


def test_the_walk_names_each_file_once():
    named = re.findall(r"`(nnfuzz/[\w/]+\.py)`", PAGE.read_text())
    assert 10 < len(named) <= 16 and len(named) == len(set(named))
    assert all((ROOT / name).is_file() for name in named)


# Python of docs and examples is strictly typed; files that pages embed are as they stand.


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
EMBEDDED = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
MYPY = ["--strict", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def give_nnfuzz(folder: Path) -> None:
    """The packages as they are installed: nnfuzz with opspecs and backends inside."""
    (folder / "nnfuzz").mkdir(parents=True)
    for path in [*(ROOT / "nnfuzz").iterdir(), ROOT / "opspecs", ROOT / "backends"]:
        (folder / "nnfuzz" / path.name).symlink_to(path)


@pytest.mark.slow
def test_every_example_and_block_passes_mypy_strict(tmp_path):
    give_nnfuzz(tmp_path / "site")
    files = [*(ROOT / "examples").glob("*.py"), ROOT / "examples/plugin_package/nnfuzz_toyc"]
    for page in PAGES:
        for i, block in enumerate(blocks(page)):
            files.append(tmp_path / f"{page.stem}_{i}.py")
            files[-1].write_text(block)
    assert len(files) > 20
    paths = [tmp_path / "site", ROOT / "examples" / "plugin_package"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *MYPY, f"--cache-dir={tmp_path / 'cache'}", *files],
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, paths))},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_embedded_files_are_as_they_stand():
    found = [file for page in PAGES for file in EMBEDDED.findall(page.read_text())]
    assert len(found) >= 3
    for name, text in found:
        assert text == (ROOT / name).read_text(), name


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "infer_input_types" in (tmp_path / "reference/operators/index.html").read_text()


def test_no_page_includes_another_file():
    assert [page.name for page in PAGES if "--8<--" in page.read_text()] == []


# The tutorial from top to bottom: its commands run, and print what it shows.


TUTORIAL = (ROOT / "docs" / "TUTORIAL.md").read_text()
FILE = re.compile(r"<!-- file: examples/(\S+) -->\n```python\n(.*?)```", re.DOTALL)
STEP = re.compile(r"^\$ (.*?)(?:  # exit code (\d))?\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
VARYING = {
    r"(?m)^\[\d+s\b.*\n": "",  # how far it is: a line every ten seconds
    r"\d+\.\d+\.\d+\S*": "RELEASE",
    r"\b\d+(\.\d+)?(s\b|/s|% of the time)": r"N\2",
    r"[ \t]+": " ",  # tables are as wide as what is installed
}
"""What another machine prints differently, as a pattern and what stands for it in both texts."""


def steps() -> list[tuple[str, int, str]]:
    """(command, exit code, what it is shown to print) in the order of the page."""
    shown = "".join(re.findall(r"```console\n(.*?)```", TUTORIAL, re.DOTALL))
    return [(command, int(code or 0), lines) for command, code, lines in STEP.findall(shown)]


def plain(text: str) -> str:
    for pattern, word in VARYING.items():
        text = re.sub(pattern, word, text)
    return text.strip()


def is_shown(shown: str, printed: str) -> bool:
    """Whether `shown` is what was printed, with "..." in place of lines that are left out."""
    parts = map(re.escape, re.split(r"^\.\.\.$", plain(shown), flags=re.MULTILINE))
    return re.fullmatch(".*".join(parts), plain(printed), re.DOTALL) is not None


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in the folder, with nnfuzz and Python of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def test_the_shown_compiler_is_the_example():
    ((name, text),) = FILE.findall(TUTORIAL)
    assert text == (ROOT / "examples" / name).read_text()


def test_it_goes_from_the_first_minute_to_an_issue():
    commands = [shlex.split(command)[:2] for command, _, _ in steps()]
    used = [words[1] for words in commands if words[0] == "nnfuzz"]
    assert used == ["backends", "fuzz", "show", "replay", "file", "fuzz", "replay"]
    assert len(commands) == len(re.findall(r"^\$ ", TUTORIAL, re.MULTILINE))


def test_other_output_is_not_what_is_shown():
    assert is_shown("a 3s\n...\nd", "a  12s\nb\nc\nd\n")
    assert is_shown("...\nd", "note\nd") and is_shown("a\n...", "a\nb")
    assert not is_shown("a\nd", "a\nb\nd") and not is_shown("ok 35\n...", "ok 34\nb")


@pytest.mark.slow
def test_every_command_prints_what_is_shown(tmp_path):
    ((name, text),) = FILE.findall(TUTORIAL)
    (tmp_path / name).write_text(text)
    for command, code, shown in steps():
        done = run(command, tmp_path)
        assert done.returncode == code, f"{command}\n{done.stdout}"
        assert is_shown(shown, done.stdout), f"{command}\n{done.stdout}"


def test_each_promise_of_the_security_model_has_its_tests():
    page = (ROOT / "docs" / "SECURITY_MODEL.md").read_text()
    rows = [row for row in page.partition("## Promises")[2].splitlines() if row.startswith("| ")]
    for row in rows[2:]:
        assert re.search(r"`tests/\w+/test_\w+\.py` \|$", row), row
        for path in re.findall(r"`((?:nnfuzz|scripts|tests)/[\w/.]+)`", row):
            assert (ROOT / path).exists(), path
