"""No Python file of the working directory runs in a process that nnfuzz starts."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nnfuzz.base.programs import run_program
from nnfuzz.sandbox.forkserver import ForkServer

ROOT = Path(__file__).parents[2]
NAMES = ("json", "socket", "numpy", "nnfuzz", "typing", "random", "torch", "onnx", "tensorrt")
BAIT = "open({ran!r}, 'a').write(__file__ + '\\n')\nraise SystemExit('the bait ran')\n"
PROGRAM = [Path(sys.executable).with_name("nnfuzz")]
MODULE = [sys.executable, "-m", "nnfuzz"]


@pytest.fixture
def baits(tmp_path, monkeypatch):
    """A working directory whose modules write to a file, and that file."""
    here, ran = tmp_path / "here", tmp_path / "ran"
    here.mkdir()
    put_baits(here, ran)
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return here, ran


def put_baits(folder: Path, ran: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.py").write_text(BAIT.format(ran=str(ran)))


def test_the_baits_work(baits):
    _, ran = baits
    subprocess.run([sys.executable, "-c", "import json"], capture_output=True)
    assert ran.exists()


def test_programs_of_python_find_no_bait(baits):
    here, ran = baits
    (here / "script.py").write_text("import json, socket, sys\nprint(json.dumps(sys.path))\n")
    for command in (
        ["script.py"],
        ["-c", "import json, socket, typing"],
        ["-m", "json.tool", "-h"],
    ):
        done = run_program([sys.executable, *command])
        assert done.returncode == 0, done.stderr
    assert not ran.exists()


def test_a_fork_server_finds_no_bait(baits, monkeypatch):
    _, ran = baits
    monkeypatch.setattr(sys, "path", ["", *sys.path])  # as at a prompt
    with ForkServer(("json", "socket", "typing", "random")) as server:
        pids: list[int] = []
        server.fork([0, 1, 2], pids.append, print)
        while server.alive and not pids:
            server.pump()
        assert not server.log()
    assert pids and not ran.exists()


@pytest.mark.parametrize("command", [PROGRAM, MODULE], ids=["nnfuzz", "python -m nnfuzz"])
def test_the_command_line_finds_no_bait(command, baits):
    here, ran = baits
    if command is MODULE:  # Python itself takes the first nnfuzz that it finds
        (here / "nnfuzz.py").unlink()
    done = subprocess.run([*command, "settings", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and not ran.exists(), done.stderr


@pytest.mark.slow
def test_no_command_runs_what_lies_in_its_folder(baits):
    """check, fuzz, and what is done with a finding that has baits beside its files."""
    here, ran = baits
    shutil.copy(ROOT / "examples" / "hasty.py", here)
    shutil.copy(ROOT / "examples" / "hasty.py", plugin := here.with_name("hasty.py"))

    def done(*arguments: object, cwd: Path = here) -> str:
        command = [*PROGRAM, *map(str, arguments)]
        run = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
        assert run.returncode in (0, 1), run.stderr
        return run.stdout

    fuzz = ("fuzz", "-b", "hasty", "--plugin", "hasty.py", "--tests", 20, "--seed", 4, "--nodes", 6)
    only = ("--set", "dtypes=float32", "--exporter", "direct")
    focus = ("--operators", "Transpose,Add,Relu", *only)
    done(*fuzz, *focus, "--out", "campaign")
    finding = next((here / "campaign" / "findings").iterdir())
    for folder in (finding, finding / "reduced"):
        put_baits(folder, ran)
    model = finding / "model.onnx"
    assert "hasty O0: right" in done("check", model, "-b", "hasty", "--plugin", "hasty")
    assert "reproduced" in done("replay", ".", "--plugin", plugin, cwd=finding)
    assert "1 new" in done("bugs", "add", ".", "--plugin", plugin, cwd=finding)
    assert {file.name for file in finding.glob("bugs/hasty/*/*.py")} == {"hasty.py", "repro.py"}
    assert not ran.exists()


# -- every start ------------------------------------------------------------------------------

STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_\w+|get\w*output)|os\.(system|popen|exec\w+|(posix_)?spawn\w+)"
    r"|asyncio\.create_subprocess\w*|multiprocessing\.\w+|concurrent\.futures\.ProcessPoolExecutor"
)
OTHERS = {"nnfuzz/sandbox/zygote.py": "chmod and rm; it may import nothing of nnfuzz"}


def starts(source: str) -> list[int]:
    """The lines that start a process which may be a Python interpreter, with no safe path.

    A program that stands there by its name, such as ["git", ...], is no interpreter.
    """
    if not re.search(r"(?i)process|os\.(system|popen|exec|spawn|posix)|from os import", source):
        return []
    nodes, found = [*ast.walk(ast.parse(source))], []
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    names = {a.asname or a.name: f"{n.module}.{a.name}" for n in imports for a in n.names}
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if not STARTS.fullmatch(names.get(called, called)):
            continue
        match node.args[:1]:
            case [ast.List([ast.Constant(str(program)), *_])] if "python" not in program:
                continue
        environment = [ast.unparse(k.value) for k in node.keywords if k.arg == "env"]
        if not "".join(environment).startswith("safe_environment("):
            found.append(node.lineno)
    return found


def test_every_start_of_an_interpreter_is_safe():
    files = [p for top in ("nnfuzz", "backends", "opspecs") for p in (ROOT / top).rglob("*.py")]
    files.append(ROOT / "scripts" / "action.py")
    found = {str(path.relative_to(ROOT)): starts(path.read_text()) for path in files}
    assert [name for name, lines in found.items() if lines] == [*OTHERS], found


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run([sys.executable, 'x.py'])",
        "import subprocess\nsubprocess.Popen(['python3', 'x.py'], env=os.environ)",
        "from subprocess import check_output as ask\nask(command)",
        "import os\nos.execv(sys.executable, [])",
        "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor(1)",
    ],
)
def test_a_start_that_is_not_safe_is_seen(source):
    assert starts(source) == [2]
