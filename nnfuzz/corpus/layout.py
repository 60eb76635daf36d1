"""ONNX's backend-test layout: how a test stands in a folder.

  test_NAME/model.onnx
  test_NAME/test_data_set_0/input_K.pb, output_K.pb      TensorProtos in the order of the model's
  test_NAME/nnfuzz.json, weights.npz                     graph and which test it is; only in ours

Source: onnx/onnx, docs/OnnxBackendTest.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnfuzz.ir.view import GraphView
from nnfuzz.reading import Unreadable, read
from nnfuzz.report.files import atomic_folder, npz_bytes
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.test_id import Numbered, TestId, parse_id
from nnfuzz.untrusted import (
    making_sense,
    parsed_model,
    read_bytes,
    read_json,
    read_npz,
)

SCHEMA = 2
MODEL, CASE, WEIGHTS, DATA_SET = "model.onnx", "nnfuzz.json", "weights.npz", "test_data_set_"


class CorpusError(Unreadable):
    """A folder that cannot be read as backend tests, or must not be written to."""


class NotTensors(CorpusError):
    """Inputs or outputs that are sequences, optionals, strings: valid ONNX, but not for us."""


@dataclass(frozen=True)
class _About:
    """What nnfuzz.json holds."""

    test: str
    exporter: str
    opset: int
    graph: GraphView
    schema: int = 0


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
        return read_bytes(self.path / MODEL)

    def data_sets(self) -> list[DataSet]:
        """Raises: NotTensors; Unreadable if files are missing or damaged."""
        folders = sorted(self.path.glob(f"{DATA_SET}*"), key=lambda p: _number(p.name))
        if not folders:
            raise CorpusError(f"{self.path} holds no {DATA_SET}0")
        inputs, outputs = interface(self.model())
        return [
            DataSet(
                folder.name, _arrays(folder, "input", inputs), _arrays(folder, "output", outputs)
            )
            for folder in folders
        ]

    def case(self) -> TestCase | None:
        """The test case, where nnfuzz has made the folder; None where it has not.

        Raises: NotTensors, Unreadable.
        """
        file = self.path / CASE
        if not file.exists():
            return None
        data = read(_About, read_json(file))
        if data.schema != SCHEMA:
            raise CorpusError(f"{file} has the schema {data.schema!r}, not {SCHEMA}")
        data_set = self.data_sets()[0]
        return TestCase(
            id=parse_id(data.test),
            graph=data.graph.checked(),
            model=self.model(),
            inputs=dict(data_set.inputs),
            weights=read_npz(self.path / WEIGHTS),
            expected=dict(data_set.outputs),
            exporter=data.exporter,
            opset=data.opset,
        )


def find_tests(root: str | Path) -> list[TestFolder]:
    """Every folder below `root` (or `root` itself) with a model.onnx and a data set, by name."""
    root = Path(root)
    found = [
        path.parent
        for path in root.rglob(MODEL)
        if any(path.parent.glob(f"{DATA_SET}*"))
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    ]
    names = {path: path.relative_to(root).as_posix() for path in found}
    return [TestFolder(p, root.name if n == "." else n) for p, n in sorted(names.items())]


def test_name(test: TestId) -> str:
    """The name of a test's folder."""
    if isinstance(test, Numbered):
        return f"test_nnfuzz_seed{test.seed}_{test.index:06d}"
    return "test_nnfuzz_" + re.sub(r"\W+", "_", str(test)).strip("_")


test_name.__test__ = False  # type: ignore[attr-defined]


def write_test(parent: Path, case: TestCase) -> Path:
    """Writes one test, whole or not at all; equal cases give equal bytes.

    Raises: FileExistsError; CorpusError if the model's inputs are not those of the case.
    """
    inputs, outputs = interface(case.model)
    for kind, wanted, have in (
        ("inputs", inputs, case.inputs),
        ("outputs", outputs, case.expected),
    ):
        if missing := [name for name in wanted if name not in have]:
            raise CorpusError(f"{test_name(case.id)}: the case has no {kind} {', '.join(missing)}")
    about = {
        "schema": SCHEMA,
        "test": str(case.id),
        "exporter": case.exporter,
        "opset": case.opset,
        "graph": case.graph.to_json(),
    }
    folder = parent / test_name(case.id)
    with atomic_folder(folder) as made:
        (made / MODEL).write_bytes(case.model)
        (made / CASE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        (made / WEIGHTS).write_bytes(npz_bytes(case.weights))
        data = made / f"{DATA_SET}0"
        data.mkdir()
        for stem, names, arrays in (
            ("input", inputs, case.inputs),
            ("output", outputs, case.expected),
        ):
            for number, name in enumerate(names):
                (data / f"{stem}_{number}.pb").write_bytes(tensor_bytes(name, arrays[name]))
    return folder


def tensor_bytes(name: str, array: np.ndarray) -> bytes:
    """A serialised TensorProto."""
    from onnx import numpy_helper

    # Not ascontiguousarray, which turns a scalar into a vector.
    tensor = numpy_helper.from_array(np.asarray(array, order="C"), name)
    return tensor.SerializeToString(deterministic=True)


def interface(model: bytes) -> tuple[list[str], list[str]]:
    """Names of the inputs that are fed, and of the outputs. Raises: NotTensors, Unreadable."""
    graph = parsed_model(model).graph
    weights = {tensor.name for tensor in graph.initializer}
    for value in (*graph.input, *graph.output):
        if not value.type.HasField("tensor_type"):
            raise NotTensors(f"{value.name} is not a tensor")
    return [v.name for v in graph.input if v.name not in weights], [v.name for v in graph.output]


def _arrays(folder: Path, stem: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    files = sorted(folder.glob(f"{stem}_*.pb"), key=lambda p: _number(p.name))
    if len(files) != len(names):
        raise CorpusError(f"{folder} holds {len(files)} {stem}s, the model has {len(names)}")
    return {name: _read_tensor(file) for name, file in zip(names, files)}


def _read_tensor(file: Path) -> np.ndarray:
    import onnx
    from onnx import numpy_helper

    tensor = onnx.TensorProto()
    with making_sense(file):
        tensor.ParseFromString(read_bytes(file))
        if tensor.external_data:
            raise CorpusError(f"{file} keeps its elements in another file")
        array = numpy_helper.to_array(tensor)
    if array.dtype.hasobject or array.dtype.kind in "SU":
        raise NotTensors(f"{file} holds strings")
    return array


def _number(name: str) -> int:
    digits = re.findall(r"\d+", name)
    return int(digits[-1]) if digits else -1
