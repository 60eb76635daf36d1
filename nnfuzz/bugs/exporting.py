"""Bugs as tests for a compiler's own suite: a file for pytest, or a folder of ONNX's node tests.

    python -m nnfuzz.bugs.exporting SCRIPT FOLDER

writes a node test; it runs in a process of its own, since a script is a program.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from nnfuzz.base.files import atomic_folder, write_atomically
from nnfuzz.base.programs import run_program
from nnfuzz.base.text import one_line
from nnfuzz.base.untrusted import below, read_bytes, read_text
from nnfuzz.bugs.bug import FILE, Bug, BugError
from nnfuzz.bugs.checking import CANNOT_RUN, SECONDS, limited
from nnfuzz.bugs.ledger import SCRIPT, Ledger

_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_TEST = """\
{history}
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("{words}") / "{script}"


{mark}def test_{words}(tmp_path):
    command = [sys.executable, SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    if done.returncode == {cannot_run}:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
"""


def pytest_file(ledger: Ledger, name: str, out: Path, xfail: bool) -> Path:
    """Writes a file with one test for a bug, which runs the bug's script in a folder beside it.

    xfail: whether it is expected to fail. Raises: BugError for a bug without a script, OSError.
    """
    bug, place, words = ledger.bug(name), ledger.place(name), _words(name)
    if not ledger.script(name).is_file():
        raise BugError(f"it has no {SCRIPT}")
    for file in place.iterdir():
        if file.is_file() and file.name not in (FILE, "report.md", "finding.json"):
            (out / words).mkdir(parents=True, exist_ok=True)
            write_atomically(out / words / file.name, read_bytes(below(place, file.name)))
    history = "".join(f"# {line}\n" for line in (one_line(bug.title), *_history(bug)))
    mark = f"@pytest.mark.xfail(strict=True, reason={one_line(bug.title)!r})\n" if xfail else ""
    text = _TEST.format(
        history=history, words=words, script=SCRIPT, mark=mark, cannot_run=CANNOT_RUN
    )
    write_atomically(out / f"test_{words}.py", text.encode())
    return out / f"test_{words}.py"


def _words(name: str) -> str:
    return re.sub(r"\W+", "_", name.rpartition("/")[2]).strip("_").lower()


def _history(bug: Bug) -> list[str]:
    """The releases and the issue that a bug is known from."""
    lines = [f"Releases of {bug.system}: {bug.releases_line}."] if bug.releases_line else []
    return [*lines, f"Issue: {one_line(bug.upstream)}"] if bug.upstream else lines


def node_test(ledger: Ledger, name: str, out: Path) -> Path:
    """Writes the model of a bug as a folder of ONNX's node tests below `out`; returns the folder.

    Raises: BugError where it has no expected outputs, or no model; OSError.
    """
    script, folder = ledger.script(name), out / f"test_{_words(name)}"
    if not script.is_file():
        raise BugError(f"it has no {SCRIPT}")
    if folder.exists():
        raise BugError(f"{folder} exists already")
    with atomic_folder(folder) as draft:
        command = [sys.executable, "-m", __name__, str(script.resolve()), str(draft.resolve())]
        try:
            done = run_program(command, timeout=SECONDS, preexec_fn=limited)
        except subprocess.TimeoutExpired as error:
            raise BugError(f"no end within {SECONDS:.0f} s") from error
        if done.returncode:
            message = done.stderr.strip() or f"ended with {done.returncode}"
            raise BugError(one_line(message.splitlines()[-1]).removeprefix("nnfuzz.bugs.bug."))
    return folder


def write_node_test(script: Path, folder: Path) -> None:
    """Writes model.onnx, and test_data_set_0 with the results of onnx.reference, which have to
    agree with what the script expects.
    """
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator

    names: dict[str, Any] = {"__name__": "bug", "__file__": str(script)}
    tree = ast.parse(read_text(script))
    made = (i for i, node in enumerate(tree.body) if isinstance(node, _DEFINITIONS))
    tree.body = tree.body[: max(made, default=-1) + 1]  # definitions only: nothing is run
    exec(compile(tree, str(script), "exec"), names)
    if "load" in names:
        model, inputs = names["load"]()
        proto = onnx.load(model) if isinstance(model, str) else onnx.load_model_from_string(model)
    elif "MODEL" in names and "INPUTS" in names:
        proto, inputs = onnx.parser.parse_model(names["MODEL"]), names["INPUTS"]
    else:
        sys.exit("it has no model")
    try:
        results = ReferenceEvaluator(proto).run(None, dict(inputs))
    except Exception as error:
        sys.exit(f"onnx.reference cannot run it: {type(error).__name__}: {error}")
    outputs = {v.name: np.asarray(result) for v, result in zip(proto.graph.output, results)}
    if "OUTPUT" in names:
        actual = outputs[names["OUTPUT"]]
        same = (str(actual.dtype), actual.shape) == (names["DTYPE"], names["SHAPE"])
        value = actual[names["INDEX"]] if same and "INDEX" in names else None
        if not same or (value is not None and not names["LOW"] <= value <= names["HIGH"]):
            sys.exit("onnx.reference gives another result than the script expects")
    weights = {tensor.name for tensor in proto.graph.initializer}
    given = [value.name for value in proto.graph.input if value.name not in weights]
    data = folder / "test_data_set_0"
    data.mkdir()
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    arrays = {"input": {name: np.asarray(inputs[name]) for name in given}, "output": outputs}
    for kind, own in arrays.items():
        for i, (name, array) in enumerate(own.items()):
            tensor = numpy_helper.from_array(array, name)
            (data / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())


if __name__ == "__main__":
    write_node_test(Path(sys.argv[1]), Path(sys.argv[2]))
