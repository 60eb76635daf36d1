"""The commands in the docs are commands of nnfuzz; a reader who copies them sees them work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest
from onnx import parser

from nnfuzz.cli.main import application
from tests.command import nnfuzz

ROOT = Path(__file__).parent.parent
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.*")})
PAGES.remove(ROOT / "CHANGELOG.md")  # tells what was, too

SHORTER = {
    r"--resume --time 8h": "--resume --tests 2",
    r" --time 4h": "",
    r"generate --backend onnxruntime": r"generate --backend onnxruntime --operators Add,Relu",
    r"(generate\b.*)--count \d+": r"\1--count 2 --nodes 3",
    r"ops check$": "ops check Add",  # of all operators: minutes
    r"reduce (\S+)$": r"reduce \1 --budget 20",
    r"fuzz --backend tvm": "fuzz --backend onnxruntime",
    r"check (\S+\.onnx)$": r"check \1 --backend onnxruntime",  # by default all that are here
    # Campaigns last a minute by default, and 10 seconds of that go to probes.
    r" fuzz\b(?!.*--tests)(.*)$": r" fuzz\1 --tests 1 --nodes 3 --set probe=no",
    r" fuzz\b(?!.*--(?:seed \d|resume))(.*)$": r" fuzz\1 --seed 7",  # the same in every run
}
"""What would take too long, as a pattern and what is run instead."""

ONLY_PARSED = {
    "nnfuzz fuzz -b onnxruntime@": "installs a release from the network",
    "nnfuzz fuzz -b onnxruntime --seed 7 --tests 100000": "tests/campaign/test_on_ray.py does it",
    "nnfuzz fuzz -b onnxsim": "tests/test_ci_files.py runs the nightly job",
    "nnfuzz bugs add": "tests/test_ci_files.py runs the nightly job",
    "nnfuzz bisect": "installs releases from the network",
    "nnfuzz bugs check onnxsim": "asks the package index; tests/bugs has environments of its own",
    "nnfuzz merge": "tests/campaign/test_merging.py has parts of a campaign",
    "scripts/fuzz": "makes .venv; it hands its arguments to `nnfuzz fuzz`, which is run",
    "scripts/test": "makes .venv and runs these tests",
}
"""What no test runs, by its beginning, and why."""

MINE = parser.parse_model(
    '<ir_version: 8, opset_import: ["" : 17]> mine (float[2, 3] x) => (float[2, 3] y)'
    "{ a = Relu(x)  y = Softmax(a) }"
)

BROKEN = '''
from nnfuzz.backends.onnxruntime import OnnxRuntime


class Broken(OnnxRuntime):
    """ONNX Runtime that fails to build anything."""

    name = "broken"

    def build(self, module, level):
        raise ValueError("broken on purpose")
'''


OF_THE_SHELL = ("cat ", "python ", "sed ")
"""Commands that pages show beside those of nnfuzz; tests/test_documentation.py runs them."""


def blocks(text: str) -> str:
    """What a page shows as a terminal: fenced with a prompt, or indented without one."""
    fenced = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    prompted = re.findall(r"^\$ (.*)$", "\n".join(fenced), re.MULTILINE)
    return "\n".join(prompted + re.findall(r"^    (nnfuzz .*)$", text, re.MULTILINE))


def commands(text: str) -> list[str]:
    """The commands of a page's terminal blocks, without comments."""
    lines = [re.sub(r"\s+#.*", "", line) for line in blocks(text).splitlines()]
    found = [command.strip() for line in lines for command in line.split(";")]
    return [command for command in found if not command.startswith(OF_THE_SHELL)]


def mentioned(text: str) -> list[str]:
    """Commands of nnfuzz within sentences; "..." stands for options of the reader's choice."""
    spans = re.findall(r"`(nnfuzz [a-z-][^`]*)`", text)
    return [re.sub(r"\s+", " ", span).replace(" ...", "") for span in spans]


@cache
def parse(command: str) -> None:
    """Raises: an error of the command line if it does not know the command or an option."""
    name, *arguments = shlex.split(command)
    assert name == "nnfuzz"
    parser = COMMAND
    while arguments and arguments[0] in getattr(parser, "commands", ()):
        parser = parser.commands[arguments.pop(0)]
    context = parser.context_class(parser, info_name=command)
    _, rest, _ = parser.make_parser(context).parse_args(arguments)
    assert not rest, f"not understood: {rest}"


COMMAND = application()
ALL = sorted(
    {
        (page.relative_to(ROOT).as_posix(), command)
        for page in PAGES
        for command in commands(page.read_text()) + mentioned(page.read_text())
    }
)


def shortened(command: str) -> str:
    for long, short in SHORTER.items():
        command = re.sub(long, short, command)
    return command


@pytest.mark.parametrize("page", sorted({page for page, _ in ALL}))
def test_every_command_is_understood(page):
    for command in (command for own, command in ALL if own == page):
        if command.startswith("scripts/"):
            script, *arguments = shlex.split(command)
            assert os.access(ROOT / script, os.X_OK)
            words = ["nnfuzz", "fuzz", *arguments] if "fuzz" in script else ["nnfuzz", "ops"]
            command = shlex.join(words)
        parse(command)
        parse(shortened(command))


def test_what_is_not_run_is_still_in_the_docs():
    for beginning, reason in ONLY_PARSED.items():
        assert reason and any(command.startswith(beginning) for _, command in ALL), beginning


def run(command: str, folder: Path) -> subprocess.CompletedProcess:
    """`nnfuzz ...` in the folder, without a terminal."""
    return nnfuzz(*shlex.split(shortened(command))[1:], cwd=folder)


@pytest.fixture
def folder(tmp_path):
    """What the commands of the pages take for granted: a model, and a place for pictures."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "mine.onnx").write_bytes(MINE.SerializeToString())
    return tmp_path


def give_a_finding(folder: Path) -> None:
    """campaign/findings/NAME, of a broken compiler."""
    (folder / "broken.py").write_text(BROKEN)
    fuzz = "nnfuzz fuzz --plugin broken.py -b broken --tests 1 --nodes 2 --out broken"
    assert run(fuzz, folder).returncode == 1
    found = next((folder / "broken" / "findings").glob("*"))
    shutil.copytree(found, folder / "campaign" / "findings" / "NAME")


RUN = [
    "README.md",
    *(
        pytest.param(page, marks=pytest.mark.slow)
        for page in ("CONTRIBUTING.md", "docs/CORPUS.md", "docs/CI.md")
    ),
]


@pytest.mark.parametrize("page", RUN)
def test_the_commands_run(page, folder):
    """In the order of the page, in one folder."""
    for command in commands((ROOT / page).read_text()):
        if any(command.startswith(beginning) for beginning in ONLY_PARSED):
            continue
        if "findings/NAME" in command:
            if not (folder / "campaign" / "findings" / "NAME").exists():
                give_a_finding(folder)
            if command.split()[1] in ("replay", "reduce", "file"):
                command += " --plugin broken.py"
        done = run(command, folder)
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}{done.stderr}"


def test_the_entry_points_are_those_that_are_read():
    (block,) = re.findall(r"```toml\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    shown = tomllib.loads(block)["project"]["entry-points"]
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    assert shown.keys() == {name for name in own if name.startswith("nnfuzz.")}


def test_the_table_lists_every_script():
    """A script is what `python -m` starts: a module, or a package, with a main part."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    listed = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    scripts = [
        path.relative_to(ROOT / "scripts").as_posix().replace("__main__.py", "")
        for path in ROOT.glob("scripts/**/*.py")
        if '__name__ == "__main__"' in path.read_text()
    ]
    assert listed == sorted(scripts)
