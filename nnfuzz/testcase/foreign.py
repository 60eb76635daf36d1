"""A test case of an ONNX model that others have made: its graph, inputs, and what PyTorch computes.

The compilers get the model itself, byte for byte. The graph, which the oracle and the reducer work
on, has the model's names.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import onnx

from nnfuzz.execute.interface import InputError, TensorSpec, check_inputs, read_interface
from nnfuzz.execute.target import DIRECT
from nnfuzz.inputs.search import NotFound, search
from nnfuzz.ir.graph import Graph, pruned
from nnfuzz.materialize.importing import ImportedModel, import_onnx, rename
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.spec.carriers import array
from nnfuzz.spec.registry import OpRegistry
from nnfuzz.testcase.case import ModelError, TestCase
from nnfuzz.testcase.test_id import Foreign

Arrays = Mapping[str, np.ndarray]


def case_of_model(
    model: onnx.ModelProto, registry: OpRegistry, inputs: Arrays | None = None, seed: int = 0
) -> TestCase:
    """The test case of a model, in the direct form.

    inputs: arrays by name; None: valid ones are searched, a function of the model and `seed`.
    Dimensions that the model leaves open are those of the given inputs, or else chosen.
    Raises: ModelError.
    """
    opset = _opset(model)
    try:
        imported = import_onnx(_at_shapes(model, inputs or {}), registry, opset)
    except OnnxImportError as error:
        raise ModelError(f"the model cannot be imported: {error}") from error
    data = model.SerializeToString()
    try:
        declared, outputs = read_interface(data)
        if inputs is not None:
            check_inputs(declared, inputs)
    except InputError as error:
        raise ModelError(str(error)) from error
    graph = _graph(imported, declared, outputs)
    weights = {n: _fit(imported.constants[n], graph, n) for n in graph.weights}
    if inputs is None:
        found = _searched(graph, weights, seed)
        inputs = {name: _filled(name, declared[name], found, imported) for name in declared}
    _check_shapes(graph, inputs, imported.constants)
    return TestCase(
        id=Foreign(seed),
        graph=graph.view(),
        model=data,
        inputs=dict(inputs),
        weights=weights,
        expected=_expected(graph, {**inputs, **weights}),
        exporter=DIRECT,
        opset=opset,
    )


def _opset(model: onnx.ModelProto) -> int:
    """That of the model, or the nearest one that graphs are written at."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    least, most = opset_range(DIRECT)
    return min(max(versions[0] if versions else most, least), most)


def _at_shapes(model: onnx.ModelProto, inputs: Arrays) -> onnx.ModelProto:
    """A copy whose inputs have the shapes of the given arrays, and whose open dimensions of the
    same names are the same.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    sizes: dict[str, int] = {}
    for value in copy.graph.input:
        dims = value.type.tensor_type.shape.dim
        given = inputs.get(value.name)
        if given is not None and len(dims) == given.ndim:
            for dim, size in zip(dims, given.shape):
                if dim.dim_param:
                    sizes[dim.dim_param] = size
                if not dim.HasField("dim_value"):
                    dim.dim_value = size
    for value in (*copy.graph.value_info, *copy.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    return copy


def _graph(
    imported: ImportedModel, declared: Mapping[str, TensorSpec], outputs: tuple[str, ...]
) -> Graph:
    """What computes the model's outputs, with the names of the model. Raises: ModelError."""
    if imported.lost:
        kind, why = imported.lost[0]
        raise ModelError(
            f"{len(imported.lost)} nodes of the model cannot be imported; first, {kind}: {why}"
        )
    rename(imported.graph, imported.names)
    full, computed = imported.graph, imported.graph.producer()
    wanted = [name for name in outputs if name in computed]
    if not wanted:
        raise ModelError("no output of the model is computed from its inputs")
    graph = pruned(full.values, full.nodes, full.inputs, full.weights, wanted)
    if drawn := [name for name in graph.inputs if name not in declared]:
        raise ModelError(f"the model draws random numbers ({drawn[0]}), so nothing can be compared")
    return graph


def _fit(value: np.ndarray, graph: Graph, name: str) -> np.ndarray:
    return np.asarray(value).astype(graph.type(name).dtype.numpy)


def _searched(graph: Graph, weights: Arrays, seed: int) -> Arrays:
    """Valid inputs beside the model's own weights. Raises: ModelError."""
    try:
        found = search(graph, random.Random(seed), given=weights)
    except Exception as error:  # weights that an operator cannot take
        raise ModelError(f"PyTorch cannot run the model: {error}") from error
    if isinstance(found, NotFound):
        raise ModelError(f"{found.reason}; give inputs of your own")
    return found.inputs


def _filled(name: str, spec: TensorSpec, found: Arrays, imported: ImportedModel) -> np.ndarray:
    """An input; zeros where the outputs do not depend on it."""
    if name in found:
        return found[name]
    if name in imported.constants:  # it decides on shapes
        return imported.constants[name]
    return np.zeros([size or 1 for size in spec.shape], spec.dtype)


def _check_shapes(graph: Graph, inputs: Arrays, constants: Arrays) -> None:
    """Raises: ModelError for inputs that the graph was not made for."""
    for name, given in inputs.items():
        if name in graph.inputs and given.shape != graph.type(name).shape:
            raise ModelError(f"input {name!r} is {list(given.shape)}, not {graph.type(name)!r}")
        if name in constants and not np.array_equal(given, constants[name]):
            raise ModelError(
                f"input {name!r} decides on shapes and was taken as {constants[name].tolist()}: "
                "make it a constant of the model"
            )


def _expected(graph: Graph, params: Arrays) -> dict[str, np.ndarray]:
    wanted = {name: params[name] for name in (*graph.inputs, *graph.weights)}
    try:
        values = execute(graph, tensors(wanted))
    except Exception as error:  # whatever PyTorch raises for these inputs
        raise ModelError(f"PyTorch cannot run the model on these inputs: {error}") from error
    return {name: array(values[name], graph.type(name).dtype) for name in graph.outputs}
