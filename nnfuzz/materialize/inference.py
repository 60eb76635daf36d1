"""Infers the types of all values of a model, node by node, and computes values that depend on
shapes.

ONNX infers a type from the types of a node's inputs and from constants. Values that depend only on
input shapes (through Shape, Gather, Concat and the like) are computed and count as constants, so
that a Reshape which reads them has a known type.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

import numpy as np
import onnx
from onnx import checker, numpy_helper

from nnfuzz.base.untrusted import making_sense
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.materialize import protos
from nnfuzz.materialize.expansion import expansion
from nnfuzz.materialize.facts import (
    MAX_NUMEL,
    Arrays,
    Described,
    Facts,
    Types,
    Unknown,
    check_turns,
    drawn,
    evaluated_node,
    expressed,
    first_line,
    is_complete,
    is_static,
    kinds,
    outputs_of,
    tensor_type,
)
from nnfuzz.materialize.pinning import pinned, take_given
from nnfuzz.materialize.walk import bodies, reads

READ_SHAPES = ("Shape", "Size")
RANDOM = frozenset(
    "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike "
    "Dropout".split()
)
"""Operators whose results may differ from run to run."""
PLAIN = frozenset("Constant ConstantOfShape Identity".split())
"""Operators that are folded if all inputs are constants, because folding them loses no test."""
DRAWS = 3
SMALL = 16
"""Most elements of a constant that may describe a shape."""


def infer(
    graph: onnx.GraphProto,
    opset: int,
    described: Described,
    given: Arrays = MappingProxyType({}),
    largest: int = MAX_NUMEL,
) -> Facts:
    """Infers types and constants in a graph whose inputs have static types.

    described: as in Facts. given: values for inputs that determine shapes. largest: most elements
    of a value.
    """
    found = Facts(opset, given=given, largest=largest, described=described)
    declared = {i.name: i.type for i in (*graph.value_info, *graph.output)}
    found.types.update((i.name, i.type) for i in graph.input)
    found.free.update(i.name for i in graph.input)
    for tensor in graph.initializer:
        with making_sense(f"tensor {tensor.name}"):
            found.constants[tensor.name] = numpy_helper.to_array(tensor)
        found.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
    for position, node in enumerate(graph.node):
        try:
            _step(found, node, declared)
        except Exception as error:
            found.failed[position] = f"{node.op_type}: {first_line(error)}"
            names = [name for name in node.output if is_static(declared.get(name))]
            found.types.update((name, declared[name]) for name in names)
    return found


def _step(found: Facts, node: onnx.NodeProto, declared: Types) -> None:
    needed = reads(node)
    for name in needed:
        if name not in found.types:
            raise Unknown(f"the type of {name} is not known")
    if node.domain and not onnx.defs.has(node.op_type, node.domain):
        if not (outputs := found.described(found, node)):
            raise Unknown(f"no operator spec of the domain {node.domain} describes it")
        found.types.update(outputs)
        found.uncomputed.update(node.output)
        return
    if _folds(found, node, needed):
        return
    _check(node, found.opset)
    outputs = _inside(found, node) if any(bodies(node)) else {}
    outputs = outputs or pinned(found, node, needed, declared) or outputs_of(found, node, needed)
    for name in filter(None, node.output):
        if name not in outputs and is_static(declared.get(name)):
            outputs[name] = declared[name]
    if not all(is_complete(outputs.get(name)) for name in filter(None, node.output)):
        ran = _inside(found, node) or _sampled(found, node, needed)
        outputs = _completed(outputs, ran, {} if node.domain in OWN_DOMAINS else declared)
    missing = [n for n in node.output if n and n not in outputs]
    if missing:
        raise Unknown(f"the type of {missing[0]} is not known")
    if node.op_type == "Reshape" and not _equally_many(found.types[needed[0]], outputs):
        raise Unknown("the result has another number of elements")
    found.types.update(outputs)
    _computed(found, node, needed)


def _completed(inferred: Types, ran: Types, declared: Types) -> dict[str, onnx.TypeProto]:
    """The inferred types, with sizes completed from runs, or as the model declares them.

    The inferred dtype wins, because onnx.reference computes some operators in another one.
    declared: types that the model declares; empty for ONNX's own domains.
    """
    types = {**inferred, **ran}
    for name in types:
        known = inferred.get(name)
        code = known.tensor_type.elem_type if known is not None else 0
        if name in ran and code and is_static(ran[name]):
            types[name] = tensor_type(code, [d.dim_value for d in ran[name].tensor_type.shape.dim])
        elif name not in ran and not is_complete(types[name]) and is_static(declared.get(name)):
            types[name] = declared[name]
    return types


def plain_step(found: Facts, node: onnx.NodeProto) -> None:
    """Add the facts about a node's outputs, whose inputs are known. Raises: any exception."""
    _step(found, node, {})


def _inside(found: Facts, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
    """The output types of a node by expansion into plain nodes; none if that is impossible.

    A Loop's number of iterations and first condition are taken from given model inputs.
    """
    if node.op_type == "Loop":
        take_given(found, node.input[:2])
    try:
        inner = expansion(found, node, plain_step)[1]
    except Exception:  # whatever a step raises
        return {}
    return {name: inner.types[name] for name in node.output if name}


def _equally_many(taken: onnx.TypeProto, given: Types) -> bool:
    """Whether two tensors have equally many elements, which ONNX's inference does not check."""
    types = [expressed(taken), *map(expressed, given.values())]
    return None in types or len({t.numel for t in types if t is not None}) == 1


def _computed(found: Facts, node: onnx.NodeProto, needed: Iterable[str]) -> None:
    """Record the node's outputs in `uncomputed` if onnx.reference cannot run the node."""
    from onnx.reference import ReferenceEvaluator

    graph = onnx.GraphProto(name="node", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name, type=found.types[name]) for name in needed)
    try:
        check_turns(node, found.constants)
        ReferenceEvaluator(protos.typed(protos.model(graph, found.opset)))
    except Exception:  # unknown operators and versions each have an exception of their own
        found.uncomputed.update(node.output)


def _check(node: onnx.NodeProto, opset: int) -> None:
    context = checker.DEFAULT_CONTEXT.__class__()
    context.ir_version = protos.MAX_IR_VERSION
    context.opset_imports = protos.imports(node, opset)
    if not any(bodies(node)):
        checker.check_node(node, context)


# -- running single nodes ---------------------------------------------------------------------


def _folds(found: Facts, node: onnx.NodeProto, needed: Iterable[str]) -> bool:
    """Computes a node whose results do not depend on elements of inputs. Returns whether it did."""
    needed = list(needed)
    by_shape = node.op_type in READ_SHAPES and is_static(found.types[needed[0]])
    if node.op_type in RANDOM or not (by_shape or _describes_shapes(found, node, needed)):
        return False
    fed = {n: found.constants[n] for n in needed if n in found.constants}
    if by_shape and not fed:
        dims = found.types[needed[0]].tensor_type.shape.dim
        fed = {needed[0]: np.broadcast_to(np.float32(0), [d.dim_value for d in dims])}
    try:
        results = evaluated_node(node, found.opset, fed)
        dtypes = [DType.of(array.dtype) for array in results.values()]
    except Exception:
        return False
    found.constants.update(results)
    for (name, array), dtype in zip(results.items(), dtypes):
        found.types[name] = tensor_type(dtype.onnx, array.shape)
    if node.op_type not in PLAIN:
        found.computed.update(results)
    return True


def _describes_shapes(found: Facts, node: onnx.NodeProto, needed: Iterable[str]) -> bool:
    """Whether all inputs of a node are small constants that describe shapes and are no weights."""
    if not all(name in found.constants for name in needed):
        return False
    arrays = [found.constants[name] for name in needed]
    if node.op_type in PLAIN:
        return True
    whole = not found.computed.isdisjoint(needed)
    return all(a.size <= SMALL and (whole or a.dtype.kind in "iub") for a in arrays)


def _sampled(
    found: Facts, node: onnx.NodeProto, needed: Iterable[str]
) -> dict[str, onnx.TypeProto]:
    """Output types on which a few runs agree; none if shapes may depend on input elements, as they
    never do in ai.onnx.ml."""
    free = {n: expressed(found.types[n]) for n in needed if n not in found.constants}
    data = node.domain == "ai.onnx.ml"
    if any(t is None or not (data or t.rank > 1 or t.dtype.is_float) for t in free.values()):
        return {}
    try:
        runs = [kinds(drawn(found, node, needed, {}, scale)) for scale in range(DRAWS)]
    except Exception:
        return {}
    agreed = {n: t for n, t in runs[0].items() if all(other[n] == t for other in runs)}
    return {n: tensor_type(dtype.onnx, shape) for n, (dtype, shape) in agreed.items()}
