"""Faults in operands: dtypes, ranks, shapes and values that an operator does not accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import NodeProto
from onnx.defs import OpSchema

from nnfuzz.invalid.kinds import kind
from nnfuzz.invalid.names import NODES
from nnfuzz.invalid.site import NoPlace, Site

PLAIN = tuple(map(np.dtype, "float32 float64 float16 int32 int64 int8 uint8 bool".split()))
Shape = tuple[int, ...]


def _given(site: Site, node: NodeProto) -> list[int]:
    """Positions of operands that are inputs or initializers of the model without other readers."""
    return [
        place
        for place, name in enumerate(node.input)
        if name and site.array(name) is not None and site.uses(name) == 1
    ]


@kind(f"{NODES}: the types of inputs must satisfy the signature of the operator")
def wrong_operand_dtype(site: Site) -> str:
    """An operand of a dtype that the operator does not take, or does not take beside the others."""
    for node, schema in site.known():
        for place in site.shuffled(_given(site, node)):
            name = node.input[place]
            array = site.array(name)
            assert array is not None
            options = _refused(site, node, schema, place, array.dtype)
            if options:
                dtype = site.choice(options)
                site.put(name, np.ones(array.shape, dtype))
                return f"input {place} of {site.at(node)} is {dtype} in place of {array.dtype}"
    raise NoPlace


def _refused(
    site: Site, node: NodeProto, schema: OpSchema, place: int, own: np.dtype
) -> list[np.dtype]:
    """Dtypes that the signature forbids at a position."""
    formal = schema.inputs[min(place, len(schema.inputs) - 1)]
    allowed = {t for c in schema.type_constraints if c.type_param_str == formal.type_str
               for t in c.allowed_type_strs} or {formal.type_str}  # fmt: skip
    refused = [d for d in PLAIN if d != own and f"tensor({_word(d)})" not in allowed]
    homogeneous = len(schema.inputs) > place or schema.inputs[-1].is_homogeneous
    others = [
        i for i in range(len(node.input))
        if i != place and node.input[i]
        and schema.inputs[min(i, len(schema.inputs) - 1)].type_str == formal.type_str
    ]  # fmt: skip
    bound = any(site.array(node.input[i]) is not None for i in others)
    if (
        bound
        and homogeneous
        and formal.type_str in {c.type_param_str for c in schema.type_constraints}
    ):
        return [d for d in PLAIN if d != own]
    return refused


def _word(dtype: np.dtype) -> str:
    return {"float32": "float", "float64": "double"}.get(dtype.name, dtype.name)


# -- ranks and shapes ------------------------------------------------------------------------------

Wrong = Callable[[Shape, Sequence[Shape | None]], Sequence[Shape]]
"""(shape of the operand, known shapes of all operands) -> shapes that the operator's specification
excludes."""


def shapes_of_ranks(*excluded: int) -> Wrong:
    """Shapes of these ranks with few elements."""
    return lambda own, every: [(2,) * rank for rank in excluded if rank != len(own)]


def other_rank(own: Shape, every: Sequence[Shape | None]) -> Sequence[Shape]:
    return [(*own, 2), *([own[1:]] if len(own) > 1 else [])]


def longer(own: Shape, every: Sequence[Shape | None]) -> Sequence[Shape]:
    """One element more along the only axis; a single element might be broadcast."""
    return [(own[0] + 1,)] if len(own) == 1 and own[0] > 1 else []


def inner(axis: int) -> Wrong:
    """One element more along the axis of the sum."""

    def wrong(own: Shape, every: Sequence[Shape | None]) -> Sequence[Shape]:
        if len(own) < 2:
            return []
        size = list(own)
        size[axis] += 1
        return [tuple(size)]

    return wrong


def not_square(own: Shape, every: Sequence[Shape | None]) -> Sequence[Shape]:
    return [(*own[:-1], own[-1] + 1)] if len(own) > 1 else []


def unbroadcast(own: Shape, every: Sequence[Shape | None]) -> Sequence[Shape]:
    """A last axis that is neither 1 nor equal to that of another operand."""
    sizes = [shape[-1] for shape in every if shape and shape != own and shape[-1] > 1]
    sizes += [own[-1]] if own and own[-1] > 1 and list(every).count(own) > 1 else []
    return [(*own[:-1], sizes[0] + 1)] if sizes else []


_BROADCAST: Mapping[int, Wrong] = {0: unbroadcast, 1: unbroadcast}
_SPATIAL: Mapping[int, Wrong] = {0: shapes_of_ranks(1)}
_SEQUENCES: Mapping[int, Wrong] = {
    0: shapes_of_ranks(2, 4),
    1: shapes_of_ranks(2),
    2: shapes_of_ranks(2),
}
_GATES: Mapping[int, Wrong] = {1: inner(-1), 2: inner(-1), 3: inner(-1)}
RANKS: Mapping[str, Mapping[int, Wrong]] = {
    "MatMul": {0: shapes_of_ranks(0), 1: shapes_of_ranks(0)},
    "Gemm": {0: shapes_of_ranks(1, 3), 1: shapes_of_ranks(1, 3)},
    "Conv": {0: shapes_of_ranks(1), 1: shapes_of_ranks(1)},
    "ConvTranspose": {0: shapes_of_ranks(1), 1: shapes_of_ranks(1)},
    "ConvInteger": {0: shapes_of_ranks(1), 1: shapes_of_ranks(1)},
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _SPATIAL),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), _SPATIAL),
    "BatchNormalization": {1: shapes_of_ranks(2), 2: shapes_of_ranks(2), 3: shapes_of_ranks(2)},
    "InstanceNormalization": {1: shapes_of_ranks(2), 2: shapes_of_ranks(2)},
    **dict.fromkeys(("RNN", "LSTM", "GRU"), _SEQUENCES),
    "DepthToSpace": {0: shapes_of_ranks(3, 5)},
    "SpaceToDepth": {0: shapes_of_ranks(3, 5)},
    "Det": {0: shapes_of_ranks(1)},
    "Trilu": {0: shapes_of_ranks(1)},
    "EyeLike": {0: shapes_of_ranks(1, 3)},
    "GatherElements": {1: other_rank},
    "ScatterElements": {1: other_rank, 2: other_rank},
    "Concat": {0: other_rank, 1: other_rank},
    "Compress": {1: shapes_of_ranks(2)},
    "Tile": {1: shapes_of_ranks(2)},
    "Reshape": {1: shapes_of_ranks(2)},
    "Expand": {1: shapes_of_ranks(2)},
    "ConstantOfShape": {0: shapes_of_ranks(2)},
    "RoiAlign": {0: shapes_of_ranks(3), 1: shapes_of_ranks(1, 3), 2: shapes_of_ranks(2)},
    "MaxRoiPool": {0: shapes_of_ranks(3), 1: shapes_of_ranks(1, 3)},
    "GridSample": {1: shapes_of_ranks(2)},
    "STFT": {2: shapes_of_ranks(2)},
    "NonMaxSuppression": {0: shapes_of_ranks(2), 1: shapes_of_ranks(2)},
}
SHAPES: Mapping[str, Mapping[int, Wrong]] = {
    **dict.fromkeys(
        "Add Sub Mul Div Pow And Or Xor Equal Greater Less GreaterOrEqual LessOrEqual Where Max "
        "Min Mean Sum Mod BitShift BitwiseAnd BitwiseOr BitwiseXor PRelu".split(),
        _BROADCAST,
    ),
    "MatMul": {0: inner(-1), 1: inner(-2)},
    "MatMulInteger": {0: inner(-1), 1: inner(-2)},
    "Gemm": {0: lambda own, every: [(own[0] + 1, own[1] + 1)] if len(own) == 2 else []},
    "Conv": {1: inner(1), 2: longer},
    "ConvTranspose": {1: inner(0), 2: longer},
    "BatchNormalization": {1: longer, 2: longer, 3: longer, 4: longer},
    "InstanceNormalization": {1: longer, 2: longer},
    "LayerNormalization": {1: longer},
    "RMSNormalization": {1: longer},
    "GroupNormalization": {1: longer, 2: longer},
    **dict.fromkeys(("RNN", "LSTM", "GRU"), _GATES),
    "Det": {0: not_square},
    "Concat": {0: lambda own, every: [tuple(n + 1 for n in own)] if len(own) > 1 else []},
    "GridSample": {1: inner(-1)},
}
"""Operator -> position of the operand -> shapes that the specification excludes."""


def _put(site: Site, table: Mapping[str, Mapping[int, Wrong]], what: str) -> str:
    for node, _ in site.known():
        wrong = table.get(node.op_type, {})
        every = [a.shape if (a := site.array(name)) is not None else None for name in node.input]
        for place in site.shuffled([p for p in _given(site, node) if p in wrong]):
            array = site.array(node.input[place])
            assert array is not None
            options = wrong[place](array.shape, every)
            if options:
                shape = site.choice(options)
                site.put(node.input[place], np.ones(shape, array.dtype))
                change = f"{list(shape)} in place of {list(array.shape)}"
                return f"{what} of input {place} of {site.at(node)} is {change}"
    raise NoPlace


@kind("Operators: the text of the input says which rank it has", lambda s: s.name in RANKS)
def wrong_operand_rank(site: Site) -> str:
    """An operand of a rank that the operator's text excludes."""
    return _put(site, RANKS, "the shape")


@kind("Operators: the texts of the inputs say how their sizes agree", lambda s: s.name in SHAPES)
def wrong_operand_shape(site: Site) -> str:
    """Operands whose sizes do not fit each other: no broadcasting, another inner dimension."""
    return _put(site, SHAPES, "the shape")


# -- inputs that say how to compute ----------------------------------------------------------------

Numbers = Callable[[np.ndarray, Sequence[Shape | None]], Sequence[Sequence[int] | int]]
"""(correct value, known shapes of all operands) -> values that the operator's specification
excludes."""
_HUGE = 2**40


def _axes(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Sequence[int] | int]:
    if every[0] is None:
        return []
    rank = len(every[0]) + right.size + 1
    outside = [rank, -rank - 1, -(2**63)]
    return [[*right.ravel()[:-1].tolist(), axis] for axis in outside] if right.ndim else outside


def _new_axes(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Sequence[int] | int]:
    first = right.ravel()[:1].tolist()
    return [*_axes(right, every), [*right.ravel().tolist(), *first]]


def _reshape(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Sequence[int] | int]:
    sizes = right.ravel().tolist()
    return [[-1, -1], [-2, *sizes], [*sizes, 7_919], [-(2**63)], [_HUGE, _HUGE]]


def _indices(right: np.ndarray, every: Sequence[Shape | None]) -> Sequence[Sequence[int] | int]:
    """Indices that are out of bounds along every axis."""
    return [2**31 - 1, -(2**31)] if right.size else []


_REDUCED: Mapping[int, Numbers] = {1: _axes}
ARGUMENTS: Mapping[str, Mapping[int, Numbers]] = {
    "Reshape": {1: _reshape},
    "Expand": {1: lambda r, e: [[*([1] * 3), -1], [-(2**63)], [7_919, 7_919]] if _large(e) else []},
    "ConstantOfShape": {0: lambda r, e: [[-1], [-(2**63)], [2, -3]]},
    "Tile": {1: lambda r, e: [[-1] * r.size, [1] * (r.size + 1), [-(2**63)] * r.size]},
    "Slice": {4: lambda r, e: [[0] * r.size], 3: _axes},
    "Split": {1: lambda r, e: [[*r[:-1].tolist(), int(r[-1]) + 1], [-1] * r.size]},
    "Pad": {1: lambda r, e: [[*r.tolist(), 1], r.tolist()[:-1]]},
    "TopK": {1: lambda r, e: [[-1], [2**31], [2**63 - 1]]},
    "Unsqueeze": {1: _new_axes},
    "Squeeze": {1: _axes},
    **dict.fromkeys(
        "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum "
        "ReduceLogSumExp ReduceSumSquare".split(),
        _REDUCED,
    ),
    "CumSum": {1: _axes},
    "Gather": {1: _indices},
    "GatherElements": {1: _indices},
    "GatherND": {1: _indices},
    "ScatterElements": {1: _indices},
    "ScatterND": {1: _indices},
    "CenterCropPad": {1: lambda r, e: [[-1] * r.size, [*r.ravel().tolist(), 1]]},
    "Col2Im": {1: lambda r, e: [[-1] * r.size, [0] * r.size], 2: lambda r, e: [[0] * r.size]},
    "OneHot": {1: lambda r, e: [-1, -(2**31)]},
    "Resize": {3: lambda r, e: [[-1] * r.size, [1] * (r.size + 1)]},
    "AffineGrid": {1: lambda r, e: [[-1] * r.size, [1, 1]]},
}
"""Operator -> position of a parameter input -> values that the specification excludes."""


def _large(every: Sequence[Shape | None]) -> bool:
    return bool(every[0]) and every[0] is not None and every[0][-1] > 1


@kind(
    "Operators: the text of the input says which values it may have",
    lambda schema: schema.name in ARGUMENTS,
)
def wrong_argument(site: Site) -> str:
    """A constant input whose value the operator's text excludes: two inferred sizes, a step of 0,
    an axis or index that is not there.
    """
    for node, _ in site.known():
        wrong = ARGUMENTS.get(node.op_type, {})
        every = [a.shape if (a := site.array(name)) is not None else None for name in node.input]
        for place in site.shuffled([p for p in _given(site, node) if p in wrong]):
            name = node.input[place]
            right = site.array(name)
            assert right is not None
            options = [v for v in wrong[place](right, every) if _fits(v, right.dtype)]
            if options and site.fix(name):
                value = site.choice(options)
                array = np.array(value, right.dtype)
                if not array.ndim and right.ndim:
                    array = np.full(right.shape, value, right.dtype)
                site.put(name, array)
                return f"input {place} of {site.at(node)} is {value}"
    raise NoPlace


def _fits(value: Sequence[int] | int, dtype: np.dtype) -> bool:
    numbers = value if isinstance(value, Sequence) else [value]
    if dtype.kind == "f":
        return True
    info = np.iinfo(dtype)
    return bool(numbers) and all(info.min <= number <= info.max for number in numbers)
