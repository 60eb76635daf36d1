"""Rules that store, compute or declare constants in other ways, or change names and files."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from nnfuzz.base.external_data import LOCATIONS
from nnfuzz.base.packed_values import PackedValue, PackingKind
from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import bodies
from nnfuzz.vary.rewrite.draft import Draft, Kind, Nodes, models
from nnfuzz.vary.rewrite.operators import ints

FAMILY = "data"
_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
_PLAIN = (*_REALS, DType.INT32, DType.INT64, DType.BOOL)
MOST_ELEMENTS = 1 << 14


def _held(draft: Draft, name: str) -> np.ndarray:
    return numpy_helper.to_array(draft.constants[name])


def _constants(draft: Draft, *dtypes: DType) -> list[str]:
    """Non-empty constants of these dtypes that nodes read and that are no outputs."""
    return [
        name
        for name in draft.constants
        if name in draft.types
        and name in draft.readers
        and name not in draft.outputs
        and draft.types[name].dtype in dtypes
        and 0 < draft.types[name].elements <= MOST_ELEMENTS
    ]


def _floats(draft: Draft) -> list[str]:
    return _constants(draft, *_REALS)


@models(FAMILY, lambda draft: _constants(draft, *_PLAIN), uses=["Constant"], kind=Kind.SPELLING)
def constant_node(draft: Draft, site: str, rng: random.Random) -> None:
    """An initializer -> the output of a Constant node with the same tensor, or with the same number
    or list as an attribute."""
    array, emit = _held(draft, site), draft.emitter()
    attribute: dict[str, object] = {"value": array}
    if rng.random() < 0.5 and array.size and array.ndim < 2:
        plural = "s" if array.ndim else ""
        if array.dtype == np.int64:
            attribute = {f"value_int{plural}": array.tolist()}
        elif array.dtype == np.float32:
            attribute = {f"value_float{plural}": array.tolist()}
    draft.replace_constant(site, emit, emit.one("Constant", **attribute))


def _uniform(draft: Draft) -> list[str]:
    return [name for name in _constants(draft, *_PLAIN) if _alike(_held(draft, name))]


def _alike(array: np.ndarray) -> bool:
    """Whether all elements have the same bits."""
    return array.tobytes() == array.tobytes()[: array.itemsize] * array.size


@models(FAMILY, _uniform, uses=["ConstantOfShape"])
def constant_of_shape(draft: Draft, site: str, rng: random.Random) -> None:
    """An initializer whose elements have the same bits -> ConstantOfShape of that element."""
    array, emit = _held(draft, site), draft.emitter()
    made = emit.one("ConstantOfShape", ints(emit, *array.shape), value=array.reshape(-1)[:1])
    draft.replace_constant(site, emit, made)


@models(FAMILY, _floats, kind=Kind.FORM)
def overridable_input(draft: Draft, site: str, rng: random.Random) -> None:
    """An initializer -> an initializer that is also declared as an input, which no caller
    overrides: the default of an input is its value."""
    draft.graph.input.append(protos.value_info(site, draft.types[site]))


_SCALES = (1.0, 0.5, 0.25, 0.125, 0.0625, 2.0, 4.0, 2.0**-10, 2.0**-23)
_EXACT = 1 << 24  # integers up to here are exact in float32


def _scale(array: np.ndarray) -> float:
    """A power of two of which all numbers are small multiples; 0 if there is none."""
    if not np.isfinite(array).all() or np.signbit(array[array == 0]).any():
        return 0.0
    for scale in _SCALES:
        whole = array.astype(np.float64) / scale
        if (whole == np.round(whole)).all() and np.abs(whole).max(initial=0) <= _EXACT:
            return scale
    return 0.0


def _quantizable(draft: Draft) -> list[str]:
    return [n for n in _constants(draft, DType.FLOAT32) if _scale(_held(draft, n))]


@models(FAMILY, _quantizable, uses=["DequantizeLinear"])
def constant_dequantized(draft: Draft, site: str, rng: random.Random) -> None:
    """A float32 constant of small multiples of a power of two -> DequantizeLinear of these
    integers: the product with the scale is exact."""
    array, emit = _held(draft, site), draft.emitter()
    scale = _scale(array)
    whole = np.round(array.astype(np.float64) / scale).astype(np.int64)
    narrow = np.abs(whole).max(initial=0) <= 60
    dtype = rng.choice([DType.INT8, DType.UINT8, DType.INT32]) if narrow else DType.INT32
    zero = {DType.UINT8: rng.randint(60, 120), DType.INT8: rng.randint(-5, 5)}.get(dtype, 0)
    point = [emit.const(zero, dtype)] if zero or rng.random() < 0.5 else []
    held = emit.const(whole + zero, dtype)
    made = emit.one("DequantizeLinear", held, emit.const(scale, DType.FLOAT32), *point)
    draft.replace_constant(site, emit, made)


_FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    **dict.fromkeys((TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8), "int32_data"),
    **dict.fromkeys((TensorProto.BOOL, TensorProto.FLOAT16), "int32_data"),
}


def _raw(draft: Draft) -> list[str]:
    held = draft.constants.items()
    return [n for n, t in held if t.raw_data and n in draft.types and t.data_type in _FIELDS]


@models(FAMILY, _raw, kind=Kind.FORM)
def typed_data(draft: Draft, site: str, rng: random.Random) -> None:
    """A constant's bytes -> the same numbers in the protobuf field of their type: the format
    defines both encodings."""
    tensor = draft.constants[site]
    array = numpy_helper.to_array(tensor).reshape(-1)
    tensor.ClearField("raw_data")
    bits = {"float16": np.uint16, "bool": np.uint8}.get(array.dtype.name)
    numbers = array if bits is None else array.view(bits)
    getattr(tensor, _FIELDS[tensor.data_type]).extend(numbers.tolist())


MOST_NUMBERS, GREATEST = 8, 1 << 31
"""Elements of an operand that is computed, and a bound of its integers."""
Size = tuple[str, int, int]
"""A value, one of its axes, and its size there."""


def _sizes(draft: Draft, before: int) -> list[Size]:
    """The sizes of the values that are computed before a node."""
    there = [name for name in (*draft.inputs, *draft.makers) if draft.makers.get(name, -1) < before]
    known = ((name, draft.types[name].sizes) for name in there if name in draft.types)
    return [(name, axis, size) for name, sizes in known for axis, size in enumerate(sizes)]


def _small_operands(draft: Draft) -> list[tuple[int, int]]:
    """Node and position of each constant operand of a few numbers."""
    names = set(_constants(draft, DType.INT64, DType.INT32, DType.FLOAT32))
    small = {n for n in names if draft.rank(n) < 2 and draft.types[n].elements <= MOST_NUMBERS}
    return [
        (i, position)
        for i, node in enumerate(draft.graph.node)
        if node.domain in ("", "ai.onnx")
        for position, name in enumerate(node.input)
        if name in small and (draft.dtype(name) is DType.FLOAT32 or _sizes(draft, i))
    ]


@models(
    FAMILY,
    _small_operands,
    uses=["Shape", "Gather", "Concat", "Cast", "Add", "Reshape"],
    kind=Kind.SPELLING,
)
def computed_operand(draft: Draft, site: tuple[int, int], rng: random.Random) -> None:
    """A constant operand of a few numbers -> the same numbers, which nodes compute: integers as
    sizes of values that Shape and Gather read, or as sums of such a size and a constant; floats by
    a Cast of the same numbers in float64."""
    i, position = site
    name = draft.graph.node[i].input[position]
    array, dtype, emit = _held(draft, name), draft.types[name].dtype, draft.emitter()
    if dtype is DType.FLOAT32:
        made = emit.one("Cast", emit.const(array.astype(np.float64), DType.FLOAT64), to=dtype.onnx)
    else:
        sizes = _sizes(draft, i)
        parts = [_number(emit, number, sizes, rng) for number in array.reshape(-1).tolist()]
        made = emit.one("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
        if not array.ndim:
            made = emit.one("Reshape", made, emit.const(np.zeros(0, np.int64), DType.INT64))
        if dtype is not DType.INT64:
            made = emit.one("Cast", made, to=dtype.onnx)
    draft.graph.node[i].input[position] = made
    draft.drop_unread()
    draft.put(i, emit)


GIVEN = "operand inputs"
_GIVEN_DTYPES = (DType.INT64, DType.INT32, DType.BOOL, DType.FLOAT32)


def _operands(draft: Draft) -> list[str]:
    """Constants of a few finite numbers that some node reads behind its first operand."""
    behind = {name for node in draft.graph.node for name in node.input[1:]}
    small = (n for n in _constants(draft, *_GIVEN_DTYPES) if n in behind and draft.rank(n) < 2)
    few = (name for name in small if draft.types[name].elements <= MOST_NUMBERS)
    return [name for name in few if np.isfinite(_held(draft, name)).all()]


@models(GIVEN, _operands, kind=Kind.ENDS)
def operand_as_input(draft: Draft, site: str, rng: random.Random) -> None:
    """A constant of a few numbers, such as axes, a shape or a bound -> an input of the model that
    is given these numbers. The types of inner values may be left undeclared."""
    array, type_ = _held(draft, site), draft.types[site]
    del draft.graph.initializer[[t.name for t in draft.graph.initializer].index(site)]
    given = PackedValue(PackingKind.NUMBERS, array.dtype.name, {}, numbers=array.tolist())
    draft.graph.input.append(protos.value_info(site, type_))
    draft.graph.input[-1].doc_string = given.doc_string
    if rng.random() < 0.5:
        del draft.graph.value_info[:]


def _number(emit: Nodes, number: int, sizes: list[Size], rng: random.Random) -> str:
    """The name of a one-element tensor that holds a number."""
    equal = [place for place in sizes if place[2] == number]
    if not -GREATEST < number < GREATEST:
        return ints(emit, number)
    value, axis, size = rng.choice(equal or sizes)
    read = _size(emit, value, axis, rng)
    return read if equal else emit.one("Add", read, ints(emit, number - size))


def _size(emit: Nodes, name: str, axis: int, rng: random.Random) -> str:
    """The name of a one-element tensor that holds a value's size along an axis."""
    whole = emit.one("Shape", name)
    if rng.random() < 0.5:
        return emit.one("Gather", whole, ints(emit, axis), axis=0)
    one = emit.one("Gather", whole, emit.const(axis, DType.INT64), axis=0)
    return emit.one("Unsqueeze", one, ints(emit, 0))


STRUCTURE, EXTERNAL_FAMILY = "structure", "external data"


_WORDS = (
    "if else for while return class def lambda import None int float double void char const static "
    "template namespace operator this new auto and not null input data shape value x n self list "
    "Relu Add Conv Constant Shape Identity If Loop MatMul"
).split()
_STYLES: tuple[Callable[[int], str], ...] = (
    lambda i: f"{'very_' * 60}{i}",
    lambda i: f"/model/layers.{i}/act/Relu_output_0",
    lambda i: "".join(c.upper() if i >> n & 1 else c for n, c in enumerate("a" * 20)),
    lambda i: _WORDS[i] if i < len(_WORDS) else f"{_WORDS[i % len(_WORDS)]}{i}",
    str,
)
"""Styles of names: long ones, paths as exporters write them, names that differ only in case,
reserved words and operators, numbers."""


def _inner(draft: Draft) -> list[str]:
    """Names of constants and values that are neither inputs nor outputs."""
    public = {value.name for value in (*draft.graph.input, *draft.graph.output)}
    names = dict.fromkeys([*(tensor.name for tensor in draft.graph.initializer), *draft.makers])
    return [name for name in names if name not in public]


@models(STRUCTURE, lambda draft: [0] if _inner(draft) else [], kind=Kind.FORM)
def values_renamed(draft: Draft, site: int, rng: random.Random) -> None:
    """Names of inner values, constants and nodes -> long names, numbers, names that differ only in
    case, operator names, reserved words, paths; no name for some nodes: values keep distinct names,
    and a name has no meaning. Inputs and outputs keep their names."""
    graph, style = draft.graph, rng.choice(_STYLES)
    styled = (name for i in range(1 << 20) if (name := style(i)) not in draft.taken)
    chosen = dict(zip(_inner(draft), styled))
    missing = rng.random() < 0.4
    for node in graph.node:
        _rename(node, chosen)
        node.name = "" if missing else next(filter(None, node.output))
    for tensor in graph.initializer:
        tensor.name = chosen.get(tensor.name, tensor.name)


def _rename(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Rename values wherever they are read or computed, except in function bodies."""
    for used in (node.input, node.output):
        for i, name in enumerate(used):
            used[i] = names.get(name, name)
    for body in bodies(node):
        for inner in body.node:
            _rename(inner, names)
        for value in body.output:
            value.name = names.get(value.name, value.name)


_ALIGNMENTS = (1, 1, 4, 64, 4096)


def _movable(draft: Draft) -> list[TensorProto]:
    """Initializers stored as plain bytes, which can be moved to a file."""
    return [tensor for tensor in draft.graph.initializer if tensor.raw_data]


def _plain(tensors: list[TensorProto]) -> list[TensorProto]:
    return [tensor for tensor in tensors if tensor.data_type != TensorProto.INT64]


@models(EXTERNAL_FAMILY, lambda draft: [0] if _plain(_movable(draft)) else [], kind=Kind.ENDS)
def external_data(draft: Draft, site: int, rng: random.Random) -> None:
    """Initializers -> the same bytes in one or several external files, at aligned or unaligned
    offsets: the model states file, offset and length of each."""
    tensors = _movable(draft)
    if rng.random() < 0.7:  # as exporters do: not the constants that describe shapes
        tensors = _plain(tensors)
    if rng.random() < 0.3:
        tensors = rng.sample(tensors, rng.randint(1, len(tensors)))
    rng.shuffle(tensors)
    location, count = rng.choice(LOCATIONS), rng.choice((1, 1, 2, 1 + len(tensors)))
    alignment, shift = rng.choice(_ALIGNMENTS), rng.choice((0, 0, 1, 3))
    ends = [0] * count
    for tensor in tensors:
        number = rng.randrange(count)
        start = -(-ends[number] // alignment) * alignment + (shift if ends[number] else 0)
        ends[number] = start + len(tensor.raw_data)
        entries = {"location": f"{location}{number or ''}", "offset": start}
        entries["length"] = len(tensor.raw_data)
        if not start and rng.random() < 0.5:
            del entries["offset"]  # which is 0 by default
        del tensor.external_data[:]
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))


RULES = (
    values_renamed,
    external_data,
    constant_node,
    constant_of_shape,
    overridable_input,
    constant_dequantized,
    typed_data,
    computed_operand,
    operand_as_input,
)
