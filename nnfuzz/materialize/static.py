"""Makes ONNX models static: every value gets a known type, and constants are no longer nodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import inliner, numpy_helper, version_converter

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.expansion import expansion
from nnfuzz.materialize.facts import Described, Facts, expressed, is_static
from nnfuzz.materialize.inference import infer, plain_step
from nnfuzz.materialize.pinning import assignments, decides, separated, set_sizes
from nnfuzz.materialize.regions import NodeGroup, regions
from nnfuzz.materialize.walk import graphs, reads

NOTHING_COMPUTED = "the model computes nothing from its inputs"


class OnnxImportError(ValueError):
    """A model that cannot be imported; the message says why."""


@dataclass(frozen=True)
class StaticModel:
    """A model in which every value has a known type and constants are no nodes.

    types: of all values that a graph can hold. constants: values that do not depend on the inputs'
    elements. computed: the constants that nodes compute from the inputs' shapes. inputs: the
    model's inputs, and outputs of nodes that are left out. sizes: chosen for open dimensions, by
    name. lost: (operator, reason) of nodes that are left out. uncomputed: outputs of nodes that
    onnx.reference cannot run, so that they need a spec. given: values of small inputs, which become
    constants where an operator has them as attributes. facts: about the original model.
    """

    regions: tuple[NodeGroup, ...]
    types: dict[str, TensorType]
    constants: dict[str, np.ndarray]
    computed: frozenset[str]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    opset: int
    sizes: Mapping[str, int]
    lost: tuple[tuple[str, str], ...]
    uncomputed: Collection[str] = ()
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    facts: Facts = field(default_factory=lambda: Facts(0))


def static(
    model: onnx.ModelProto,
    opset: int,
    given: Mapping[str, np.ndarray],
    largest: int,
    described: Described = lambda facts, node: {},
) -> StaticModel:
    """The model at an opset, with open dimensions set so that the most nodes can be imported.

    given: values of inputs, if known. largest: the most elements of a value. described: as in
    Facts. Raises: OnnxImportError if no part can be imported.
    """
    graph = _without_constant_inputs(_converted(model, opset).graph)

    def at(sizes: Mapping[str, int]) -> tuple[Mapping[str, int], onnx.GraphProto, Facts]:
        copy = onnx.GraphProto()
        copy.CopyFrom(graph)
        set_sizes(copy, sizes)
        return sizes, copy, infer(copy, opset, described, given, largest)

    tried = []
    for sizes in assignments(graph):
        tried.append(at(sizes))
        if not tried[-1][-1].failed:
            break
    best = min(tried, key=lambda one: len(one[-1].failed))
    for other in separated(best[0]):
        best = min(at({**best[0], **other}), best, key=lambda one: len(one[-1].failed))
    return _source(*best)


def _source(
    sizes: Mapping[str, int], graph: onnx.GraphProto, found: Facts, computes: bool = True
) -> StaticModel:
    """The static model. computes: whether it must use its inputs. Raises: OnnxImportError."""
    known = filter(None, found.types)  # "" stands for an omitted output
    types = {name: t for name in known if (t := _held(found, name)) is not None}
    folded = found.constants.keys() - found.computed
    kept = [i for i, n in enumerate(graph.node) if not folded.issuperset(filter(None, n.output))]
    nodes = [graph.node[i] for i in kept]
    outputs = tuple(o.name for o in graph.output)
    failed = [kept.index(i) for i in found.failed]
    constants = {n: a for n, a in found.constants.items() if n in types}
    parts, lost = regions(nodes, types, failed, outputs, constants)
    made = {name for part in parts for name in part.outputs}
    read = dict.fromkeys(name for part in parts for name in part.inputs)
    inputs = tuple(n for n in read if n not in made and n not in constants)
    reasons = tuple((nodes[i].op_type, _reason(found, kept[i], nodes[i])) for i in sorted(lost))
    if computes and not made and not reasons:
        raise OnnxImportError(NOTHING_COMPUTED)
    if reasons and not made:
        raise OnnxImportError(reason_for_nothing(reasons))
    computed = frozenset(found.computed & made)
    held = types, constants, computed, inputs, outputs
    small = {n: a for n, a in found.given.items() if n in inputs and decides(types[n])}
    notes = reasons, found.uncomputed, small, found
    return StaticModel(tuple(parts), *held, found.opset, sizes, *notes)


def inside(source: StaticModel, node: onnx.NodeProto) -> StaticModel:
    """The expansion of a node (nnfuzz.materialize.expansion), as a model of its own.

    Raises: any exception if the node cannot be expanded.
    """
    nodes, found = expansion(source.facts, node, plain_step)
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.GraphProto(name="inside", node=nodes, output=outputs)
    return _source({}, graph, found, computes=False)


def _held(found: Facts, name: str) -> TensorType | None:
    type_ = expressed(found.types[name])
    return None if type_ is None or math.prod(type_.shape) > found.largest else type_


def _reason(found: Facts, position: int, node: onnx.NodeProto) -> str:
    """Why a node is left out: its failure, or its first value that a graph cannot hold."""
    names = [*reads(node), *filter(None, node.output)]
    unheld = (_unheld(found, name) for name in names)
    return found.failed.get(position) or next(filter(None, unheld), "what it reads is left out")


def _unheld(found: Facts, name: str) -> str:
    if name not in found.types or _held(found, name) is not None:
        return ""
    kind = found.types[name].tensor_type
    if not found.types[name].HasField("tensor_type"):
        return f"{name} is no tensor"
    if not any(dtype.onnx == kind.elem_type for dtype in DType):
        return f"{name} holds texts, or a dtype that nnfuzz does not know"
    if not is_static(found.types[name]):
        return f"the size of {name} is not known before it runs"
    count = math.prod(dim.dim_value for dim in kind.shape.dim)
    return f"{name} has {count} elements" + (f", more than {found.largest}" if count else "")


def reason_for_nothing(reasons: tuple[tuple[str, str], ...]) -> str:
    """The error message if nothing can be imported. reasons: (operator, reason) of each lost
    node."""
    return f"no node can be taken: {reasons[0][1]}"


def _without_constant_inputs(graph: onnx.GraphProto) -> onnx.GraphProto:
    """A copy of the graph without inputs that are constants (old models list these), without int32
    zero points of DequantizeLinear, which must be 0, and without sparse tensors."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    for part in graphs(copy):
        part.initializer.extend(map(_dense, part.sparse_initializer))
        del part.sparse_initializer[:]
    constants = {t.name: t for t in copy.initializer}
    kept = [info for info in copy.input if info.name not in constants]
    del copy.input[:]
    copy.input.extend(kept)
    for node in (node for part in graphs(copy) for node in part.node):
        node.domain = "" if node.domain == "ai.onnx" else node.domain
        if node.op_type == "DequantizeLinear" and _is_no_zero_point(constants.get(node.input[-1])):
            node.input.pop()
    return copy


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    values, at = map(numpy_helper.to_array, (sparse.values, sparse.indices))
    full = np.zeros(tuple(sparse.dims), values.dtype)
    full[tuple(at.T) if at.ndim == 2 else np.unravel_index(at, full.shape)] = values
    return protos.constant_proto(sparse.values.name, full)


def _is_no_zero_point(tensor: onnx.TensorProto | None) -> bool:
    """Whether a constant is a zero point of int32, which the standard requires to be 0."""
    if tensor is None or tensor.data_type != onnx.TensorProto.INT32:
        return False
    return not numpy_helper.to_array(tensor).any()


# -- opsets -------------------------------------------------------------------------------------


def _converted(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model at an opset, with its own functions inlined.

    If ONNX's converter fails, nodes stay as they are. They may then mean something else, or be left
    out, but the rest is still a model.
    """
    model = inliner.inline_local_functions(model) if model.functions else model
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    version = versions.get("ai.onnx", opset)
    nodes = (node for part in graphs(model.graph) for node in part.node)
    if version == opset or not any(_changed(node, version, opset) for node in nodes):
        return model
    try:
        return version_converter.convert_version(model, opset)
    except Exception:
        return model


def _changed(node: onnx.NodeProto, old: int, new: int) -> bool:
    """Whether the operator has another schema at the other opset, or is unknown."""
    if node.domain not in OWN_DOMAINS:
        return False
    try:
        schemas = [onnx.defs.get_schema(node.op_type, version) for version in (old, new)]
    except onnx.defs.SchemaError:
        return True
    return schemas[0].since_version != schemas[1].since_version
