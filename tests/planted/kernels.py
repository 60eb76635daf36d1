"""The toy compiler's correct kernels, by ONNX operator: level O0.

Written from the ONNX specification, not from nnfuzz's operator specs. A kernel takes the node's
attributes and its inputs (None where absent).
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.planted.resampling import resize
from tests.planted.windows import average_pool, conv, max_pool


def _unary(f):
    return lambda a, x: f(x)


def _folded(f):
    return lambda a, *xs: functools.reduce(f, xs)


def wide(x: Tensor) -> Tensor:
    """float16 as float32, anything else as it is."""
    return x.float() if x.dtype is torch.float16 else x


# -- elementwise ------------------------------------------------------------------------------


def div(a, x, y):
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def mod(a, x, y):
    return torch.fmod(x, y) if a.get("fmod", 0) else torch.remainder(x, y)


def pow_(a, x, y):
    wider = torch.promote_types(x.dtype, y.dtype)
    return torch.pow(x.to(wider), y.to(wider)).to(x.dtype)


def cast(a, x):
    to = CAST[a["to"]]
    return x != 0 if to is torch.bool else x.to(to)


CAST = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 5: torch.int16, 6: torch.int32,
    7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64,
}  # fmt: skip


def clip(a, x, lo=None, hi=None):
    x = x if lo is None else torch.maximum(x, lo.to(x.dtype))
    return x if hi is None else torch.minimum(x, hi.to(x.dtype))


def gelu(a, x):
    v = wide(x)
    if a.get("approximate", "none") == "tanh":
        y = 0.5 * v * (1 + torch.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v * v * v)))
    else:
        y = 0.5 * v * (1 + torch.erf(v * math.sqrt(0.5)))
    return y.to(x.dtype)


def elu(a, x):
    return torch.where(x < 0, a.get("alpha", 1.0) * torch.expm1(wide(x)), wide(x)).to(x.dtype)


def hard_sigmoid(a, x):
    return (x * a.get("alpha", 0.2) + a.get("beta", 0.5)).clamp(0, 1)


def hard_swish(a, x):
    return x * (x / 6 + 0.5).clamp(0, 1)


def leaky_relu(a, x):
    return torch.where(x < 0, a.get("alpha", 0.01) * x, x)


def prelu(a, x, slope):
    return torch.where(x < 0, slope * x, x)


def softplus(a, x):
    v = wide(x)
    return (v.clamp(min=0) + torch.log1p(torch.exp(-v.abs()))).to(x.dtype)


# -- reductions -------------------------------------------------------------------------------


def axes_of(x: Tensor, axes: Tensor | None) -> list[int]:
    return list(range(x.dim())) if axes is None else [i % x.dim() for i in axes.tolist()]


def _reduction(f):
    def kernel(a, x, axes=None):
        if axes is None and a.get("noop_with_empty_axes"):  # each element by itself
            return f(x.unsqueeze(-1), [x.dim()], False)
        return f(x, axes_of(x, axes), bool(a.get("keepdims", 1)))

    return kernel


def _mean(x, axes, keep):
    if not x.is_floating_point():
        count = math.prod(x.shape[axis] for axis in axes)
        return torch.div(x.sum(axes, keep), max(1, count), rounding_mode="trunc").to(x.dtype)
    return wide(x).mean(axes, keep).to(x.dtype)


def _prod(x, axes, keep):
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


def _l2(x, axes, keep):
    v = wide(x) if x.is_floating_point() else x.double()
    return (v * v).sum(axes, keep).sqrt().to(x.dtype)


def first_index(x: Tensor, a, better: Tensor) -> Tensor:
    """The first position of `better` (the extremum, kept as size 1) along the node's axis, or the
    last one.
    """
    axis, size = a.get("axis", 0) % x.dim(), x.shape[a.get("axis", 0)]
    positions = torch.arange(size).reshape([-1 if i == axis else 1 for i in range(x.dim())])
    keep = bool(a.get("keepdims", 1))
    if a.get("select_last_index", 0):
        return torch.where(x == better, positions, -1).amax(axis, keep)
    return torch.where(x == better, positions, size).amin(axis, keep)


def argmax(a, x):
    return first_index(x, a, x.amax(a.get("axis", 0), keepdim=True))


def argmin(a, x):
    return first_index(x, a, x.amin(a.get("axis", 0), keepdim=True))


def cumsum(a, x, axis):
    i = int(axis) % x.dim()
    y = x.flip(i) if a.get("reverse", 0) else x
    total = torch.cumsum(y, i, dtype=x.dtype)
    if a.get("exclusive", 0):
        total = F.pad(total.narrow(i, 0, x.shape[i] - 1).movedim(i, -1), (1, 0)).movedim(-1, i)
    return total.flip(i) if a.get("reverse", 0) else total


# -- normalisation ----------------------------------------------------------------------------


def softmax(a, x):
    v = wide(x)
    e = torch.exp(v - v.amax(a.get("axis", -1), keepdim=True))
    return (e / e.sum(a.get("axis", -1), keepdim=True)).to(x.dtype)


def log_softmax(a, x):
    v = wide(x)
    d = v - v.amax(a.get("axis", -1), keepdim=True)
    return (d - d.exp().sum(a.get("axis", -1), keepdim=True).log()).to(x.dtype)


def per_channel(v: Tensor, x: Tensor) -> Tensor:
    return v.reshape(-1, *[1] * (x.dim() - 2))


def batch_norm(a, x, scale, bias, mean, var):
    x_, s, b, m, v = wide(x), *(wide(per_channel(p, x)) for p in (scale, bias, mean, var))
    return ((x_ - m) / torch.sqrt(v + a.get("epsilon", 1e-5)) * s + b).to(x.dtype)


def normalized(x: Tensor, axes: list[int], eps: float, correction: int = 0) -> Tensor:
    d = x - x.mean(axes, keepdim=True)
    count = math.prod(x.shape[i] for i in axes)
    return d / torch.sqrt((d * d).sum(axes, keepdim=True) / (count - correction) + eps)


def instance_norm(a, x, scale, bias):
    y = normalized(wide(x), list(range(2, x.dim())), a.get("epsilon", 1e-5))
    return (y * wide(per_channel(scale, x)) + wide(per_channel(bias, x))).to(x.dtype)


def trailing(a, x: Tensor) -> list[int]:
    return list(range(a.get("axis", -1) % x.dim(), x.dim()))


def layer_norm(a, x, scale, bias=None):
    y = normalized(wide(x), trailing(a, x), a.get("epsilon", 1e-5)) * wide(scale)
    return (y if bias is None else y + wide(bias)).to(x.dtype)


def spatial(x: Tensor) -> list[int]:
    return list(range(2, x.dim()))


# -- linear algebra ---------------------------------------------------------------------------


def gemm(a, x, w, c=None):
    x = x.t() if a.get("transA", 0) else x
    w = w.t() if a.get("transB", 0) else w
    y = a.get("alpha", 1.0) * (x @ w)
    return y if c is None else y + a.get("beta", 1.0) * c


# -- shapes -----------------------------------------------------------------------------------


def shape_of(a, x):
    return torch.tensor(x.shape[a.get("start", 0) : a.get("end")], dtype=torch.int64)


def reshape(a, x, shape):
    zeros = not a.get("allowzero", 0)
    return x.reshape([x.shape[i] if d == 0 and zeros else d for i, d in enumerate(shape.tolist())])


def flatten(a, x):
    axis = a.get("axis", 1)
    at = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:at]), math.prod(x.shape[at:]))


def squeeze(a, x, axes=None):
    gone = [i for i, d in enumerate(x.shape) if d == 1] if axes is None else axes_of(x, axes)
    return x.reshape([d for i, d in enumerate(x.shape) if i not in gone])


def unsqueeze(a, x, axes):
    rank = x.dim() + axes.numel()
    new, old = {i % rank for i in axes.tolist()}, iter(x.shape)
    return x.reshape([1 if i in new else next(old) for i in range(rank)])


def expand(a, x, shape):
    return x.broadcast_to(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))


def split(a, x, sizes=None):
    axis = a.get("axis", 0)
    if sizes is None:
        return torch.split(x, -(-x.shape[axis] // a["num_outputs"]), axis)
    return torch.split(x, sizes.tolist(), axis)


def slice_(a, x, starts, ends, axes=None, steps=None):
    count = starts.numel()
    axes = range(count) if axes is None else axes.tolist()
    steps = [1] * count if steps is None else steps.tolist()
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes, steps):
        picked = (
            range(x.shape[axis])[start:end:step] if step > 0 else _down(x, axis, start, end, step)
        )
        x = x.index_select(axis, torch.tensor(list(picked), dtype=torch.int64))
    return x


def _down(x, axis, start, end, step):
    size = x.shape[axis]
    start = min(start + size if start < 0 else start, size - 1)
    end = max(end + size if end < 0 else end, -1)
    return range(start, end, step)


def pad(a, x, pads, value=None):
    """Index along each axis where elements are copied; a constant elsewhere."""
    n, mode = x.dim(), a.get("mode", "constant")
    amounts = pads.tolist()
    fill = 0 if value is None else value.item()
    for axis in range(n):
        x = pad_axis(x, axis, amounts[axis], amounts[n + axis], mode, fill)
    return x


def pad_axis(x, axis, before, behind, mode, fill):
    size = x.shape[axis]
    at = torch.arange(-before, size + behind)
    if not size:  # nothing to copy
        return x.new_full((*x.shape[:axis], len(at), *x.shape[axis + 1 :]), fill)
    if mode == "edge":
        return x.index_select(axis, at.clamp(0, size - 1))
    if mode == "wrap":
        return x.index_select(axis, at % size)
    if mode == "reflect":
        return x.index_select(axis, (size - 1) - ((size - 1) - at.abs()).abs())
    y = x.index_select(axis, at.clamp(0, size - 1))
    outside = ((at < 0) | (at >= size)).reshape([-1 if i == axis else 1 for i in range(x.dim())])
    return torch.where(outside, torch.tensor(fill, dtype=x.dtype), y)


def gather(a, x, indices):
    axis = a.get("axis", 0) % x.dim()
    flat = indices.reshape(-1).long() % x.shape[axis]
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, flat).reshape(shape)


def trilu(a, x, k=None):
    k = 0 if k is None else int(k)
    return torch.triu(x, k) if a.get("upper", 1) else torch.tril(x, k)


KERNELS = {
    **{name: _unary(getattr(torch, name.lower())) for name in (
        "Abs", "Neg", "Sign", "Exp", "Log", "Sqrt", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan",
        "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Floor", "Ceil", "Round", "Sigmoid",
        "Tanh", "Relu", "Reciprocal",
    )},
    "Identity": _unary(lambda x: x),
    "Not": _unary(torch.logical_not),
    "Softsign": _unary(lambda x: x / (1 + x.abs())),
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": div,
    "Mod": mod,
    "Pow": pow_,
    "Min": _folded(torch.minimum),
    "Max": _folded(torch.maximum),
    "Sum": _folded(torch.add),
    "Equal": lambda a, x, y: x == y,
    "Greater": lambda a, x, y: x > y,
    "Less": lambda a, x, y: x < y,
    "GreaterOrEqual": lambda a, x, y: x >= y,
    "LessOrEqual": lambda a, x, y: x <= y,
    "And": lambda a, x, y: x & y,
    "Or": lambda a, x, y: x | y,
    "Xor": lambda a, x, y: x ^ y,
    "Where": lambda a, c, x, y: torch.where(c, x, y),
    "Cast": cast,
    "Clip": clip,
    "Gelu": gelu,
    "Elu": elu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": hard_swish,
    "LeakyRelu": leaky_relu,
    "PRelu": prelu,
    "Softplus": softplus,
    "ReduceSum": _reduction(lambda x, axes, keep: x.sum(axes, keep, dtype=x.dtype)),
    "ReduceMean": _reduction(_mean),
    "ReduceMax": _reduction(lambda x, axes, keep: x.amax(axes, keep)),
    "ReduceMin": _reduction(lambda x, axes, keep: x.amin(axes, keep)),
    "ReduceProd": _reduction(_prod),
    "ReduceL2": _reduction(_l2),
    "ArgMax": argmax,
    "ArgMin": argmin,
    "CumSum": cumsum,
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "LayerNormalization": layer_norm,
    "GlobalAveragePool": lambda a, x: _mean(x, spatial(x), True),
    "GlobalMaxPool": lambda a, x: x.amax(spatial(x), True),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "Conv": conv,
    "MatMul": lambda a, x, y: torch.matmul(x, y),
    "Gemm": gemm,
    "Shape": shape_of,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": lambda a, x: x.permute(a.get("perm") or list(range(x.dim()))[::-1]),
    "Expand": expand,
    "Tile": lambda a, x, repeats: x.repeat(repeats.tolist()),
    "Concat": lambda a, *xs: torch.cat(xs, a["axis"]),
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "Gather": gather,
    "Trilu": trilu,
    "Resize": resize,
}  # fmt: skip
