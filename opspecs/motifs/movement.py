"""Data movement that cancels, merges, or can be moved through other operators."""

from __future__ import annotations

from nnfuzz.ir.dtypes import ALL, FLOATS, NUMBERS, DType
from nnfuzz.operators.motif import factors, motif


def _permutation(m, x):
    return tuple(m.draw.shuffled(range(len(m.shape(x)))))


def _inverse(perm):
    return tuple(perm.index(i) for i in range(len(perm)))


def _axis(m, x):
    return m.draw.integer(0, len(m.shape(x)) - 1)


# -- transposes -------------------------------------------------------------------------------


@motif(size=2, dtypes=ALL, ranks=(2, 5))
def transpose_pair(m, x):
    """Two transposes that cancel, or merge."""
    perm = _permutation(m, x)
    y = m("Transpose", x, perm=perm)
    m("Transpose", y, perm=_inverse(perm) if m.draw.chance(0.6) else _permutation(m, y))


@motif(size=5, ranks=(2, 5), weight=3.0)
def transpose_sandwich(m, x):
    """An operator between two transposes that it does not need."""
    perm = _permutation(m, x)
    y = m("Transpose", x, perm=perm)
    kind = m.draw.choice(("Relu", "Softmax", "Add", "ReduceMean", "Pad", "Concat", "Clip", "Split"))
    if kind == "Add":
        y = m("Add", y, m.weight(y, m.shape(y)[-1]))
    elif kind == "Concat":
        axis = _axis(m, y)
        y = m("Concat", y, y, axis=axis)
    elif kind == "ReduceMean":
        y = m("ReduceMean", y, axes=(_axis(m, y),), keepdims=1)
    else:
        y = m(kind, y)
    for part in y if isinstance(y, tuple) else (y,):
        m("Transpose", part, perm=_inverse(perm))
        if m.draw.chance(0.7):
            break


@motif(size=3, dtypes=ALL, ranks=(2, 4))
def channel_shuffle(m, x):
    """Reshape, Transpose, Reshape: one axis is split into two, which are swapped."""
    batch, channels, *rest = m.shape(x)
    groups, inner = factors(m, channels, (1, 2, 3, 4))
    y = m("Reshape", x, shape=(batch, groups, inner, *rest))
    y = m("Transpose", y, perm=(0, 2, 1, *range(3, len(rest) + 3)))
    m("Reshape", y, shape=(batch, channels, *rest))


# -- shapes -----------------------------------------------------------------------------------


@motif(size=3, dtypes=ALL, ranks=(1, 5), weight=2.0)
def reshape_chain(m, x):
    """A chain of Reshapes, which sometimes ends with the original shape."""
    shape = m.shape(x)
    y = m("Reshape", x)
    if m.draw.chance(0.5):
        y = m("Reshape", y)
    m("Reshape", y, shape=shape) if m.draw.chance(0.6) else m("Flatten", y)


@motif(size=3, dtypes=ALL, ranks=(0, 4), weight=2.0)
def squeeze_chain(m, x):
    """Axes of size 1 that are added and removed, also by operators other than Squeeze and
    Unsqueeze."""
    rank = len(m.shape(x))
    axis = m.draw.integer(0, rank)
    y = m("Unsqueeze", x, axes=(axis,))
    kind = m.draw.choice(("Squeeze", "Squeeze", "Unsqueeze", "Reshape", "Transpose"))
    if kind == "Squeeze":
        y = m("Squeeze", y, axes=(axis,))
    elif kind == "Unsqueeze":
        y = m("Squeeze", m("Unsqueeze", y, axes=(0,)) if rank < 4 else y, axes=(0,))
    elif kind == "Reshape":
        y = m("Reshape", y, shape=m.shape(x))
    else:
        order = [i for i in range(rank + 1) if i != axis]
        y = m("Transpose", y, perm=(axis, *order))


@motif(size=2, ranks=(1, 5))
def reduce_squeeze(m, x):
    """A reduction that keeps its axis, which is then removed, or one that drops it, which is then
    restored."""
    axis = _axis(m, x)
    kind = m.draw.choice(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2"))
    keepdims = m.draw.integer(0, 1)
    y = m(kind, x, axes=(axis,), keepdims=keepdims)
    m("Squeeze" if keepdims else "Unsqueeze", y, axes=(axis,))


@motif(size=2, ranks=(1, 4))
def unsqueezed_reduction(m, x):
    """A reduction of an axis beside a new one of size 1, which could come later."""
    rank = len(m.shape(x))
    new = m.draw.integer(0, rank)
    axis = m.draw.choice([axis for axis in range(rank + 1) if axis != new])
    kind = m.draw.choice(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"))
    m(kind, m("Unsqueeze", x, axes=(new,)), axes=(axis,), keepdims=m.draw.integer(0, 1))


@motif(size=2, ranks=(1, 4))
def expand_reduce(m, x):
    """Copies along a new axis, or one of size 1, which a reduction merges again."""
    copies = m.draw.integer(1, 6)
    if m.draw.chance(0.5):
        y = m("Expand", x, shape=(copies, *m.shape(x)))
    else:
        y = m("Tile", x, repeats=(copies, *(1,) * (len(m.shape(x)) - 1)))
    m(m.draw.choice(("ReduceMax", "ReduceMean", "ReduceSum")), y, axes=(0,), keepdims=0)


@motif(size=2, dtypes=NUMBERS, ranks=(1, 4))
def expand_binary(m, x):
    """An Expand that broadcasting makes redundant."""
    y = m("Expand", x, shape=(m.draw.integer(1, 4), *m.shape(x)))
    m(m.draw.choice(("Add", "Mul", "Sub", "Max")), y, x)


# -- parts ------------------------------------------------------------------------------------


@motif(size=2, dtypes=ALL, weight=2.0)
def slice_of_pad(m, x):
    """Padding that a Slice removes."""
    rank, axis = len(m.shape(x)), _axis(m, x)
    before, behind = m.draw.integer(0, 3), m.draw.integer(0, 3)
    pads = [0] * 2 * rank
    pads[axis], pads[axis + rank] = before, behind
    y = m("Pad", x, pads=tuple(pads), mode=m.draw.choice(("constant", "edge")), value=0)
    end = before + m.shape(x)[axis]
    m("Slice", y, axes=(axis,), starts=(before,), ends=(end,), steps=(1,))


@motif(size=2, dtypes=ALL)
def split_of_concat(m, x):
    """Two tensors that are joined and split at the same place."""
    axis = _axis(m, x)
    shape = list(m.shape(x))
    sizes = shape[axis], m.dim(len(shape))
    shape[axis] = sizes[1]
    y = m("Concat", x, m.weight(x, *shape), axis=axis)
    m("Split", y, axis=axis, split=sizes)


@motif(size=3, dtypes=ALL)
def nested_concat(m, x):
    """Tensors that are joined one after the other along one axis, or along two."""
    axis = _axis(m, x)
    y = m("Concat", *m.draw.shuffled((x, m.weight(x, *m.shape(x)))), axis=axis)
    if m.draw.chance(0.3):
        axis = _axis(m, x)
    z = m.weight(x, *m.shape(y))
    m("Concat", *((y, z) if m.draw.chance(0.5) else (z, y)), axis=axis)


@motif(size=2, dtypes=ALL, weight=2.0)
def whole_slice(m, x):
    """A Slice or Gather that takes all there is, in the same order or backwards."""
    axis = _axis(m, x)
    size = m.shape(x)[axis]
    if m.draw.chance(0.3):
        first, step = m.draw.choice(((0, 1), (0, 1), (-1, -1)))
        at = m("Range", x, axis=axis, start=first, delta=step, dtype=DType.INT64, source="constant")
        return m("Gather", x, at, axis=axis)
    step = m.draw.choice((1, 2)) if isinstance(size, int) and size == 1 else 1
    end = size if m.draw.chance(0.5) else 1 << 31
    return m("Slice", x, axes=(axis,), starts=(0,), ends=(end,), steps=(step,))


@motif(size=4, dtypes=NUMBERS)
def split_branches(m, x):
    """Parts that pass through different operators and are joined."""
    axis = _axis(m, x)
    first, *others = m("Split", x, axis=axis)
    kind = m.draw.choice(("Relu", "Abs", "Neg"))
    first, last = m(kind, first), m(kind if m.draw.chance(0.7) else "Sign", others[-1])
    m("Concat", first, *others[:-1], last, axis=axis)


@motif(size=3, dtypes=ALL, weight=2.0)
def slice_concat(m, x):
    """The two halves of an axis, joined in the same or the other order."""
    axis, size = _axis(m, x), m.shape(x)[_axis(m, x)]
    size = m.shape(x)[axis]
    at = size // 2 if m.draw.chance(0.5) else 1
    low = m("Slice", x, axes=(axis,), starts=(0,), ends=(at,), steps=(1,))
    high = m("Slice", x, axes=(axis,), starts=(at,), ends=(size,), steps=(1,))
    m("Concat", *((high, low) if m.draw.chance(0.4) else (low, high)), axis=axis)


@motif(size=3, dtypes=ALL)
def focus(m, x):
    """The even and the odd elements, joined: SpaceToDepth by slices."""
    axis = _axis(m, x)
    size = m.shape(x)[axis]
    even = m("Slice", x, axes=(axis,), starts=(0,), ends=(size,), steps=(2,))
    odd = m("Slice", x, axes=(axis,), starts=(1,), ends=(size,), steps=(2,))
    m("Concat", even, odd, axis=m.draw.choice((axis, _axis(m, x))))


@motif(size=2, dtypes=ALL)
def gather_chain(m, x):
    """Gather of Gather, or one with a constant index, which equals a Slice and a Squeeze."""
    axis = _axis(m, x)
    if m.draw.chance(0.5):
        y = m("Gather", x, m.draw.choice((0, 0, -1)), axis=axis)
        return m("Unsqueeze", y, axes=(axis,))
    y = m("Gather", x, axis=axis)
    return m("Gather", y) if len(m.shape(y)) else m("Unsqueeze", y, axes=(0,))


@motif(size=2, dtypes=ALL, weight=2.0)
def gathered_range(m, x):
    """Gather at positions that are counted from a shape, which equals a Slice."""
    axis = _axis(m, x)
    step = m.draw.choice((1, 1, -1))
    counted = m("Range", x, axis=axis, start=0 if step > 0 else -1, delta=step, dtype=DType.INT64)
    m("Gather", x, counted, axis=axis)


# -- casts ------------------------------------------------------------------------------------


@motif(size=3, dtypes=ALL, ranks=(0, 5), weight=2.0)
def cast_chain(m, x):
    """Casts there and back, or in a row; they are exact only if every dtype in between holds every
    value."""
    dtype = m.type(x).dtype
    for _ in range(m.draw.integer(1, 2)):
        x = m("Cast", x, to=m.draw.choice(ALL))
    m("Cast", x, to=dtype)


@motif(size=3, dtypes=FLOATS, ranks=(0, 5))
def cast_sandwich(m, x):
    """A function between casts to another precision and back."""
    dtype = m.type(x).dtype
    y = m("Cast", x, to=m.draw.choice([d for d in FLOATS if d is not dtype]))
    y = m(m.draw.choice(("Relu", "Sigmoid", "Tanh", "Softmax", "Neg", "Abs")), y)
    m("Cast", y, to=dtype)


@motif(size=2, dtypes=ALL)
def shape_of_cast(m, x):
    """The shape of a value that is cast for nothing else."""
    m("Shape", m("Cast", x, to=m.draw.choice(ALL)))


@motif(size=4, dtypes=(*FLOATS, DType.INT64, DType.INT32, DType.BOOL), ranks=(0, 5))
def arithmetic_between_casts(m, x):
    """Arithmetic by numbers between casts to another dtype and back: integers would give something
    else without them."""
    dtype = m.type(x).dtype
    others = (DType.FLOAT32, DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.INT32)
    other = m.draw.choice([d for d in others if d is not dtype])
    y = m("Cast", x, to=other)
    numbers = (0.5, 1.5, 0.4, 2, 3) if other.is_float else (2, 3)
    for _ in range(m.draw.integer(1, 2)):
        y = m(m.draw.choice(("Mul", "Div", "Add", "Sub")), y, m.draw.choice(numbers))
    m("Cast", y, to=dtype)


@motif(size=3, dtypes=(DType.INT64, DType.INT32), ranks=(0, 5))
def integer_detour(m, x):
    """Integer arithmetic in floating point, as quantisers and exporters write it."""
    y = m("Cast", x, to=DType.FLOAT32)
    y = m(m.draw.choice(("Floor", "Ceil", "Round", "Abs", "Neg")), y)
    m("Cast", y, to=m.type(x).dtype)


@motif(size=7, ranks=(1, 5))
def mean_by_size(m, x):
    """A sum divided by a size that is computed from the shape."""
    axis = _axis(m, x)
    counted = x
    if m.draw.chance(0.4):  # the dtype is of no consequence
        kinds = [dtype for dtype in FLOATS if dtype is not m.type(x).dtype]
        counted = m("Cast", m("Neg", x), to=m.draw.choice(kinds))
    size = m("Gather", m("Shape", counted, start=0, end=len(m.shape(x))), axis, axis=0)
    divisor = m("Cast", size, to=m.type(x).dtype)
    m("Div", m("ReduceSum", x, axes=(axis,), keepdims=m.draw.integer(0, 1)), divisor)
