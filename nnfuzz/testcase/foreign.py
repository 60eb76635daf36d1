"""A test case of an ONNX model of others: its graph, inputs, and PyTorch's outputs.

The compilers get the model itself, byte for byte. The graph, which the oracle and the reducer work
on, has the model's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnfuzz.backend.interface import InputError, TensorSpec, check_inputs, read_interface
from nnfuzz.backend.target import DIRECT
from nnfuzz.base.packed_values import PackingKind, packing_of
from nnfuzz.ir.graph import Graph, GraphError, pruned
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.ir.sizes import at_size, from_copies, join_copies, name_and_copy
from nnfuzz.materialize.importing import ImportedModel, import_onnx, rename
from nnfuzz.materialize.inference import READ_SHAPES
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.opsets import CALLED_DIRECT, READ_FROM, opset_range
from nnfuzz.materialize.pinning import open_dimensions, set_sizes
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.materialize.validity import declared_types
from nnfuzz.materialize.walk import qualified_name, reads
from nnfuzz.operators.carriers import array
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import ModelError, NoReference, TestCase
from nnfuzz.testcase.foreign_inputs import NoInputs, guesses, search_inputs
from nnfuzz.testcase.identity import ForeignId

Arrays = Mapping[str, np.ndarray]
LARGER = (32, 48, 224, 512)
"""Sizes that are tried one after the other: words, pixels and samples."""
LARGEST = 1 << 26
"""Elements of the largest value of a model: an embedding of 64 Mi numbers is 512 MiB in float64."""


def case_of_model(
    model: onnx.ModelProto, registry: OpRegistry, inputs: Arrays | None = None, seed: int = 0
) -> TestCase:
    """The test case of a model, in the direct form.

    inputs: arrays by name; None: valid ones are searched, a function of the model and `seed`.
    Dimensions that the model leaves open are those of the given inputs, or else chosen; larger ones
    if the model does not run at those. Raises: ModelError.
    """
    try:
        return _case(model, _at_shapes(model, inputs or {}), registry, inputs, seed)
    except ModelError:
        for shaped in _others(model, inputs):
            with suppress(ModelError):
                return _case(model, shaped, registry, inputs, seed)
        raise


def in_calls(cases: Sequence[TestCase], registry: OpRegistry) -> TestCase:
    """The test case of a model that is called with the inputs of each of these, one after the other
    (nnfuzz.ir.sizes); without a graph if one of them has none.

    cases: of one model. Raises: ModelError if one compiled program cannot be called so.
    """
    first, named = cases[0], [n for case in cases for n in (*case.inputs, *case.graph.shapes)]
    if odd := [name for name in named if name_and_copy(name)[1]]:
        raise ModelError(f"nnfuzz gives the name {odd[0]!r} to a value of a later call")
    graph, weights, equal = Graph(), dict[str, np.ndarray](), set(first.weights)
    for case in cases[1:]:
        own = case.weights
        equal = {n for n in equal & own.keys() if np.array_equal(own[n], first.weights[n])}
    if all(case.graph for case in cases):
        try:
            parts = [Graph.of(case.graph, registry.get) for case in cases]
            graph = join_copies(parts, equal)
        except GraphError as error:
            raise ModelError(str(error)) from error
        for k, case in enumerate(cases):
            weights |= {n if n in equal else at_size(n, k): a for n, a in case.weights.items()}
    return replace(
        first,
        graph=graph.view(),
        inputs=from_copies(case.inputs for case in cases),
        weights=weights,
        expected=from_copies(case.expected for case in cases) if graph.nodes else {},
        exporter=CALLED_DIRECT,
    )


def checked_interface(
    data: bytes, inputs: Arrays | None
) -> tuple[dict[str, TensorSpec], tuple[str, ...]]:
    """The inputs that a model declares, and the names of its outputs.

    Raises: NoReference if an input is no tensor; ModelError if `inputs` do not fit.
    """
    try:
        declared, outputs = read_interface(data)
    except InputError as error:
        raise NoReference(str(error)) from error
    try:
        if inputs is not None:
            check_inputs(declared, inputs)
    except InputError as error:
        raise ModelError(str(error)) from error
    return declared, outputs


def _others(model: onnx.ModelProto, inputs: Arrays | None) -> Iterator[onnx.ModelProto]:
    """Copies to try when the model cannot be taken: of larger sizes, but for the first axis and
    others of its name, which is a batch usually; or with given inputs of one integer as constants,
    which may choose a branch."""
    if inputs is None:
        axes = [own for value in model.graph.input for own in open_dimensions(value)]
        batches = {name for name, axis in axes if not axis}
        rest = [name for name, _ in axes if name not in batches]
        for size in LARGER if rest else ():
            yield _at_sizes(model, dict.fromkeys(rest, size))
        return
    single = {n: a for n, a in inputs.items() if a.size == 1 and a.dtype.kind in "iub"}
    if single:
        copy = _at_shapes(model, inputs)
        copy.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in single.items())
        yield copy


def _case(
    model: onnx.ModelProto,
    shaped: onnx.ModelProto,
    registry: OpRegistry,
    inputs: Arrays | None,
    seed: int,
) -> TestCase:
    """`case_of_model` with the sizes of open dimensions as far as `shaped` has them."""
    opset = _opset(model)
    try:
        imported = import_onnx(shaped, registry, opset, inputs or {}, LARGEST)
    except OnnxImportError as error:
        raise NoReference(f"the model cannot be imported: {error}") from error
    data = model.SerializeToString()
    declared, outputs = checked_interface(data, inputs)
    graph = _graph(imported, declared, outputs, model)
    weights = {n: _fit(imported.constants[n], graph, n) for n in graph.weights}
    if inputs is None:
        searched = _searched(graph, weights, seed, model)
        rest = next(guesses(declared, model, seed, imported.sizes))
        fixed = {name: a for name, a in imported.constants.items() if name in declared}
        inputs = {**rest, **fixed, **searched}  # the last ones are those that outputs depend on
    _check_shapes(graph, inputs, imported.constants)
    return TestCase(
        id=ForeignId(seed),
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
    versions = [entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS]
    least, most = READ_FROM, opset_range(DIRECT)[1]
    return min(max(versions[0] if versions else most, least), most)


def _at_shapes(model: onnx.ModelProto, inputs: Arrays) -> onnx.ModelProto:
    """A copy whose inputs have the shapes of the given arrays. Dimensions of one name may get
    different sizes, since compilers accept such inputs.
    """
    copy, sizes = _at_sizes(model, {}), dict[str, int]()
    for value in copy.graph.input:
        given, dims = inputs.get(value.name), value.type.tensor_type.shape.dim
        if given is not None and given.ndim == len(dims):
            for name, axis in list(open_dimensions(value)):
                sizes[name] = dims[axis].dim_value = given.shape[axis]
    set_sizes(copy.graph, sizes)
    return copy


def _at_sizes(model: onnx.ModelProto, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """A copy with sizes for open dimensions of these names. Maps that a ZipMap makes are the matrix
    that it reads.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for value, packed in packing_of(copy.graph.output, copy.graph.node).items():
        if packed.kind is PackingKind.MAPS:
            _as_matrix(copy.graph, value, len(packed.keys))
    set_sizes(copy.graph, sizes)
    return copy


def _as_matrix(graph: onnx.GraphProto, name: str, columns: int) -> None:
    """Makes an output that a ZipMap computes the matrix that it reads, one row for each map."""
    (node,) = (node for node in graph.node if name in node.output)
    (output,) = (value for value in graph.output if value.name == name)
    shape = numpy_helper.from_array(np.array([-1, columns]), f"{name}/shape")
    graph.initializer.append(shape)
    made = helper.make_node("Reshape", [*node.input, shape.name], [name])
    node.CopyFrom(made)
    open_matrix = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, columns])
    output.CopyFrom(open_matrix)


def _graph(
    imported: ImportedModel,
    declared: Mapping[str, TensorSpec],
    outputs: tuple[str, ...],
    model: onnx.ModelProto,
) -> Graph:
    """The graph of the model's outputs, with the names of the model; without outputs that need
    values that only a compiler can compute. Raises: NoReference if none is left.
    """
    rename(imported.graph, imported.names)
    full, computed = imported.graph, imported.graph.producer()
    wanted = [name for name in outputs if name in computed]
    foreign = {name for name in full.inputs if name not in declared}
    known = [name for name in wanted if foreign.isdisjoint(_part(full, [name]).inputs)]
    if not known and imported.lost:
        raise NoReference(_lost(imported.lost, model))
    if not wanted:
        raise NoReference("no output of the model is computed from its inputs")
    if not known:
        drawn = ", ".join(sorted(foreign))
        raise NoReference(f"the elements of {drawn} are random, or do not depend on the inputs")
    return _part(full, known)


def _part(full: Graph, outputs: Sequence[str]) -> Graph:
    return pruned(full.values, full.nodes, full.inputs, full.weights, outputs)


def _lost(lost: Sequence[tuple[str, str]], model: onnx.ModelProto) -> str:
    """Which nodes cannot be taken, and why the first of them cannot."""
    kind, why = lost[0]
    named = [_named(model, node) for node in model.graph.node if node.op_type == kind]
    count = f"{len(lost)} nodes" if len(lost) > 1 else "a node"
    return (
        f"every output needs {count} of the model that cannot be imported; first, "
        f"{(named or [kind])[0]}: {why}"
    )


def computed(model: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """The values that nodes of a model's main graph compute: its outputs and what is read, and the
    others. A mask of Dropout that nobody reads had another dtype before opset 10 than nnfuzz's.
    """
    graph = onnx.load_model_from_string(model).graph
    used = {value.name for value in graph.output}.union(*map(reads, graph.node))
    made = frozenset(name for node in graph.node for name in node.output)
    return made & used, made - used


def with_values(model: bytes) -> bytes:
    """The model with every value as an output that its main graph computes from its inputs'
    elements. New outputs have the types that ONNX infers, if any.
    """
    proto = onnx.load_model_from_string(model)
    graph, types = proto.graph, declared_types(proto)
    live = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    known = {value.name for value in graph.output}
    for node in graph.node:
        if node.op_type not in READ_SHAPES and not live.isdisjoint(reads(node)):
            live.update(filter(None, node.output))
    names = [n for node in graph.node for n in node.output if n in live and n not in known]
    graph.output.extend(types.get(name) or onnx.ValueInfoProto(name=name) for name in names)
    return proto.SerializeToString()


def _named(model: onnx.ModelProto, node: onnx.NodeProto) -> str:
    """How people find a node: its name, or else its output, and its operator."""
    kind = qualified_name(node)
    return (
        f"node {node.name!r} ({kind})"
        if node.name
        else f"{kind}, which computes {node.output[0]!r}"
    )


def node_of(model: onnx.ModelProto, value: str) -> onnx.NodeProto | None:
    """The node of the model's main graph that computes a value."""
    return next((node for node in model.graph.node if value in node.output), None)


def _fit(value: np.ndarray, graph: Graph, name: str) -> np.ndarray:
    return np.asarray(value).astype(graph.type(name).dtype.numpy)


def _searched(graph: Graph, weights: Arrays, seed: int, model: onnx.ModelProto) -> Arrays:
    """Valid inputs beside the model's own weights. Raises: NoReference."""
    try:
        return search_inputs(graph, weights, seed)
    except NoInputs as error:
        message = str(error)
        if error.position is not None:
            at = graph.nodes[error.position]
            node = node_of(model, at.outputs[0])
            where = (
                _named(model, node) if node else f"{at.op.name}, which computes {at.outputs[0]!r}"
            )
            message = f"no valid inputs are found: {where}: {message}"
        raise NoReference(
            f"{message}; give inputs of your own (--inputs FILE.npz, or inputs=)"
        ) from error


def _check_shapes(graph: Graph, inputs: Arrays, constants: Arrays) -> None:
    """Raises: ModelError for inputs that the graph was not made for."""
    for name, given in inputs.items():
        if name in graph.inputs and given.shape != graph.type(name).shape:
            raise ModelError(f"input {name!r} is {list(given.shape)}, not {graph.type(name)!r}")
        if name in constants and not np.array_equal(given, constants[name]):
            raise NoReference(
                f"input {name!r} decides on shapes and was taken as {constants[name].tolist()}: "
                "make it a constant of the model"
            )


def _expected(graph: Graph, params: Arrays) -> dict[str, np.ndarray]:
    wanted = {name: params[name] for name in (*graph.inputs, *graph.weights)}
    try:
        values = execute(graph, tensors(wanted))
    except Exception as error:  # PyTorch may raise anything for these inputs
        raise NoReference(f"PyTorch cannot run the model on these inputs: {error}") from error
    return {name: array(values[name], graph.type(name).dtype) for name in graph.outputs}
