"""Chooses numbers that a model leaves open: dimensions, and small inputs that determine shapes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.facts import (
    Arrays,
    Facts,
    Types,
    drawn,
    expressed,
    is_complete,
    kinds,
    outputs_of,
)
from nnfuzz.materialize.protos import schema_of

UNKNOWN_SIZE = 2
"""Size of the first open dimension, unless nodes fail with it; others are larger by one each."""
COMMON = (1, 3, 4, 8, 16, 32, 64, 224)
"""Sizes tried next, one for all dimensions."""
FEW, LARGEST, LITERALS = 16, 256, 8
"""Most elements of a constant that is searched for sizes; the largest number that counts as a size;
the most sizes found."""


def assignments(graph: onnx.GraphProto) -> Iterator[Mapping[str, int]]:
    """Sizes by name of the inputs' open dimensions to try, likely ones first; one empty mapping if
    none is open.

    Different names, such as those of a batch and a sequence, get different sizes first; unnamed
    dimensions of the same axis the same one. Then all get one size, such as a number in the graph.
    """
    names = dict.fromkeys(name for info in graph.input for name, _ in open_dimensions(info))
    yield {name: UNKNOWN_SIZE + i for i, own in enumerate(_by_kind(names)) for name in own}
    sizes = dict.fromkeys([UNKNOWN_SIZE, *_literals(graph), *COMMON]) if names else ()
    yield from (dict.fromkeys(names, size) for size in sizes)


def separated(sizes: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """If all dimensions have one size: for each kind of them another one, which it may have."""
    kinds = _by_kind(sizes)
    for i, own in enumerate(kinds if len({*sizes.values()}) < len(kinds) else ()):
        yield dict.fromkeys(own, UNKNOWN_SIZE + i)


def _by_kind(names: Iterable[str]) -> list[list[str]]:
    """Names of dimensions that should have one size: one name, or unnamed ones of one axis."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rpartition("[")[2] if name.endswith("]") else name, []).append(name)
    return list(found.values())


def _literals(graph: onnx.GraphProto) -> list[int]:
    """Integers in small constants of a graph that may be sizes, the most frequent first."""
    inside = [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    constants = [*graph.initializer, *inside]
    small = [t for t in constants if t.data_type == onnx.TensorProto.INT64 and sum(t.dims) <= FEW]
    found = Counter(int(v) for t in small for v in numpy_helper.to_array(t).flat)
    return [size for size, _ in found.most_common() if UNKNOWN_SIZE < size <= LARGEST][:LITERALS]


def set_sizes(graph: onnx.GraphProto, sizes: Mapping[str, int]) -> None:
    """Sets dimensions of these names in all declarations; negative ones are open."""
    for info in (*graph.input, *graph.value_info, *graph.output):
        dims = info.type.tensor_type.shape.dim
        for name, axis in open_dimensions(info):
            if name in sizes:
                dims[axis].dim_value = sizes[name]
            elif dims[axis].dim_value < 0:
                dims[axis].Clear()


def open_dimensions(info: onnx.ValueInfoProto) -> Iterator[tuple[str, int]]:
    """(name, axis) of each open dimension; unnamed ones get a name such as "x[0]"."""
    for axis, dim in enumerate(info.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            yield dim.dim_param or f"{info.name}[{axis}]", axis


DECISIVE = frozenset(
    "K axes axis block_shape delta depth dft_length ends frame_length frame_step image_shape limit "
    "num_mel_bins output_shape pads repeats roi scales shape size sizes split start starts "
    "steps".split()
)
"""Names, in the ONNX schemas, of inputs that determine shapes and are hardly ever data."""
MOST = 16
"""Most elements of an input that may determine shapes."""
ATTEMPTS = 64


def pinned(
    facts: Facts, node: onnx.NodeProto, needed: Iterable[str], declared: Types
) -> dict[str, onnx.TypeProto]:
    """Make model inputs that determine a node's shapes constant, and return its outputs' types.

    The values are the given ones, or the first under which the node runs and has its declared
    shapes, or just runs. Returns {} if there are no such inputs or no suitable values.
    """
    types = _decisive(facts, node, needed)
    known = take_given(facts, types)
    types = {name: type_ for name, type_ in types.items() if name not in known}
    wanted = {n: t for n in node.output if (t := expressed(declared.get(n))) is not None}
    others = [expressed(facts.types[n]) for n in needed if n not in types]
    shapes = [t.sizes for t in (*wanted.values(), *others) if t is not None]
    shapes += list(zip(*(t.sizes for t in wanted.values()))) if len(wanted) > 1 else []
    for goal in dict.fromkeys((bool(wanted), False)) if types else ():
        for values in candidates(types, shapes):
            outputs = _types_under(facts, node, needed, values)
            if outputs and not (goal and _differ(outputs, wanted)):
                facts.constants.update(values)
                facts.free.difference_update(values)
                return outputs
    return {}


def take_given(facts: Facts, names: Iterable[str]) -> set[str]:
    """Make those `names` constant that are model inputs with a given value; returns their names."""
    values = {n: facts.given[n] for n in names if n in facts.given and n in facts.free}
    facts.constants.update(values)
    facts.free.difference_update(values)
    return {*values}


def _decisive(facts: Facts, node: onnx.NodeProto, needed: Iterable[str]) -> dict[str, TensorType]:
    """Small inputs of the model that the node's output shapes depend on, with their types."""
    formal = schema_of(node, facts.opset).inputs
    named = {n: formal[min(i, len(formal) - 1)].name for i, n in enumerate(node.input) if n}
    types = {n: expressed(facts.types[n]) for n in named if n in facts.free}
    small = {n: t for n, t in types.items() if t is not None and decides(t)}
    chosen = {n: t for n, t in small.items() if named[n] in DECISIVE}
    if chosen or not small or all(map(is_complete, outputs_of(facts, node, needed).values())):
        return chosen
    return {n: t for n, t in small.items() if not t.dtype.is_float}


def _types_under(
    facts: Facts, node: onnx.NodeProto, needed: Iterable[str], values: Arrays
) -> dict[str, onnx.TypeProto]:
    """The types of the node's outputs for these input values; {} if it fails or yields other types.

    The elements of a sequence are not checked.
    """
    try:
        outputs = outputs_of(facts, node, needed, values)
        results = drawn(facts, node, needed, values, 1)
        tensors = {n: outputs.get(n) for n in results if not _is_sequence(outputs.get(n))}
        found = kinds({n: results[n] for n in tensors})
    except Exception:
        return {}
    inferred = {n: expressed(type_) for n, type_ in tensors.items()}
    made = {n: TensorType(*kind) for n, kind in found.items()}
    sound = all(t is not None and t.same(made[n]) for n, t in inferred.items())
    return outputs if sound else {}


def _is_sequence(type_: onnx.TypeProto | None) -> bool:
    return type_ is not None and type_.HasField("sequence_type")


def _differ(outputs: Types, wanted: Mapping[str, TensorType]) -> bool:
    return not all(t.same(expressed(outputs[n]) or t.with_shape(())) for n, t in wanted.items())


def decides(type_: TensorType | None) -> bool:
    """Whether an input is small enough to determine shapes: rank 0 or 1, at most MOST numbers."""
    if type_ is None or type_.rank > 1 or type_.dtype.is_bool:
        return False
    return math.prod(type_.sizes) <= MOST


def candidates(
    types: Mapping[str, TensorType], shapes: Sequence[tuple[int, ...]]
) -> Iterator[dict[str, np.ndarray]]:
    """Input values to try. shapes: shapes that an input may hold literally, likely ones first."""
    dice = np.random.default_rng(0)
    options = {name: list(_simple(type_, shapes)) for name, type_ in types.items()}
    for i in range(max(map(len, options.values()))):
        yield {name: known[min(i, len(known) - 1)] for name, known in options.items()}
    for _ in range(ATTEMPTS):
        yield {
            name: known[dice.integers(len(known))]
            if dice.integers(2)
            else _drawn(types[name], dice)
            for name, known in options.items()
        }


def _simple(type_: TensorType, shapes: Sequence[tuple[int, ...]]) -> Iterator[np.ndarray]:
    dtype, shape = type_.dtype.numpy, type_.sizes
    for meant in shapes:
        if shape == (len(meant),):
            yield np.asarray(meant, dtype)
    count = math.prod(shape)
    upwards = np.arange(count).reshape(shape)
    yield upwards.astype(dtype)
    yield from (np.full(shape, number, dtype) for number in (1, 2, 0))
    yield (upwards - count).astype(dtype)
    for size in dict.fromkeys(size for meant in shapes for size in meant):
        # Parts of an axis, as equal as they can be; a single one is the size itself.
        yield np.asarray([(size + i) // count for i in range(count)], dtype).reshape(shape)


def _drawn(type_: TensorType, dice: np.random.Generator) -> np.ndarray:
    drawn = dice.integers(-2, 8, type_.sizes)
    scale = dice.choice((0.5, 1.0)) if type_.dtype.is_float else 1
    return np.asarray(drawn * scale).astype(type_.dtype.numpy)
