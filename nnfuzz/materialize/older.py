"""Writes nodes for opsets before 13, and finds the oldest opset at which a model means the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import defs, helper

from nnfuzz.base.untrusted import all_nodes
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.protos import ir_version

CHANGED = 13
"""From this opset on, nodes are written as operator specs lower them."""
WHOLE = 11
"""From this opset on, operator specs can be written in full, except for changes at opset 13."""
WERE_ATTRIBUTES: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "Squeeze": (13, ("axes",)),
    "Unsqueeze": (13, ("axes",)),
    "ReduceSum": (13, ("axes",)),
    "Split": (13, ("split",)),
    "Clip": (11, ("min", "max")),
    "Pad": (11, ("pads", "value")),
    "TopK": (10, ("k",)),
    "Slice": (10, ("starts", "ends", "axes")),
}
"""Operator -> the opset at which its second and later inputs became inputs, and the names of the
attributes that they were before."""
FLATTENING = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
"""Before opset 13 these worked on all axes from `axis` on; for the last axis nothing changed."""
_MEANS_OTHERWISE = {"Scan": 9, "Resize": 11, "OneHot": 11}
"""Operator -> opset before which it meant something else, or less, with the same signature."""
_OF_EQUAL_SHAPES = {"Sum": 8, "Max": 8, "Min": 8, "Mean": 8}
"""Operator -> opset before which it did not broadcast."""


class NotWritten(LookupError):
    """A node that an old opset cannot express."""


def with_attribute(
    operator: str,
    inputs: Sequence[str],
    attributes: Mapping[str, Any],
    opset: int,
    number: Callable[[str], Iterable[float]],
) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The inputs and attributes of a node at an opset where some constant inputs are attributes.

    number: the elements of a constant by its name; raises KeyError for any other value.
    Raises: NotWritten if an input has no corresponding attribute.
    """
    since, names = WERE_ATTRIBUTES.get(operator, (0, ()))
    if opset >= since:
        return inputs, attributes
    given = dict(zip(names, inputs[1:]))
    steps = inputs[4] if operator == "Slice" and len(inputs) > 4 else ""
    if steps and set(number(steps)) != {1}:
        raise NotWritten("Slice has no steps")
    kinds = defs.get_schema(operator, opset, "").attributes
    made = {name: _value(kinds[name], [*number(v)]) for name, v in given.items() if v}
    if made.get("min", -math.inf) > made.get("max", math.inf):
        raise NotWritten("Clip does not say which of its bounds counts")
    return inputs[:1], {**attributes, **made}


def _value(attribute: defs.OpSchema.Attribute, numbers: Sequence[float]) -> Any:
    """The numbers as the value of an attribute of that type."""
    types = defs.OpSchema.AttrType
    if attribute.type == types.INTS:
        return [int(n) for n in numbers]
    return int(numbers[0]) if attribute.type == types.INT else float(numbers[0])


def checked(
    operator: str,
    inputs: Sequence[str],
    attributes: Mapping[str, Any],
    opset: int,
    type_of: Callable[[str], TensorType],
) -> Mapping[str, Any]:
    """The attributes of a node at an opset before WHOLE. Attributes that the opset lacks are
    dropped if they have their later default; axes are counted from the front.

    type_of: the type of a value; raises KeyError for an unknown one.
    Raises: NotWritten, KeyError.
    """
    if "." in operator:  # from another domain
        return attributes
    try:
        schema = defs.get_schema(operator, opset, "")
    except defs.SchemaError:
        raise NotWritten(f"opset {opset} has no {operator}") from None
    count = len(inputs)
    if schema.deprecated or not schema.min_input <= count <= schema.max_input:
        raise NotWritten(f"{operator} of opset {opset} takes no {count} inputs")
    if opset < _MEANS_OTHERWISE.get(operator, 0):
        raise NotWritten(f"{operator} means something else at opset {opset}")
    if opset < _OF_EQUAL_SHAPES.get(operator, 0) and len({type_of(n).shape for n in inputs}) > 1:
        raise NotWritten(f"{operator} does not broadcast at opset {opset}")
    given = {name: value for name, value in attributes.items() if value is not None}
    for name in [name for name in given if name not in schema.attributes]:
        if not _is_later_default(operator, name, given.pop(name)):
            raise NotWritten(f"{operator} has no {name} at opset {opset}")
    for name in [name for name in ("axis", "axes") if name in given]:
        value = given[name]
        axes = [value] if name == "axis" else list(value)
        if min(axes, default=0) < 0:
            rank = type_of(inputs[0]).rank + (len(axes) if operator == "Unsqueeze" else 0)
            axes = [axis % rank for axis in axes]
            given[name] = axes[0] if name == "axis" else axes
    return given


def _is_later_default(operator: str, name: str, value: Any) -> bool:
    """Whether an attribute of a later opset has the value that older nodes imply."""
    attribute = defs.get_schema(operator, WHOLE, "").attributes.get(name)
    if attribute is None:
        return False
    if name == "dilations":
        return set(value) <= {1}
    default = attribute.default_value
    return bool(default.name) and helper.get_attribute_value(default) in (value, _bytes(value))


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def exchanged_with_last(axis: int, rank: int) -> list[int] | None:
    """The permutation that swaps an axis with the last one; None if it is the last one."""
    axis %= rank
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]
    return None if axis == rank - 1 else order


def at_oldest_opset(model: bytes) -> bytes:
    """The model, declared for the oldest opset at which its operators have their present schemas,
    and for the matching IR version, so that old compilers can read it.

    Models with functions or operators of other domains stay as they are.
    """
    proto = onnx.load_model_from_string(model)
    opsets = {entry.domain: entry.version for entry in proto.opset_import}
    if opsets.keys() - {"", "ai.onnx"} or proto.functions:
        return model
    newest = max(opsets.values())
    kinds = (node.op_type for node in all_nodes(proto.graph.node))
    oldest = max(WHOLE, *(defs.get_schema(kind, newest, "").since_version for kind in kinds))
    if oldest >= newest:
        return model
    del proto.opset_import[:]
    proto.opset_import.add(domain="", version=oldest)
    proto.ir_version = ir_version(oldest)
    return proto.SerializeToString()
