"""Files and places on disk: read, written, packed and safe."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnfuzz.backend.target import Target
from nnfuzz.base.external_data import FILLING, names_files, write_model
from nnfuzz.base.packed_values import (
    PackedValue,
    PackingError,
    PackingKind,
    packed,
    packing_of,
    unpacked,
)
from nnfuzz.base.programs import run_program
from nnfuzz.base.reading import Unreadable, read, read_fields
from nnfuzz.base.untrusted import parsed_model, read_embedded
from nnfuzz.base.writing import ROUNDED, UNWRITTEN, as_json, as_list, fields_as_json
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.testcase.identity import ForeignId, Numbered, Probe, TestId

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


def test_a_plugin_by_its_module_name_is_not_of_the_working_directory(baits):
    """Which would have to be on sys.path, for all that is imported later."""
    here, ran = baits
    shutil.copy(ROOT / "examples" / "hasty.py", here)
    command = [*PROGRAM, "backends", "--check", "tensorrt", "--plugin", "hasty"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "No module named 'hasty'" in done.stderr
    assert not ran.exists()


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
    assert "hasty O0: right" in done("check", model, "-b", "hasty", "--plugin", "hasty.py")
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


# JSON of strangers becomes what is declared, or the message says where it does not.


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    name: str
    at: tuple[int, float]
    colour: Colour | None = None
    more: Mapping[str, list[Point]] = field(default_factory=dict)


def test_values_are_of_the_types_that_are_declared():
    inner = ["b\x1b[1m", [3, 4]]
    found = read(Point, {"name": "a", "at": [1, 2], "colour": "red", "more": {"x": [inner]}})
    assert found == Point("a", (1, 2.0), Colour.RED, {"x": [Point("b", (3, 4.0))]})
    assert read_fields(Point, {"name": "a", "at": 7}, "name") == {"name": "a"}
    assert read(int | str, "1") == "1" and read(str | int, 1) == 1


@pytest.mark.parametrize(
    "value, told",
    [
        ({"name": 1}, ".name should be str, not 1"),
        ({"name": "a", "at": [1]}, ".at should be 2 items, not list"),
        ({"name": "a", "at": [1, "x"]}, ".at[1] should be float, not 'x'"),
        ({"name": "a", "at": [True, 1]}, ".at[0] should be int, not True"),
        ({"name": "a", "at": [1, 2], "colour": "blue"}, ".colour: 'blue' is not a valid Colour"),
        ({"name": "a", "at": [1, 2], "more": {"x": [["b", 2]]}}, ".more.x[0].at should be list"),
        ({"nam": "a"}, "it should be a field of Point, not 'nam'"),
        ({"name": "a"}, "it: .* missing 1 required positional argument: 'at'"),
        (["a", [2**64, 1]], ".at[0] should be a number of 64 bits"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(value, told):
    with pytest.raises(Unreadable, match=told.replace("[", r"\[")):
        read(Point, value)


# What is written of a value is read back as an equal one.


@as_list
@dataclass(frozen=True)
class Place:
    x: int
    y: float | None = None


@dataclass(frozen=True)
class Thing:
    name: str
    at: tuple[Place, ...] = ()
    colour: Colour = Colour.RED
    rows: Mapping[Target, Place] = field(default_factory=dict)
    seconds: float = field(default=0.0, metadata=ROUNDED)
    array: bytes = field(default=b"own", metadata=UNWRITTEN)


THING = Thing("a", (Place(1, 2.5), Place(3)), rows={Target.parse("tvm@1/cpu/O0:onnx"): Place(4)})
WRITTEN = {
    "name": "a",
    "at": [[1, 2.5], [3, None]],
    "colour": "red",
    "rows": {"tvm@1/cpu/O0:onnx": [4, None]},
    "seconds": 0.0,
}


def test_a_value_comes_back_from_its_written_form():
    assert as_json(THING) == WRITTEN
    assert read(Thing, json.loads(json.dumps(as_json(THING)))) == THING
    assert fields_as_json(Place(1)) == {"x": 1, "y": None} and as_json(Place(1)) == [1, None]
    assert as_json(Thing("a", seconds=1.23456))["seconds"] == 1.235


def test_a_field_that_is_not_written_cannot_be_set_by_a_file():
    assert read(Thing, {"name": "a", "array": "stranger's"}).array == b"own"


@pytest.mark.parametrize(
    "test", [Numbered(1, 2), Probe(SupportKey.parse("direct:Add(f)"), 3), ForeignId(4)]
)
def test_a_test_is_written_as_its_text(test):
    assert as_json(test) == str(test) and read(TestId, str(test)) == test


def test_an_array_has_no_written_form():
    with pytest.raises(TypeError, match="ndarray has no written form"):
        as_json([np.zeros(2)])


# Models whose tensors lie in files beside them.


def model(*places: tuple[str, int]) -> bytes:
    """y = the sum of a weight for each place, which is named by its tensor."""
    weights = []
    for i, (location, offset) in enumerate(places):
        tensor = numpy_helper.from_array(np.full(3, i, np.float32), f"w{i}")
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value=str(offset))
        tensor.external_data.add(key="length", value=str(len(tensor.raw_data)))
        weights.append(tensor)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    nodes = [helper.make_node("Sum", [w.name for w in weights], ["y"])]
    made = helper.make_model(helper.make_graph(nodes, "g", [], [y], weights))
    return made.SerializeToString(deterministic=True)


def test_tensors_are_written_beside_the_model_and_read_back(tmp_path):
    data = model(("weights.bin", 5), ("data/weights.bin", 0), ("weights.bin", 20))
    assert names_files(data)
    parsed_model(data)  # it holds everything
    write_model(data, tmp_path / "m.onnx")
    content = (tmp_path / "weights.bin").read_bytes()
    assert len(content) == 32 and content[:5] == content[17:20][:1] * 5 == bytes([FILLING]) * 5
    onnx.checker.check_model(str(tmp_path / "m.onnx"))
    read = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(t)[0] for t in read] == [0, 1, 2]
    with pytest.raises(Unreadable, match="in another file"):
        parsed_model((tmp_path / "m.onnx").read_bytes())
    assert read_embedded(tmp_path / "m.onnx") == data


@pytest.mark.parametrize("length", ["-4", "3", "9999999999", ""])
def test_a_tensor_that_its_length_does_not_fit_stays_in_the_model(length):
    made = onnx.load_model_from_string(model(("w.bin", 0)))
    made.graph.initializer[0].external_data[2].value = length
    assert not names_files(made.SerializeToString())


def test_a_tensor_whose_place_is_taken_stays_in_the_model(tmp_path):
    write_model(model(("w.bin", 0), ("w.bin", 4)), tmp_path / "m.onnx")
    inside = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert [bool(tensor.raw_data) for tensor in inside] == [True, False]
    read = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(t)[0] for t in read] == [0, 1]


def test_no_file_has_a_name_that_a_model_chose(tmp_path):
    names = ["../w.bin", "/w.bin", "numpy.py", "numpy/__init__.py", "m.onnx", "weights.bin\n", ""]
    write_model(model(*((name, 0) for name in ["model.onnx.data1", *names])), tmp_path / "m.onnx")
    numbers = ["", *range(1, len(names) + 1)]  # 1 is the model's own
    assert {path.name for path in tmp_path.iterdir()} == {
        "m.onnx", *(f"model.onnx.data{number}" for number in numbers)
    }  # fmt: skip
    read = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert [numpy_helper.to_array(t)[0] for t in read] == [*range(len(names) + 1)]


@pytest.mark.parametrize("entry", [("offset", "-1"), ("offset", "x"), ("location", None)])
def test_a_place_without_sense_is_none(entry, tmp_path):
    proto = onnx.load_model_from_string(model(("weights.bin", 0)))
    entries = {e.key: e.value for e in proto.graph.initializer[0].external_data} | dict([entry])
    del proto.graph.initializer[0].external_data[:]
    for key, value in entries.items():
        if value is not None:
            proto.graph.initializer[0].external_data.add(key=key, value=value)
    write_model(proto.SerializeToString(), tmp_path / "m.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_other_models_are_written_as_they_are(tmp_path):
    for data in (model(), b"no model"):
        write_model(data, tmp_path / "m.onnx")
        assert read_embedded(tmp_path / "m.onnx") == data and not names_files(data)


# Texts and maps at the ends of a model.


TEXT = PackedValue(PackingKind.TEXT, "int16", {"d": (2,)})
GIVEN = PackedValue(PackingKind.NUMBERS, "int64", {}, numbers=[2, -3])
PACKING = {"t": TEXT, "g": GIVEN}
ARRAYS = {"x": np.zeros(3), "d": np.array([-5, 60], np.int16)}


def declared(name: str, value: PackedValue) -> onnx.ValueInfoProto:
    kind = TensorProto.STRING if value is TEXT else TensorProto.INT64
    text = helper.make_tensor_type_proto(kind, None)
    return onnx.ValueInfoProto(name=name, type=text, doc_string=value.doc_string)


def test_a_declaration_says_what_it_packs():
    ends = [declared(name, value) for name, value in PACKING.items()]
    plain = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3], TEXT.doc_string)
    assert packing_of([plain, *ends]) == PACKING
    for text in ("", "packs ", "packs [1]", 'packs ["int8", {"a": 1}]', 'packs ["no", {"a": []}]'):
        ends[0].doc_string = f"nnfuzz {text}"
        assert packing_of(ends[:1]) == {}
    for text in ('["int64", {}, [2e400]]', '["int64", {}, ' + "[" * 100_000):
        plain.doc_string = f"nnfuzz packs {text}"
        assert packing_of([plain]) == {}


def test_a_zip_map_packs_the_matrix_that_it_reads():
    """Its keys name the columns in the order of the node, which need not be that of a map."""
    labels = {"domain": "ai.onnx.ml", "classlabels_int64s": [7, 3]}
    node = helper.make_node("ZipMap", ["x"], ["m"], **labels)
    packing = packing_of([onnx.ValueInfoProto(name="m")], [node])
    matrix = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    maps = packed(packing, {"m": matrix})["m"]
    assert maps == [{7: 0.25, 3: 0.75}, {7: 1.0, 3: 0.0}]
    back = unpacked(packing, {"m": [dict(sorted(row.items())) for row in maps]})["m"]
    assert back.dtype == matrix.dtype and np.array_equal(back, matrix)
    for wrong in ([{7: 0.25}], [{7: 0.25, 3: 0.75, 1: 0.0}], [0.25], matrix):
        with pytest.raises(PackingError):
            unpacked(packing, {"m": wrong})


def test_what_is_packed_comes_back():
    given = packed(PACKING, ARRAYS)
    assert given.keys() == {"x", *PACKING}
    assert given["t"].tolist() == ["-5", "60"] and type(given["t"][0]) is str
    back = unpacked(PACKING, given)
    assert back.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


@pytest.mark.parametrize("wrong", [np.array(["1.5", "2"], object), "text", [None]])
def test_strings_that_are_no_numbers_are_an_error(wrong):
    with pytest.raises(PackingError, match="'t' has no numbers"):
        unpacked(PACKING, {"t": wrong})


def test_what_is_missing_stays_missing():
    assert unpacked(PACKING, {"x": 1, "t": None}) == {"x": 1}
