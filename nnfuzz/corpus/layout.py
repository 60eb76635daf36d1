"""Reads and writes tests in ONNX's backend-test layout.

  test_NAME/model.onnx                                   and its external data, if it has any
  test_NAME/test_data_set_N/input_K.pb, output_K.pb      TensorProtos, in the order of the model
  test_NAME/data.json                                    tolerances for ONNX's own runner
  test_NAME/config.txt                                   tolerances for onnx_test_runner
  test_NAME/nnfuzz.json, weights.npz                     identity, graph and weights; an addition
                                                         of nnfuzz

Source: onnx/onnx, docs/OnnxBackendTest.md and onnx/backend/test/loader; microsoft/onnxruntime,
onnxruntime/test/onnx/TestCase.cc.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from pathlib import Path

import numpy as np

from nnfuzz.base.external_data import write_model
from nnfuzz.base.files import atomic_folder, npz_bytes
from nnfuzz.base.reading import Unreadable, read, read_fields
from nnfuzz.base.untrusted import (
    making_sense,
    parsed_model,
    read_bytes,
    read_embedded,
    read_json,
    read_npz,
)
from nnfuzz.ir.sizes import by_copy, from_copies
from nnfuzz.ir.view import GraphView
from nnfuzz.materialize.opsets import is_called
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered, TestId, parse_id

SCHEMA = 2
MODEL, CASE, WEIGHTS, DATA_SET = "model.onnx", "nnfuzz.json", "weights.npz", "test_data_set_"
TOLERANCES, RUNNER_CONFIG = "data.json", "config.txt"
LICENSE = "Apache-2.0"
"""License of generated tests, as an SPDX expression."""


class NotTensors(Unreadable):
    """Inputs or outputs are sequences, optionals or strings: valid ONNX, but not for a corpus."""


@dataclass(frozen=True)
class _About:
    """The contents of nnfuzz.json."""

    test: str
    exporter: str
    opset: int
    graph: GraphView
    schema: int = 0


@dataclass(frozen=True)
class Tolerance:
    """How far a correct compiler may be from an expected output; 0 for discrete outputs."""

    rtol: float = 0.0
    atol: float = 0.0


@dataclass(frozen=True)
class Tolerances:
    """The contents of data.json. rtol, atol: for all outputs. outputs: tolerances by name."""

    rtol: float | None = None
    atol: float | None = None
    outputs: Mapping[str, Tolerance] = field(default_factory=dict)

    def of(self, output: str) -> Tolerance | None:
        """The tolerance of an output; None unless the file has both numbers."""
        if output in self.outputs or self.rtol is None or self.atol is None:
            return self.outputs.get(output)
        return Tolerance(self.rtol, self.atol)


NO_TOLERANCES = Tolerances()


@dataclass(frozen=True, eq=False)
class Entry:
    """A test case as a corpus has it. tolerances: by output; whole: one that suits all outputs, for
    runners that take a single one.
    """

    case: TestCase
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    whole: Tolerance | None = None


@dataclass(frozen=True)
class DataSet:
    """Arrays by name, in the order of the model's inputs and outputs."""

    name: str
    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class TestFolder:
    """One test. name: the path below the corpus."""

    __test__ = False  # not a pytest class

    path: Path
    name: str

    def model(self) -> bytes:
        """Raises: Unreadable."""
        return read_embedded(self.path / MODEL)

    def data_sets(self) -> list[DataSet]:
        """Raises: NotTensors; Unreadable if files are missing or damaged."""
        folders = data_set_folders(self.path)
        if not folders:
            raise Unreadable(f"{self.path} holds no {DATA_SET}0")
        ends = [*zip(("input", "output"), interface(self.model()))]
        return [
            DataSet(folder.name, *(read_tensors(folder, *end) for end in ends))
            for folder in folders
        ]

    def tolerances(self) -> Tolerances:
        """Raises: Unreadable."""
        file = self.path / TOLERANCES
        if not file.exists():
            return NO_TOLERANCES
        with making_sense(file):
            known = Tolerances.__dataclass_fields__
            return Tolerances(**read_fields(Tolerances, read_json(file), *known))

    def case(self) -> TestCase | None:
        """The test case of the first data set; None if nnfuzz has not written the folder.

        Raises: NotTensors, Unreadable.
        """
        return next(self.cases(), None)

    def cases(self) -> Iterator[TestCase]:
        """Yields the test case of each data set, or the one of which all data sets are calls; none
        if nnfuzz has not written the folder.

        Raises: NotTensors, Unreadable.
        """
        file = self.path / CASE
        if not file.exists():
            return
        data = read(_About, read_json(file))
        if data.schema != SCHEMA:
            raise Unreadable(f"{file} has the schema {data.schema!r}, not {SCHEMA}")
        with making_sense(file):
            made, graph = parse_id(data.test), data.graph.checked()
        case = TestCase(
            id=made,
            graph=graph,
            model=self.model(),
            inputs={},
            weights=read_npz(self.path / WEIGHTS),
            expected={},
            exporter=data.exporter,
            opset=data.opset,
        )
        sets = self.data_sets()
        for part in [sets] if is_called(case.exporter) else [[own] for own in sets]:
            fed, expected = (from_copies(map(attrgetter(n), part)) for n in ("inputs", "outputs"))
            yield replace(case, inputs=fed, expected=expected)


def data_set_folders(folder: Path) -> list[Path]:
    """The data sets of a test, by number."""
    return sorted(folder.glob(f"{DATA_SET}*"), key=lambda path: _number(path.name))


def find_tests(root: str | Path) -> list[TestFolder]:
    """Every folder below `root` (or `root` itself) with a model.onnx and a data set, by name."""
    root = Path(root)
    folders = [
        path.parent
        for path in root.rglob(MODEL)
        if any(path.parent.glob(f"{DATA_SET}*"))
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    names = {path: path.relative_to(root).as_posix() for path in folders}
    return [TestFolder(p, root.name if n == "." else n) for p, n in sorted(names.items())]


def tests_in(folder: Path) -> list[TestFolder]:
    """All tests below a folder. Raises: Unreadable, which names the fix, if there is none."""
    if folder.is_file() and folder.suffix == ".onnx":
        raise Unreadable(
            f"{folder} is a model, and verify takes folders of models with expected outputs: "
            f"nnfuzz check {folder} runs a model of your own"
        )
    tests = find_tests(folder)
    if not tests:
        raise Unreadable(
            f"{folder} holds no tests: a test is a folder with model.onnx and test_data_set_0"
        )
    return tests


def test_name(test: TestId) -> str:
    """The name of a test's folder."""
    if isinstance(test, Numbered):
        return f"test_nnfuzz_seed{test.seed}_{test.index:06d}"
    return "test_nnfuzz_" + re.sub(r"\W+", "_", str(test)).strip("_")


test_name.__test__ = False  # type: ignore[attr-defined]


def write_test(parent: Path, case: TestCase | Entry, name: str = "") -> Path:
    """Writes the folder of one test, completely or not at all; equal tests give equal bytes. Each
    call of the model has a data set of its own.

    name: of the folder; by default that of the test case.

    Raises: FileExistsError; NotTensors for inputs or outputs that are strings; Unreadable if the
    model's inputs are not those of the case.
    """
    entry = case if isinstance(case, Entry) else Entry(case)
    case, name = entry.case, name or test_name(entry.case.id)
    names, calls = interface(case.model), [(case.inputs, case.expected)]
    if len(case.fed) > 1:
        calls = list(zip(case.fed, by_copy(case.expected), strict=True))
    for kind, wanted, have in zip(("inputs", "outputs"), names, calls[0]):
        if missing := [end for end in wanted if end not in have]:
            raise Unreadable(f"{name}: the case has no {kind} {', '.join(missing)}")
    with atomic_folder(parent / name) as made:
        write_model(case.model, made / MODEL)
        (made / CASE).write_text(_text(_about(case)), encoding="utf-8")
        (made / WEIGHTS).write_bytes(npz_bytes(case.weights))
        if entry.whole is not None:
            _write_tolerances(made, entry.whole, entry.tolerances)
        for number, arrays in enumerate(calls):
            data = made / f"{DATA_SET}{number}"
            data.mkdir()
            for stem, wanted, have in zip(("input", "output"), names, arrays):
                for place, end in enumerate(wanted):
                    (data / f"{stem}_{place}.pb").write_bytes(tensor_bytes(end, have[end]))
    return parent / name


def _about(case: TestCase) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "test": str(case.id),
        "exporter": case.exporter,
        "opset": case.opset,
        "graph": case.graph.to_json(),
    }


def _write_tolerances(folder: Path, whole: Tolerance, outputs: Mapping[str, Tolerance]) -> None:
    """Writes data.json for ONNX's own runner and config.txt for onnx_test_runner."""
    each = {name: asdict(tolerance) for name, tolerance in outputs.items()}
    contents = {"license": LICENSE, **asdict(whole), "outputs": each}
    (folder / TOLERANCES).write_text(_text(contents), encoding="utf-8")
    (folder / RUNNER_CONFIG).write_text(
        f"per_sample_tolerance:{whole.atol}\nrelative_per_sample_tolerance:{whole.rtol}\n",
        encoding="utf-8",
    )


def _text(data: object) -> str:
    return json.dumps(data, indent=1) + "\n"


def tensor_bytes(name: str, array: np.ndarray) -> bytes:
    """A serialised TensorProto."""
    from onnx import numpy_helper

    # Not ascontiguousarray, which turns a scalar into a vector.
    tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
    return tensor.SerializeToString(deterministic=True)


def interface(model: bytes, texts: bool = False) -> tuple[list[str], list[str]]:
    """Names of the inputs that are fed, and of the outputs, as the file has them.

    texts: whether these may be strings. Raises: NotTensors, Unreadable.
    """
    from onnx import TensorProto

    graph = parsed_model(model, alone=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    refused = (TensorProto.UNDEFINED,) if texts else (TensorProto.UNDEFINED, TensorProto.STRING)
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in refused:
            raise NotTensors(f"{value.name} is not a tensor{'' if texts else ' of numbers'}")
    return [v.name for v in graph.input if v.name not in weights], [v.name for v in graph.output]


def read_tensors(folder: Path, stem: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Reads STEM_0.pb, STEM_1.pb, ... of a data set; returns name -> array, of str for texts.

    Raises: Unreadable.
    """
    files = sorted(folder.glob(f"{stem}_*.pb"), key=lambda p: _number(p.name))
    if len(files) != len(names):
        raise Unreadable(f"{folder} holds {len(files)} {stem}s, the model has {len(names)}")
    return {name: _read(file) for name, file in zip(names, files)}


def _read(file: Path) -> np.ndarray:
    import onnx

    data = read_bytes(file)
    with making_sense(file):
        tensor = onnx.TensorProto.FromString(data)
        if tensor.external_data:
            raise Unreadable(f"{file} keeps its elements in another file")
        array = onnx.numpy_helper.to_array(tensor)
    return array.astype(str) if array.dtype.hasobject else array


def _number(name: str) -> int:
    digits = re.findall(r"\d+", name)
    return int(digits[-1]) if digits else -1
