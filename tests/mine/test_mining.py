"""Mining from end to end: every model and script is read by a worker."""

from __future__ import annotations

import json
import os
import pickle
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.library.folders import cache_folder
from nnfuzz.mine.mining import Miner, MiningRequest, known_structures, write_patterns
from nnfuzz.mine.sources import source_of
from nnfuzz.operators.mined import check_patterns
from nnfuzz.operators.motif_file import motif_files
from nnfuzz.operators.registry import OpRegistry
from tests.mine.models import attention, model, save

SCRIPT = """
import sympy  # which tries to import what it can do without
import does_not_exist_here.frontend as frontend
from onnx import helper, TensorProto, checker

@frontend.only_on_gpus
def test_scaled():
    make = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3])
    nodes = [helper.make_node("Erf", ["x"], ["a"]), helper.make_node("Sign", ["a"], ["b"]),
             helper.make_node("Softsign", ["b"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [make("x")], [make("y")]))
    checker.check_model(model)
    frontend.compile(model)
    assert False
"""
"""A compiler's test, where the compiler is not installed."""


@contextmanager
def silent(label: str, total: int):
    yield lambda note: None


def mine(*paths: Path, python: bool = False):
    notes: list[str] = []
    read = tuple(source_of(str(path)) for path in paths)
    request = MiningRequest(read, python=python, cache=cache_folder())
    return Miner(request, BackendRegistry.discover(), notes.append, silent).mine(), notes


@pytest.fixture(scope="module")
def zoo(tmp_path_factory) -> Path:
    """A good model, and what is wrong with all others in a way of its own."""
    folder = tmp_path_factory.mktemp("zoo")
    (folder / "LICENSE").write_text("MIT License\n\nCopyright")
    save(attention(), folder / "good.onnx")
    (folder / "damaged.onnx").write_bytes(attention().SerializeToString()[:-40])
    (folder / "text.onnx").write_text("this is no model")
    (folder / "pickled.onnx").write_bytes(pickle.dumps(_Bomb(str(folder / "unpickled"))))
    (folder / "nonsense.prototxt").write_text("graph { node { op_type: 'Relu' input: }")
    os.mkfifo(folder / "pipe.onnx")
    _circle(folder / "circle.onnx")
    _outside(folder / "outside.onnx")
    _huge(folder / "huge.onnx")
    return folder


class _Bomb:
    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self):
        return (open, (self.file, "w"))


def _circle(file: Path) -> None:
    """Two functions that call each other."""
    calls = {"f": "g", "g": "f"}
    functions = [
        helper.make_function(
            "own",
            name,
            ["x"],
            ["y"],
            [helper.make_node(other, ["x"], ["y"], domain="own")],
            [helper.make_opsetid("own", 1)],
        )
        for name, other in calls.items()
    ]
    node = helper.make_node("f", ["x"], ["y"], domain="own")
    save(model([node], {"x": [2]}, {"y": [2]}, functions=functions), file)


def _outside(file: Path) -> None:
    """A weight in a file that does not belong to the model."""
    made = attention()
    tensor = made.graph.initializer[1]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../../../etc/passwd"
    save(made, file)


def _huge(file: Path) -> None:
    """A shape of more elements than any machine has memory."""
    shape = np.array([1 << 20] * 3, np.int64)
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["big"]),
        helper.make_node("Add", ["big", "x"], ["y"]),
    ]
    save(model(nodes, {"x": [1]}, {"y": [1 << 20] * 3}, {"shape": shape}), file)


@pytest.fixture(scope="module")
def mined(zoo):
    return mine(zoo)


def test_a_good_model_gives_a_pattern_with_its_source(mined, zoo):
    patterns = mined[0].patterns
    assert [node.op for node in patterns[0].nodes] == ["Reshape", "Transpose", "Mul", "Softmax"]
    (origin,) = patterns[0].origins
    assert (origin.source, origin.licence, origin.models) == (zoo.name, "MIT", 1)


@pytest.mark.parametrize(
    "name", ["damaged", "text", "pickled", "nonsense", "circle", "outside", "huge"]
)
def test_a_bad_model_costs_one_line(mined, zoo, name):
    lines = [line for line in mined[1] if f"/{name}." in line]
    assert len(lines) == 1, mined[1]
    assert "\n" not in lines[0] and len(lines[0]) < 600


def test_nothing_is_unpickled_and_no_pipe_is_read(mined, zoo):
    assert not (zoo / "unpickled").exists()
    assert not any("Traceback" in line for line in mined[1])


def test_the_reasons_are_named(mined):
    text = "\n".join(mined[1])
    assert "a function calls itself (f calls g" in text or "a function calls itself (g" in text
    assert "is not inside of it" in text


def test_written_patterns_can_be_planted_and_are_known(mined, tmp_path):
    write_patterns(mined[0].patterns, tmp_path)
    files = motif_files(tmp_path)
    check_patterns(files, OpRegistry.load().get)
    assert len(known_structures(tmp_path)) == len(files) == len(mined[0].patterns)
    about = json.loads(files[0].read_text())
    assert about["schema"] == 1 and about["origins"]


def test_scripts_run_only_if_that_is_asked_for(tmp_path):
    (tmp_path / "test_mine.py").write_text(SCRIPT)
    found, notes = mine(tmp_path)
    assert not found.patterns
    assert notes == [f"{tmp_path.name}: 1 Python files are not run: add --python"]


@pytest.mark.slow
def test_models_are_captured_from_a_test_of_a_compiler_that_is_not_here(tmp_path):
    (tmp_path / "test_mine.py").write_text(SCRIPT)
    found, _ = mine(tmp_path, python=True)
    assert [[node.op for node in p.nodes] for p in found.patterns] == [["Erf", "Sign", "Softsign"]]


@pytest.mark.slow
def test_a_script_costs_one_line_and_reaches_nothing(tmp_path):
    """What it has made before is kept."""
    zoo, bait = tmp_path / "zoo", tmp_path / "bait"
    zoo.mkdir()
    bait.write_text("precious")
    ends = {
        "leaves": ("os._exit(3)", "it ended its process, with exit code 3"),
        "writes": (f"open({str(bait)!r}, 'w')", "PermissionError"),
        "forks": ("os.fork()", ""),
        "raises": ("raise KeyError('gone')", "KeyError: 'gone'"),
        "deep": ("for _ in range(1100): os.mkdir('d'); os.chdir('d')", ""),
    }
    for name, (end, _) in ends.items():
        made = SCRIPT.replace("import sympy", "import os, sympy")
        (zoo / f"{name}.py").write_text(f"{made}\n{end}\n".replace("assert False", "pass"))
    (zoo / "syntax.py").write_text("import onnx.helper\ndef (")
    found, notes = mine(zoo, python=True)
    assert [[node.op for node in p.nodes] for p in found.patterns] == [["Erf", "Sign", "Softsign"]]
    assert bait.read_text() == "precious"
    for name, (_, reason) in {**ends, "syntax": ("", "SyntaxError")}.items():
        lines = [line for line in notes if f"{name}.py" in line]
        assert len(lines) == bool(reason) and all(reason in line for line in lines), notes
