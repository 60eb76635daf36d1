"""Which node inside of an ONNX model is wrong, where one operator of ours became several of ONNX.

Every value of the model becomes an output. Each node is then held against ONNX's reference
evaluator on the values that the compiler itself fed it with, in float64 where the node's operator
allows; the first node that is far off is run alone on these values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.ir.dtypes import DType, is_floating

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Arrays = Mapping[str, np.ndarray]
Run = Callable[[bytes, Arrays], Arrays | None]
"""(model, inputs) -> outputs of the compiler at the failing level, None if it does not run."""
_SHOWN = 8
"""Elements of an array that a sentence still quotes."""


@dataclass(frozen=True)
class WrongNode:
    """operator: of ONNX. value: its first wrong output. model: of that node alone, if it is wrong
    alone as well, else b"". inputs: what that model is fed with. sentence: what was seen.
    """

    operator: str
    value: str
    sentence: str
    model: bytes = b""
    inputs: Arrays | None = None


def first_wrong_node(model: bytes, inputs: Arrays, run: Run) -> WrongNode | None:
    """The first node in topological order that returns wrong values; None if none is told apart.

    None as well for a model of one node, whose operator is known already.
    """
    import onnx

    proto = onnx.load_model_from_string(model)
    if sum(node.op_type != "Constant" for node in proto.graph.node) < 2:
        return None
    shown = run(_exposed(proto), inputs)
    if shown is None:
        return None
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    values = {**constants, **inputs, **shown}
    for node in proto.graph.node:
        right = _reference(proto, node, values)
        for name, expected in right.items():
            if name in shown and far_off(shown[name], expected):
                return _alone(proto, node, name, values, constants, expected, run)
    return None


def _exposed(proto: ModelProto) -> bytes:
    """The model with every tensor whose type is known as an output."""
    import onnx

    whole = onnx.shape_inference.infer_shapes(proto)
    there = {output.name for output in whole.graph.output}
    made = {name for node in whole.graph.node for name in node.output}
    for value in whole.graph.value_info:
        if value.name in made - there and value.type.HasField("tensor_type"):
            whole.graph.output.add().CopyFrom(value)
    return whole.SerializeToString()


def _reference(proto: ModelProto, node: NodeProto, values: Arrays) -> dict[str, np.ndarray]:
    """The outputs of a node by ONNX's reference evaluator; {} where it cannot compute them."""
    if any(name and name not in values for name in node.input):
        return {}
    given = {name: values[name] for name in node.input if name}
    for feeds in ({name: _wide(array) for name, array in given.items()}, given):
        try:
            return _evaluated(proto, node, feeds)
        except Exception:  # whatever an implementation in NumPy stumbles over
            continue
    return {}


def _evaluated(proto: ModelProto, node: NodeProto, feeds: Arrays) -> dict[str, np.ndarray]:
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(_single(proto, node, feeds, {}))
    names = [name for name in node.output if name]
    with np.errstate(all="ignore"):
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def _single(proto: ModelProto, node: NodeProto, feeds: Arrays, constants: Arrays) -> Any:
    """A model of one node. feeds: its inputs; constants: those that are initializers."""
    from onnx import ModelProto, helper, numpy_helper

    single = ModelProto()
    single.CopyFrom(proto)
    for field in ("node", "initializer", "input", "output", "value_info"):
        single.graph.ClearField(field)
    single.graph.node.add().CopyFrom(node)
    for name, array in feeds.items():
        if name in constants:
            single.graph.initializer.append(numpy_helper.from_array(array, name))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            single.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    for name in filter(None, node.output):
        single.graph.output.append(helper.make_empty_tensor_value_info(name))
    return single


def _alone(
    proto: ModelProto,
    node: NodeProto,
    value: str,
    values: Arrays,
    constants: Arrays,
    expected: np.ndarray,
    run: Run,
) -> WrongNode:
    """What the node does in a model of its own: with its constants, then fed with all of them."""
    given = {name: values[name] for name in node.input if name}
    sentence = f"inside of the ONNX model, the first wrong value is {value}, computed by "
    sentence += f"{node.op_type}: {_told(values[value])} instead of {_told(expected)}"
    for kept in (constants, {}):
        single = _single(proto, node, given, kept)
        _typed(single, value, values)
        feeds = {name: array for name, array in given.items() if name not in kept}
        model = single.SerializeToString()
        outputs = run(model, feeds)
        if outputs is not None and value in outputs and far_off(outputs[value], expected):
            sentence += f"; {node.op_type} alone is wrong as well"
            return WrongNode(node.op_type, value, sentence, model, feeds)
    return WrongNode(node.op_type, value, f"{sentence}; alone it is right")


def _typed(single: ModelProto, value: str, values: Arrays) -> None:
    """Gives the outputs of a model of one node the types that they had in the whole."""
    from onnx import helper

    del single.graph.output[:]
    for name in single.graph.node[0].output:
        if name == value or name in values:
            kind = helper.np_dtype_to_tensor_dtype(values[name].dtype)
            shape = values[name].shape
            single.graph.output.append(helper.make_tensor_value_info(name, kind, shape))


def far_off(actual: np.ndarray, expected: np.ndarray) -> bool:
    """Whether a value is wrong beyond rounding: in half of its dtype's digits, measured by the
    largest magnitude in it; integers and booleans in any element.
    """
    if actual.shape != expected.shape:
        return True
    if not is_floating(actual):
        return not np.array_equal(actual, expected)
    with np.errstate(all="ignore"):
        wide, right = actual.astype(np.float64), expected.astype(np.float64)
        right = right.astype(actual.dtype).astype(np.float64)  # what overflows is infinite
        finite = np.abs(right[np.isfinite(right)])
        unit = DType.of(actual.dtype).unit_roundoff or 1.0
        bound = unit**0.5 * finite.max(initial=0.0)
        near = (wide == right) | (np.isnan(wide) & np.isnan(right)) | (abs(wide - right) <= bound)
    return not bool(near.all())


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if is_floating(array) else array


def _told(array: np.ndarray) -> str:
    flat = array.reshape(-1)
    more = ", ..." if flat.size > _SHOWN else ""
    return f"[{', '.join(str(x) for x in flat[:_SHOWN])}{more}]"
