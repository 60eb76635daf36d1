"""Facts about an ONNX model: the types and constants of its values. Also runs single nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference

from nnfuzz.base.untrusted import all_nodes
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos

MAX_NUMEL = 1 << 20
"""Default limit on the number of elements of a value."""
LONGEST = 1 << 16
"""Iterations of a Loop that onnx.reference computes in some seconds."""
MOST_SHOWN = 1 << 12
"""Shape inference sees the elements of constants with at most so many elements."""

Types = Mapping[str, onnx.TypeProto]
Arrays = Mapping[str, np.ndarray]
Described = Callable[["Facts", onnx.NodeProto], Types]


class Unknown(ValueError):
    """A node whose outputs have no known types; the message says why."""


@dataclass
class Facts:
    """The facts about the values of a model, by name.

    types: of values. constants: values that do not depend on input elements. computed: constants
    whose nodes stay in the graph. failed: node position -> why it cannot be imported; its outputs
    have the types that the model declares, if any. free: inputs of the model.
    """

    opset: int
    types: dict[str, onnx.TypeProto] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    free: set[str] = field(default_factory=set)
    given: Arrays = field(default_factory=dict)
    """Values of model inputs that may determine shapes."""
    largest: int = MAX_NUMEL
    """Limit on the number of elements of a value."""
    uncomputed: set[str] = field(default_factory=set)
    """Outputs of nodes that onnx.reference cannot run, so that they need a spec."""
    described: Described = lambda facts, node: {}
    """The types of the outputs of a node of which onnx has no schema, by the operator spec that
    describes it; none if there is none."""


def is_static(type_: onnx.TypeProto | None) -> bool:
    """Whether the type is a tensor with known sizes."""
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return False
    return all(dim.HasField("dim_value") for dim in type_.tensor_type.shape.dim)


def first_line(error: Exception) -> str:
    """The first line of an error message, shortened."""
    text = " ".join(str(error).replace("[ShapeInferenceError]", "").split())
    return text[:200] or type(error).__name__


# -- single nodes ---------------------------------------------------------------------------


def outputs_of(
    found: Facts, node: onnx.NodeProto, needed: Iterable[str], more: Arrays | None = None
) -> dict[str, onnx.TypeProto]:
    """Types of a node's outputs by ONNX shape inference. more: constants besides the known ones."""
    schema = protos.schema_of(node, found.opset)
    types = {name: found.types[name] for name in needed}
    known = {n: found.constants[n] for n in types if n in found.constants} | dict(more or {})
    data = {n: protos.constant_proto(n, a) for n, a in known.items() if a.size <= MOST_SHOWN}
    versions = protos.imports(node, found.opset).items()
    imports = [onnx.OperatorSetIdProto(domain=d, version=v) for d, v in versions]
    return shape_inference.infer_node_outputs(schema, node, types, data, None, imports)


def check_turns(node: onnx.NodeProto, known: Arrays) -> None:
    """Raises: Unknown if a node, or one inside of it, is a Loop of too many iterations for
    onnx.reference. known: values, the number of iterations among them if it is known.
    """
    for inner in all_nodes([node]):
        turns = known.get(inner.input[0]) if inner.op_type == "Loop" else None
        if turns is not None and turns.size == 1 and turns.item() > LONGEST:
            raise Unknown(f"a Loop of {turns.item()} iterations, more than {LONGEST}")


def evaluated_node(
    node: onnx.NodeProto, opset: int, fed: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """The outputs of a node as onnx.reference computes them from `fed`, by name."""
    from onnx.reference import ReferenceEvaluator

    check_turns(node, fed)
    names = [name for name in node.output if name]
    graph = onnx.GraphProto(name="node", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in fed)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(protos.model(graph, opset)).run(None, dict(fed))
    return dict(zip(names, results, strict=True))


def drawn(
    found: Facts, node: onnx.NodeProto, needed: Iterable[str], values: Arrays, scale: int
) -> Arrays:
    """The outputs of a node for `values` and known constants; other inputs are 0 or `scale`."""
    rng, fed = np.random.default_rng(0), dict(values)
    for name in needed:
        if name in found.constants:
            fed[name] = found.constants[name]
        elif name not in fed:
            type_ = expressed(found.types[name])
            if type_ is None:
                raise Unknown(name)
            drawn = scale * rng.integers(0, 2, type_.sizes)
            fed[name] = np.asarray(drawn).astype(type_.dtype.numpy)
    return evaluated_node(node, found.opset, fed)


def kinds(arrays: Arrays) -> dict[str, tuple[DType, tuple[int, ...]]]:
    """Dtype and shape of each array, by name."""
    return {name: (DType.of(a.dtype), a.shape) for name, a in arrays.items()}


def expressed(type_: onnx.TypeProto | None) -> TensorType | None:
    """The type in nnfuzz's form; None if it is no tensor, has an open size or an unknown dtype."""
    if type_ is None or not is_static(type_):
        return None
    dtype = next((d for d in DType if d.onnx == type_.tensor_type.elem_type), None)
    shape = tuple(d.dim_value for d in type_.tensor_type.shape.dim)
    return None if dtype is None or min(shape, default=0) < 0 else TensorType(dtype, shape)


def tensor_type(code: int, dims: Iterable[int]) -> onnx.TypeProto:
    """The ONNX type of a tensor of known sizes; code: of onnx.TensorProto.DataType."""
    return onnx.helper.make_tensor_type_proto(code, list(dims))


def is_complete(type_: onnx.TypeProto | None) -> bool:
    """Whether inference can add nothing: the type is a static tensor, or no tensor at all."""
    return is_static(type_) or (type_ is not None and not type_.HasField("tensor_type"))
