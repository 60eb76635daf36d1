"""Faults in the attributes and operands of a node, and in tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, NodeProto, helper, numpy_helper
from onnx.defs import OpSchema

from nnfuzz.vary.faults.graphs import NODES
from nnfuzz.vary.faults.site import NoPlace, Site, kind

VALUES: Mapping[AttributeProto.AttributeType, object] = {
    AttributeProto.FLOAT: 1.5,
    AttributeProto.INT: 1,
    AttributeProto.STRING: "text",
    AttributeProto.FLOATS: [1.5, 2.5],
    AttributeProto.INTS: [1, 1],
    AttributeProto.STRINGS: ["text", "text"],
}
BEYOND = (2**31, -(2**31) - 1, 2**63 - 1, -(2**63))
"""Integers that do not fit into 32 bits."""


def _has_any(schema: OpSchema) -> bool:
    return bool(schema.attributes)


def _attribute(site: Site) -> tuple[NodeProto, OpSchema, AttributeProto]:
    """A node and one of its attributes; the standard defines it, and it is not a sub-graph."""
    for node, schema in site.known():
        plain = [a for a in node.attribute if a.name in schema.attributes and not a.HasField("g")]
        if plain:
            return node, schema, site.choice(plain)
    raise NoPlace


@kind(f"{NODES}: the set of attributes must satisfy the signature of the operator")
def unknown_attribute(site: Site) -> str:
    """A node has an attribute that its operator does not define."""
    for node, schema in site.known():
        names = [n for n in ("frobnicate", "axis", "alpha", "") if n not in schema.attributes]
        name, type_ = site.choice(names), site.choice(sorted(VALUES))
        node.attribute.append(helper.make_attribute(name, VALUES[type_]))
        return f"{site.at(node)} has an attribute {name!r}, which its operator does not have"
    raise NoPlace


@kind(f"{NODES}: the types of attributes must satisfy the signature of the operator", _has_any)
def wrong_attribute_type(site: Site) -> str:
    """An attribute has a value or a declared type that its operator does not admit, or a second
    value of another type."""
    node, _, attribute = _attribute(site)
    type_ = site.choice([t for t in sorted(VALUES) if t != attribute.type])
    other = helper.make_attribute(attribute.name, VALUES[type_])
    what = site.choice(("a value", "a declared type", "a second value"))
    if what == "a value":
        attribute.CopyFrom(other)
    elif what == "a declared type":
        attribute.type = type_
    else:
        other.ClearField("type")
        attribute.MergeFrom(other)
    wrong = AttributeProto.AttributeType.Name(type_)
    return f"attribute {attribute.name!r} of {site.at(node)} has {what} of {wrong}, which is wrong"


_MAY_IGNORE = ("DequantizeLinear", "QuantizeLinear")
"""Operators that may ignore their axis unless there are several scales."""


def _has_axis(schema: OpSchema) -> bool:
    named = "axis" in schema.attributes or "axes" in schema.attributes
    return named and schema.name not in _MAY_IGNORE


@kind("Operators: the accepted range of an axis is [-r, r-1]", _has_axis)
def wrong_axis(site: Site) -> str:
    """An axis is out of range for the operand."""
    for node, schema in site.known():
        name = next((n for n in ("axis", "axes") if n in schema.attributes), "")
        array = site.array(node.input[0]) if name and node.input else None
        if array is None or not _has_axis(schema):
            continue
        # One more axis is valid where a new axis is inserted (Unsqueeze) or where Flatten ends.
        rank = array.ndim + 2
        value: Any = site.choice((rank, -rank - 1, *BEYOND))
        for attribute in [a for a in node.attribute if a.name == name]:
            node.attribute.remove(attribute)
        value = [value] if name == "axes" else value
        node.attribute.append(helper.make_attribute(name, value))
        return f"{name} of {site.at(node)} is {value}, its operand has rank {array.ndim}"
    raise NoPlace


# -- values of attributes --------------------------------------------------------------------------

Excluded = Callable[[Any], Sequence[Any]]
"""Correct value of an attribute -> values that the operator's specification excludes."""


def words(right: str) -> Sequence[str]:
    return ("sometimes", "", right.swapcase())


def not_positive(right: Any) -> Sequence[object]:
    """Wrong values for a number that must be at least 1, or for a list of such numbers."""
    if isinstance(right, int):
        return (0, -1, *BEYOND[1::2])
    wrong = [[*right[:-1], number] for number in (0, -1, -(2**31), -(2**63))]
    return [*wrong, [*right, 1], list(right[:-1])]


def wrong_pads(right: Sequence[object]) -> Sequence[object]:
    """Wrong values for pads, which hold a begin and an end per axis, each at least 0."""
    return [[*right, 0], list(right[:-1]), [-1, *right[1:]], [*right[:-1], -(2**31)]]


def permutation(right: Sequence[int]) -> Sequence[object]:
    wrong = [[*right[:-1], len(right)], [*right, len(right)], [-1, *right[1:]], list(right[:-1])]
    return [*wrong, [right[0]] * len(right)] if len(right) > 1 else wrong


def no_divisor(right: int) -> Sequence[int]:
    return (0, -1, right + 1_000_003)


def data_type(right: object) -> Sequence[object]:
    return (0, -1, 999, 2**31 - 1, 2**40)


ATTRIBUTES: Mapping[str, Excluded] = {
    **dict.fromkeys("auto_pad direction mode padding_mode reduction approximate".split(), words),
    **dict.fromkeys("kernel_shape strides dilations blocksize num_outputs".split(), not_positive),
    **dict.fromkeys(("output_height", "output_width"), not_positive),
    **dict.fromkeys(("group", "num_groups"), no_divisor),
    **dict.fromkeys(("to", "dtype"), data_type),
    "pads": wrong_pads,
    "perm": permutation,
    "hidden_size": lambda right: (0, -1, right + 1),
    "activations": lambda right: (["Frobnicate"] * max(1, len(right)),),
    "layout": lambda right: (2, -1),
    "equation": lambda right: ("", right + "->", right.split("->")[0] + ",z->z"),
}
"""Per attribute: values that the specifications of all operators with this attribute exclude."""


@kind(
    "Operators: the attribute's text lists or bounds its values",
    lambda schema: bool(ATTRIBUTES.keys() & schema.attributes),
)
def attribute_out_of_range(site: Site) -> str:
    """An attribute has a value that the operator's specification excludes: an unknown mode, a
    stride of 0, a perm that is not a permutation."""
    for node, _ in site.known():
        for attribute in site.shuffled([a for a in node.attribute if a.name in ATTRIBUTES]):
            right = helper.get_attribute_value(attribute)
            right = right.decode() if isinstance(right, bytes) else right
            options = [w for w in ATTRIBUTES[attribute.name](right) if w not in ([], right)]
            if right != [] and options:
                value = site.choice(options)
                attribute.CopyFrom(helper.make_attribute(attribute.name, value))
                return f"attribute {attribute.name!r} of {site.at(node)} is {value!r}"
    raise NoPlace


# -- operands --------------------------------------------------------------------------------------

PLAIN = tuple(map(np.dtype, "float32 float64 float16 int32 int64 int8 uint8 bool".split()))
Shape = tuple[int, ...]
Wrong = Callable[[np.ndarray, Sequence[Shape | None]], Sequence[Any]]
"""(correct value of an operand, known shapes of all operands) -> what the operator's specification
excludes: shapes, or values of an operand that controls the computation (an axis, a shape)."""


def _operands(site: Site, node: NodeProto) -> list[tuple[int, np.ndarray]]:
    """Positions and values of operands that are inputs or initializers and have no other reader."""
    values = [(place, name, site.array(name)) for place, name in enumerate(node.input) if name]
    given = [(p, a) for p, name, a in values if a is not None and site.uses(name) == 1]
    return site.shuffled(given)


@kind(f"{NODES}: the types of inputs must satisfy the signature of the operator")
def wrong_operand_dtype(site: Site) -> str:
    """An operand has a dtype that the operator does not take, or not with its other operands."""
    for node, schema in site.known():
        formals = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(node.input))]
        for place, array in _operands(site, node):
            formal = formals[place]
            allowed = {t for c in schema.type_constraints if c.type_param_str == formal.type_str
                       for t in c.allowed_type_strs} or {formal.type_str}  # fmt: skip
            others = [i for i, other in enumerate(formals) if other.type_str == formal.type_str]
            others = [i for i in others if i != place and site.array(node.input[i]) is not None]
            bound = others and formal.is_homogeneous and formal.type_str not in allowed
            wrong = [d for d in PLAIN if bound or f"tensor({_word(d)})" not in allowed]
            wrong = [dtype for dtype in wrong if dtype != array.dtype]
            if wrong:
                dtype = site.choice(wrong)
                site.put(node.input[place], np.ones(array.shape, dtype))
                return f"input {place} of {site.at(node)} is {dtype} in place of {array.dtype}"
    raise NoPlace


def _word(dtype: np.dtype) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)


Rows = Sequence[tuple[str, int, Wrong]]
"""(operators, position of an operand, what the specification excludes) of several operators."""


def _in(rows: Rows) -> Callable[[OpSchema], bool]:
    return lambda schema: any(schema.name in operators.split() for operators, _, _ in rows)


def _chosen(site: Site, rows: Rows) -> tuple[NodeProto, int, np.ndarray, Any]:
    """A node, the position of an operand, its correct value and a wrong one. Raises: NoPlace."""
    for node, _ in site.known():
        every = [a.shape if (a := site.array(name)) is not None else None for name in node.input]
        for place, right in _operands(site, node):
            own = (w for names, p, w in rows if p == place and node.op_type in names.split())
            if options := [option for wrong in own for option in wrong(right, every)]:
                return node, place, right, site.choice(options)
    raise NoPlace


def ranks(*excluded: int) -> Wrong:
    """Wrong shapes with the given ranks and few elements."""
    return lambda right, every: [(2,) * rank for rank in excluded if rank != right.ndim]


def grown(axis: int) -> Wrong:
    """A wrong size along an axis: one element more (a single one would be broadcast)."""

    def wrong(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Shape]:
        if not -right.ndim <= axis < right.ndim or right.shape[axis] < 2:
            return []
        return [tuple(n + (i == axis % right.ndim) for i, n in enumerate(right.shape))]

    return wrong


def unbroadcast(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Shape]:
    """A wrong size of the last axis: neither 1 nor that of the second operand."""
    own, other = right.shape, every[1] if len(every) > 1 else None
    return [(*own[:-1], other[-1] + 1)] if own and other and other[-1] > 1 else []


SHAPES: Rows = (
    ("MatMul MatMulInteger", 0, grown(-1)),
    ("MatMul Gemm Conv ConvTranspose ConvInteger", 1, ranks(0)),
    ("Conv", 1, grown(1)),
    ("Conv ConvTranspose InstanceNormalization GroupNormalization", 2, grown(0)),
    ("Gemm RoiAlign DepthToSpace SpaceToDepth", 0, ranks(1, 3)),
    ("MaxPool AveragePool GlobalMaxPool Conv ConvInteger Det Trilu", 0, ranks(1)),
    ("RNN LSTM GRU NonMaxSuppression", 0, ranks(2, 5)),
    ("BatchNormalization LayerNormalization GroupNormalization", 1, grown(0)),
    ("RNN LSTM GRU", 1, grown(-1)),
    ("Reshape Expand Tile Compress GridSample", 1, ranks(2)),
    ("Add Sub Mul Div Pow Where Max Min Equal Less", 0, unbroadcast),
)


@kind("Operators: the texts of the inputs say how ranks and sizes agree", _in(SHAPES))
def wrong_operand_shape(site: Site) -> str:
    """An operand has a wrong rank, or a size that does not fit the other operands."""
    node, place, right, shape = _chosen(site, SHAPES)
    site.put(node.input[place], np.ones(shape, right.dtype))
    change = f"{list(shape)} in place of {list(right.shape)}"
    return f"the shape of input {place} of {site.at(node)} is {change}"


def _axes(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Any]:
    if every[0] is None:
        return []
    rank = len(every[0]) + right.size + 1
    outside = [rank, -rank - 1, -(2**63)]
    return [[*right.ravel()[:-1].tolist(), axis] for axis in outside] if right.ndim else outside


def _reshape(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Any]:
    sizes = right.ravel().tolist()
    return [[-1, -1], [-2, *sizes], [*sizes, 7_919], [-(2**63)], [2**40, 2**40]]


def _indices(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[int]:
    """Wrong indices: out of bounds along every axis."""
    return [2**31 - 1, -(2**31)] if right.size else []


def _counts(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Any]:
    """Wrong values where one non-negative number per axis is required."""
    return [[-1] * right.size, [1] * (right.size + 1)]


_REDUCED = " ".join(f"Reduce{n}" for n in "Sum Mean Max Min Prod L1 L2 LogSumExp".split())
NUMBERS: Rows = (
    ("Gather GatherElements GatherND ScatterElements ScatterND", 1, _indices),
    (f"Squeeze Unsqueeze CumSum {_REDUCED}", 1, _axes),
    ("Tile CenterCropPad AffineGrid Col2Im", 1, _counts),
    ("Reshape", 1, _reshape),
    ("Expand", 1, lambda right, every: [[*([1] * 3), -1], [-(2**63)]]),
    ("ConstantOfShape", 0, lambda right, every: [[-1], [-(2**63)], [2, -3]]),
    ("Slice", 3, _axes),
    ("Slice", 4, lambda right, every: [[0] * right.size]),
    ("Split", 1, lambda r, every: [[*r[:-1].tolist(), int(r[-1]) + 1], [-1] * r.size]),
    ("Pad", 1, lambda right, every: [[*right.tolist(), 1], right.tolist()[:-1]]),
    ("TopK", 1, lambda right, every: [[-1], [2**31], [2**63 - 1]]),
    ("OneHot", 1, lambda right, every: [-1, -(2**31)]),
    ("Resize", 3, _counts),
)


@kind("Operators: the text of the input says which values it may have", _in(NUMBERS))
def wrong_argument(site: Site) -> str:
    """A constant input has a value that the operator's specification excludes: two inferred sizes,
    a step of 0, an axis or index out of range."""
    node, place, right, value = _chosen(site, NUMBERS)
    limits = np.iinfo(right.dtype) if right.dtype.kind in "iu" else np.finfo(right.dtype)
    fits = all(limits.min <= number <= limits.max for number in np.ravel(value).tolist())
    if not fits or not site.fix(node.input[place]):
        raise NoPlace
    array = np.array(value, right.dtype)
    if not array.ndim and right.ndim:
        array = np.full(right.shape, value, right.dtype)
    site.put(node.input[place], array)
    return f"input {place} of {site.at(node)} is {value}"


SIZE = "ONNX IR, Tensor Definition: a tensor has as many values as the product of its dimensions"


@kind(SIZE)
def wrong_tensor_size(site: Site) -> str:
    """An initializer or a Constant has fewer or more bytes than its shape requires."""
    tensor = site.some_weight()
    name, right = tensor.name, tensor.raw_data
    if site.rng.random() < 0.5:
        site.graph.node.insert(0, helper.make_node("Constant", [], [name], value=tensor))
        site.graph.initializer.remove(tensor)
        site.at(site.nodes[0])
        site.keep_valid()
        tensor = site.nodes[0].attribute[0].t
    wrong = (right[:-1], right[: len(right) // 2], b"", right + b"\0", right * 2)
    tensor.raw_data = site.choice([data for data in wrong if data != right])
    bytes_ = f"{len(tensor.raw_data)} of {len(right)} bytes"
    return f"{site.operator or 'initializer'} {name!r}{list(tensor.dims)} has {bytes_}"


@kind("onnx.proto, SparseTensorProto.indices: within the shape, ascending, without duplicates")
def broken_sparse_tensor(site: Site) -> str:
    """A sparse initializer has indices outside its shape, duplicate or descending indices."""
    tensor = site.some_weight(lambda a: a.size > 1 and a.dtype == np.float32)
    name, count = tensor.name, math.prod(tensor.dims)
    indices = site.choice(([0, count], [-1, 0], [0, 2**40], [1, 1], [1, 0]))
    site.graph.initializer.remove(tensor)
    sparse = site.graph.sparse_initializer.add(dims=tensor.dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), name))
    for chosen in ([0, count - 1], indices):  # the first indices are right
        sparse.indices.CopyFrom(numpy_helper.from_array(np.array(chosen, np.int64), f"{name}_i"))
        if chosen is not indices:
            site.keep_valid()
    return f"sparse initializer {name!r} of {count} elements has the indices {indices}"
