"""Models of other projects, with inputs and outputs, for scripts/check/imports.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class ForeignModel:
    """A model of a group, such as those of one operator. inputs: None if they are to be searched.

    outputs: the expected ones that its makers give, if any.
    """

    group: str
    name: str
    model: onnx.ModelProto
    inputs: Arrays | None = None
    outputs: Arrays = field(default_factory=dict)


def standard() -> Iterator[ForeignModel]:
    """The tests of onnx: single operators, and models that were written by hand, by PyTorch and by
    Caffe2. Models with inputs or outputs other than tensors, and operators of foreign domains, are
    left out."""
    from onnx.backend.test.case.node import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    for case in collect_testcases(None):
        if case.model is not None and case.data_sets and _own(case.model):
            given = _with_arrays(case.model, *case.data_sets[0])
            if given is not None:
                yield ForeignModel(_operator(case.model, case.name), case.name, case.model, *given)
    for kind in ("simple", "pytorch-operator", "pytorch-converted", "light"):
        for case in load_model_tests(kind=kind):
            yield from _stored(kind, case.name, Path(case.model_dir or case.url))


def files(folder: Path) -> Iterator[ForeignModel]:
    """All .onnx files below a folder in order, or a single file, with the inputs of an .npz file
    beside them, if there is one."""
    for path in [folder] if folder.is_file() else sorted(folder.rglob("*.onnx")):
        name = str(path.relative_to(folder))
        beside = path.with_suffix(".npz")
        inputs = dict(np.load(beside, allow_pickle=False)) if beside.exists() else None
        yield ForeignModel(name, name, onnx.load_model(path), inputs)


def _own(model: onnx.ModelProto) -> bool:
    functions = {function.domain for function in model.functions}
    return all(node.domain in ("", "ai.onnx", *functions) for node in model.graph.node)


def _operator(model: onnx.ModelProto, name: str) -> str:
    kinds = dict.fromkeys(node.op_type for node in model.graph.node)
    return ", ".join(kinds) if len(kinds) < 3 and "expanded" not in name else "function bodies"


def _stored(kind: str, name: str, place: Path) -> Iterator[ForeignModel]:
    """Models in a folder with test_data_set_0, or the file of a light model."""
    if place.is_file():
        yield ForeignModel(kind, name, onnx.load_model(place))
        return
    path, data = place / "model.onnx", place / "test_data_set_0"
    if path.exists():
        model = onnx.load_model(path)
        read = [[_tensor(p) for p in _numbered(data, stem)] for stem in ("input", "output")]
        given = _with_arrays(model, *read)
        if given is not None:
            yield ForeignModel(kind, name, model, *given)


def _numbered(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}_{i}.pb" for i in range(len(list(folder.glob(f"{stem}_*.pb"))))]


def _tensor(path: Path) -> np.ndarray | None:
    try:
        return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))
    except Exception:  # a sequence
        return None


def _with_arrays(
    model: onnx.ModelProto, inputs: list[object], outputs: list[object]
) -> tuple[Arrays, Arrays] | None:
    """Inputs and outputs by name; None unless all of them are arrays."""
    constants = {tensor.name for tensor in model.graph.initializer}
    takes = [info.name for info in model.graph.input]
    free = takes if len(inputs) == len(takes) else [n for n in takes if n not in constants]
    found = dict(zip(free, inputs)), dict(zip((o.name for o in model.graph.output), outputs))
    if not all(isinstance(value, np.ndarray) for part in found for value in part.values()):
        return None
    return found  # type: ignore[return-value]
