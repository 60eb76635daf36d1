"""Faults in the attributes of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import AttributeProto, NodeProto, helper
from onnx.defs import OpSchema

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.names import NODES
from nnfuzz.invalid.site import NoPlace, Site

ATTRIBUTE = "onnx.proto, AttributeProto"
SIGNATURE = f"{NODES}: the attributes and their types must satisfy the signature of the operator"
VALUES: Mapping[AttributeProto.AttributeType, object] = {
    AttributeProto.FLOAT: 1.5,
    AttributeProto.INT: 1,
    AttributeProto.STRING: "text",
    AttributeProto.FLOATS: [1.5, 2.5],
    AttributeProto.INTS: [1, 1],
    AttributeProto.STRINGS: ["text", "text"],
}
_BIG = (2**31, -(2**31) - 1, 2**63 - 1, -(2**63))


def _has_any(schema: OpSchema) -> bool:
    return bool(schema.attributes)


@kind(
    f"{NODES}: the attributes must satisfy the signature of the operator",
    lambda schema: any(a.required for a in schema.attributes.values()),
)
def missing_attribute(site: Site) -> str:
    """A node without an attribute that its operator requires."""
    for node, schema in site.known():
        needed = {name for name, a in schema.attributes.items() if a.required}
        present = [a for a in node.attribute if a.name in needed]
        if present:
            gone = site.choice(present)
            name = gone.name
            node.attribute.remove(gone)
            return f"{site.at(node)} lacks the attribute {name!r}, which is required"
    raise NoPlace


@kind(f"{NODES}: the set of attributes must satisfy the signature of the operator")
def unknown_attribute(site: Site) -> str:
    """A node with an attribute that its operator does not have."""
    for node, schema in site.known():
        names = [n for n in ("frobnicate", "axis", "alpha", "") if n not in schema.attributes]
        name, type_ = site.choice(names), site.choice(sorted(VALUES))
        node.attribute.append(_attribute(name, VALUES[type_]))
        return f"{site.at(node)} has an attribute {name!r}, which its operator does not have"
    raise NoPlace


@kind("ONNX IR, Attributes: the name must be unique among the attributes of a node", _has_any)
def duplicate_attribute(site: Site) -> str:
    """A node that has an attribute twice."""
    node, _, attribute = _some(site)
    node.attribute.add().CopyFrom(attribute)
    return f"{site.at(node)} has the attribute {attribute.name!r} twice"


@kind(SIGNATURE, _has_any)
def wrong_attribute_type(site: Site) -> str:
    """An attribute of another type than the operator says."""
    node, schema, attribute = _some(site)
    wanted: Any = schema.attributes[attribute.name].type
    types = [t for t in sorted(VALUES) if t != int(wanted)]
    attribute.CopyFrom(_attribute(attribute.name, VALUES[site.choice(types)]))
    actual, due = map(AttributeProto.AttributeType.Name, (attribute.type, int(wanted)))
    return f"attribute {attribute.name!r} of {site.at(node)} is {actual}, not {due}"


@kind(f"{ATTRIBUTE}.type: must be present and match the field in use", _has_any)
def untyped_attribute(site: Site) -> str:
    """An attribute without a type, or whose type does not say which field it is in."""
    node, _, attribute = _some(site)
    old = attribute.type
    attribute.ClearField("type")
    wrong = site.choice(("no type", "the type 99", "another type"))
    if wrong == "the type 99":
        # Not a value of the enum: Python's protobuf does not let it be set, a file may have it.
        attribute.MergeFromString(b"\xa0\x01\x63")
    elif wrong == "another type":
        attribute.type = site.choice([t for t in sorted(VALUES) if t != old])
        wrong = f"the type {AttributeProto.AttributeType.Name(attribute.type)}"
    return f"attribute {attribute.name!r} of {site.at(node)} has {wrong}, which is not its value's"


@kind(f"{ATTRIBUTE}: exactly one of the fields with a value must be present", _has_any)
def attribute_with_two_values(site: Site) -> str:
    """An attribute with values in two fields."""
    node, _, attribute = _some(site)
    for type_ in site.shuffled(sorted(VALUES)):
        if type_ != attribute.type:
            other = _attribute(attribute.name, VALUES[type_])
            other.ClearField("type")
            attribute.MergeFrom(other)
            second = AttributeProto.AttributeType.Name(type_)
            return (
                f"attribute {attribute.name!r} of {site.at(node)} has a value of {second} as well"
            )
    raise NoPlace


@kind(f"{ATTRIBUTE}.ref_attr_name: invalid in the main graph", _has_any)
def reference_outside_function(site: Site) -> str:
    """An attribute of a node in the main graph that refers to one of a function."""
    node, _, attribute = _some(site)
    name, type_ = attribute.name, attribute.type
    attribute.Clear()
    attribute.name, attribute.type, attribute.ref_attr_name = name, type_, "alpha"
    return f"attribute {name!r} of {site.at(node)} refers to an attribute of a function"


def _some(site: Site) -> tuple[NodeProto, OpSchema, AttributeProto]:
    """A node and one of its attributes that is defined by the standard and is no sub-graph."""
    for node, schema in site.known():
        plain = [a for a in node.attribute if a.name in schema.attributes and not a.HasField("g")]
        if plain:
            return node, schema, site.choice(plain)
    raise NoPlace


def _attribute(name: str, value: Any) -> AttributeProto:
    return helper.make_attribute(name, value)


# -- values ----------------------------------------------------------------------------------------

Wrong = Callable[[Any], Sequence[Any]]
"""Correct value -> values that the operator's specification excludes."""


def words(*wrong: str) -> Wrong:
    return lambda right: ("sometimes", "", *wrong)


def not_positive(right: Any) -> Sequence[object]:
    """Wrong values for numbers that must be at least 1."""
    if isinstance(right, int):
        return (0, -1, *_BIG[1::2])
    return [[*right[:-1], wrong] for wrong in (0, -1, -(2**31), -(2**63))]


def one_per_axis(right: Sequence[object]) -> Sequence[object]:
    """Wrong values for a list that must have one element for each axis."""
    return [*not_positive(right), [*right, 1], list(right[:-1])]


def wrong_pads(right: Sequence[object]) -> Sequence[object]:
    """Wrong values for pads, which must be at least 0, with a begin and an end for each axis."""
    return [[*right, 0], list(right[:-1]), [-1, *right[1:]], [*right[:-1], -(2**31)]]


def permutation(right: Sequence[int]) -> Sequence[object]:
    wrong = [[*right[:-1], len(right)], [*right, len(right)], [-1, *right[1:]], list(right[:-1])]
    return [*wrong, [right[0]] * len(right)] if len(right) > 1 else wrong


def data_type(right: object) -> Sequence[object]:
    return (0, -1, 999, 2**31 - 1, 2**40)


_WINDOW: dict[str, Wrong] = {
    "auto_pad": words("same_upper"),
    "kernel_shape": one_per_axis,
    "strides": one_per_axis,
    "dilations": one_per_axis,
    "pads": wrong_pads,
}
_CONV: dict[str, Wrong] = {**_WINDOW, "group": lambda right: (0, -1, right + 1_000_003)}
_RECURRENT: dict[str, Wrong] = {
    "direction": words("backward"),
    "hidden_size": lambda right: (0, -1, right + 1),
    "activations": lambda right: (["Frobnicate"] * max(1, len(right)),),
    "layout": lambda right: (2, -1),
}
EXCLUDED: Mapping[str, Mapping[str, Wrong]] = {
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool"), _WINDOW),
    **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger", "QLinearConv"), _CONV),
    **dict.fromkeys(("RNN", "LSTM", "GRU"), _RECURRENT),
    "MaxUnpool": {name: _WINDOW[name] for name in ("kernel_shape", "strides", "pads")},
    "MaxRoiPool": {"pooled_shape": one_per_axis},
    "RoiAlign": {
        "mode": words("sum"),
        "coordinate_transformation_mode": words("asymmetric"),
        "output_height": not_positive,
        "output_width": not_positive,
    },
    "Pad": {"mode": words("mirror")},
    "Resize": {
        "mode": words("lanczos"),
        "coordinate_transformation_mode": words("align"),
        "nearest_mode": words("round"),
        "keep_aspect_ratio_policy": words("stretchy"),
    },
    "GridSample": {"mode": words("lanczos"), "padding_mode": words("wrap")},
    "DepthToSpace": {"blocksize": not_positive, "mode": words("RCD")},
    "SpaceToDepth": {"blocksize": not_positive},
    "Transpose": {"perm": permutation},
    "Cast": {"to": data_type},
    "EyeLike": {"dtype": data_type},
    "Gelu": {"approximate": words("sigmoid")},
    "BitShift": {"direction": words("left")},
    "LRN": {"size": not_positive},
    "Einsum": {"equation": lambda right: ("", right + "->", right.split("->")[0] + ",z->z")},
    "ScatterElements": {"reduction": words("sum")},
    "ScatterND": {"reduction": words("sum")},
    "NegativeLogLikelihoodLoss": {"reduction": words("max")},
    "SoftmaxCrossEntropyLoss": {"reduction": words("max")},
    "Split": {"num_outputs": not_positive},
    "Scan": {"num_scan_inputs": lambda right: (0, -1, right + 100)},
    "GroupNormalization": {"num_groups": lambda right: (0, -1, right + 1_000_003)},
    "LpNormalization": {"p": lambda right: (0, 3, -1)},
    "TensorScatter": {"mode": words("ring")},
}
"""Operator -> attribute -> values that its specification in the operator set excludes."""


@kind(
    "Operators: the attribute's text lists or bounds its values",
    lambda schema: bool(EXCLUDED.get(schema.name)),
)
def attribute_out_of_range(site: Site) -> str:
    """An attribute with a value that the operator's text excludes: an unknown mode, a stride of 0,
    a perm that is no permutation.
    """
    for node, _ in site.known():
        wrong = EXCLUDED.get(node.op_type, {})
        present = [a for a in node.attribute if a.name in wrong]
        for attribute in site.shuffled(present):
            right = helper.get_attribute_value(attribute)
            right = right.decode() if isinstance(right, bytes) else right
            if isinstance(right, list) and not right:
                continue
            if isinstance(right, list) and isinstance(right[0], bytes):
                right = [text.decode() for text in right]
            options = [w for w in wrong[attribute.name](right) if w not in ([], right)]
            if options:
                value = site.choice(options)
                attribute.CopyFrom(_attribute(attribute.name, value))
                return f"attribute {attribute.name!r} of {site.at(node)} is {value!r}"
    raise NoPlace


_MAY_IGNORE = ("DequantizeLinear", "QuantizeLinear")
"""Operators whose axis matters only if there are several scales."""


def _has_axis(schema: OpSchema) -> bool:
    named = "axis" in schema.attributes or "axes" in schema.attributes
    return named and schema.name not in _MAY_IGNORE


@kind("Operators: the accepted range of an axis is [-r, r-1]", _has_axis)
def wrong_axis(site: Site) -> str:
    """An axis, or one of several, that the operand does not have."""
    for node, schema in site.known():
        name = next((n for n in ("axis", "axes") if n in schema.attributes), "")
        array = site.array(node.input[0]) if name and node.input else None
        if array is None or not _has_axis(schema):
            continue
        # Where a new axis may come (Unsqueeze's way of counting, Flatten's end), there is room.
        rank = array.ndim + 2
        value: Any = site.choice((rank, -rank - 1, *_BIG))
        for attribute in [a for a in node.attribute if a.name == name]:
            node.attribute.remove(attribute)
        value = [value] if name == "axes" else value
        node.attribute.append(_attribute(name, value))
        return f"{name} of {site.at(node)} is {value}, its operand has rank {array.ndim}"
    raise NoPlace
