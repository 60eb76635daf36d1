"""Planted bugs in kernels that sum, pool or normalise: axes, windows, boundaries, accumulators."""

from __future__ import annotations

import math

import torch

from tests.planted import kernels
from tests.planted.changes import Catalogue
from tests.planted.kernels import axes_of
from tests.planted.windows import max_pool

BUGS = Catalogue()
bug = BUGS.kernel


# -- convolution and pooling -------------------------------------------------------------------


def cropped(y, like):
    """The leading part of `y` in the shape of `like`; None where it is too small."""
    for axis, size in enumerate(like.shape):
        if y.shape[axis] < size:
            return None
        y = y.narrow(axis, 0, size)
    return y


@bug("Conv")
def conv_dilation_ignored(run, a, *xs):
    """Taps are adjacent whatever the dilation."""
    n = xs[0].dim() - 2
    return cropped(run(*xs, dilations=[1] * n), run(*xs))


@bug("Conv")
def conv_group_ignored(run, a, x, w, *b):
    """Every group reads the channels of the first one."""
    group = a.get("group", 1)
    if group == 1:
        return None
    return run(x[:, : w.shape[1]].repeat(1, group, *[1] * (x.dim() - 2)), w, *b)


@bug("Conv")
def conv_pads_swapped(run, a, *xs):
    """Asymmetric pads: begins and ends change places."""
    pads = a.get("pads") or []
    n = len(pads) // 2
    return run(*xs, pads=[*pads[n:], *pads[:n]])


@bug("Conv")
def conv_bias_dropped(run, a, x, w, b=None):
    """The bias is lost when strides are fused in."""
    return run(x, w) if max(a.get("strides") or [1]) > 1 else None


@bug("Conv")
def conv_unit_kernel_strides_ignored(run, a, x, w, *b):
    """A 1x1 convolution becomes a matrix product that forgets the strides."""
    if max(w.shape[2:]) > 1:
        return None
    return cropped(run(x, w, *b, strides=[1] * (x.dim() - 2)), run(x, w, *b))


@bug("Conv")
def conv_channel_tail_dropped(run, a, x, w, *b):
    """Layout packing in blocks of 4 channels loses the remainder."""
    rest = w.shape[1] % 4
    if w.shape[1] < 4 or not rest:
        return None
    w = w.clone()
    w[:, -rest:] = 0
    return run(x, w, *b)


@bug("Conv")
def conv_kernel_flipped(run, a, x, w, *b):
    """A true convolution instead of a correlation where the kernel is not square."""
    square = len(set(w.shape[2:])) == 1
    return None if square and w.dim() > 3 else run(x, w.flip(list(range(2, w.dim()))), *b)


@bug("MaxPool")
def max_pool_pads_with_zero(run, a, x):
    """Padding takes part in the maximum as 0."""
    return max_pool(a, x, fill=0)


@bug("MaxPool")
def max_pool_dilation_ignored(run, a, x):
    """Windows are dense whatever the dilation."""
    return cropped(run(x, dilations=[1] * (x.dim() - 2)), run(x))


@bug("MaxPool", "AveragePool")
def pool_ceil_mode_ignored(run, a, x):
    """The last, partial window is dropped."""
    return run(x, ceil_mode=0)


@bug("MaxPool", "AveragePool")
def pool_pads_swapped(run, a, x):
    """Begins and ends of the pads change places."""
    pads = a.get("pads") or []
    return run(x, pads=[*pads[len(pads) // 2 :], *pads[: len(pads) // 2]])


@bug("AveragePool")
def average_pool_count_include_pad(run, a, x):
    """count_include_pad is taken for its opposite."""
    if a.get("ceil_mode", 0):
        return None
    return run(x, count_include_pad=1 - a.get("count_include_pad", 0))


@bug("GlobalMaxPool", "ReduceMax")
def maximum_starts_at_zero(run, a, x, *axes):
    """The accumulator of a maximum is initialised with 0."""
    return run(x, *axes).clamp(min=0)


@bug("GlobalMaxPool", "ReduceMax")
def maximum_starts_at_least_positive(run, a, x, *axes):
    """The accumulator of a float maximum starts at the least positive number (FLT_MIN)."""
    if not x.is_floating_point():
        return None
    return run(x, *axes).clamp(min=torch.finfo(x.dtype).tiny)


# -- reductions --------------------------------------------------------------------------------


@bug("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2")
def reduce_keepdims_lost(run, a, x, *axes):
    """Reduced axes vanish although keepdims asks for them."""
    return run(x, *axes, keepdims=0)


@bug("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2")
def reduce_tail_dropped(run, a, x, axes=None):
    """A vectorised reduction in blocks of 4 ignores what is left over."""
    axis = axes_of(x, axes)[-1]
    size = x.shape[axis]
    return run(x.narrow(axis, 0, size - size % 4), axes) if size > 4 and size % 4 else None


@bug("ReduceMean")
def mean_counts_last_axis_only(run, a, x, axes=None):
    """The sum over several axes is divided by the size of one of them."""
    sizes = [x.shape[i] for i in axes_of(x, axes)]
    return run(x, axes) * math.prod(sizes[:-1]) if len(sizes) > 1 else None


@bug("ReduceL2")
def l2_without_root(run, a, x, axes=None):
    """The square root is lost when keepdims is off."""
    y = run(x, axes)
    return y * y if not a.get("keepdims", 1) else None


@bug("ArgMax", "ArgMin")
def arg_last_index(run, a, x):
    """The last of several equal extrema wins."""
    axis = a.get("axis", 0) % x.dim()
    return x.shape[axis] - 1 - run(x.flip(axis))


@bug("ArgMax", "ArgMin")
def arg_index_starts_at_one(run, a, x):
    """An off-by-one for negative axes."""
    return run(x) + 1 if a.get("axis", 0) < 0 else None


@bug("ArgMax")
def argmax_least_is_absent(run, a, x):
    """A slice that holds nothing but the initial value of the maximum yields -1."""
    least = x.amax(a.get("axis", 0), keepdim=bool(a.get("keepdims", 1))) <= 0
    return torch.where(least, -1, run(x)) if x.is_floating_point() else None


@bug("CumSum")
def cumsum_exclusive_ignored(run, a, x, axis):
    """The sum includes the element itself."""
    return run(x, axis, exclusive=0)


@bug("CumSum")
def cumsum_reverse_keeps_order(run, a, x, axis):
    """A reversed running sum runs forward."""
    return run(x, axis, reverse=0)


# -- normalisation -----------------------------------------------------------------------------


@bug("Softmax", "LogSoftmax")
def softmax_over_last_axis(run, a, x):
    """The axis is taken for the last one."""
    return run(x, axis=-1)


@bug("Softmax", "LogSoftmax")
def softmax_negative_axis(run, a, x):
    """A negative axis is counted from one too far."""
    return run(x, axis=(a["axis"] + x.dim() - 1) % x.dim()) if a.get("axis", -1) < 0 else None


@bug("BatchNormalization")
def batch_norm_without_root(run, a, x, scale, bias, mean, var):
    """Divides by the variance."""
    return run(x, scale, bias, mean, var * var)


@bug("LayerNormalization", "InstanceNormalization")
def norm_bias_before_scale(run, a, x, scale, bias=None):
    """scale * (normalised + bias)."""
    if bias is None:
        return None
    return run(x, scale, bias * scale)


@bug("LayerNormalization", "InstanceNormalization")
def norm_unbiased_variance(run, a, x, *rest):
    """The variance is divided by n - 1."""
    layer = "axis" in a
    axes = kernels.trailing(a, x) if layer else kernels.spatial(x)
    n = math.prod(x.shape[i] for i in axes)
    if n < 2 or x.dtype is torch.float16:
        return None
    y = kernels.normalized(x, axes, a.get("epsilon", 1e-5), correction=1)
    scale, *bias = rest if layer else [kernels.per_channel(v, x) for v in rest]
    return sum(bias, y * scale)


# -- linear algebra ----------------------------------------------------------------------------


@bug("MatMul")
def matmul_first_batch_only(run, a, x, y):
    """Broadcast batches all read the first matrix of the second operand."""
    if y.dim() < 3 or x.dim() < 2:
        return None
    return run(x, y[(0,) * (y.dim() - 2)].expand_as(y))


@bug("MatMul")
def matmul_unit_dimension(run, a, x, y):
    """A product with inner size 1 becomes a scaling by the first column."""
    if y.dim() < 2 or x.shape[-1] != 1:
        return None
    return run(x, y[..., :1].expand_as(y))


@bug("MatMul", "Gemm")
def matmul_inner_tail_dropped(run, a, x, y, *c):
    """The inner loop in blocks of 8 loses the remainder."""
    axis = 0 if a.get("transA", 0) else -1
    rest = x.shape[axis] % 8
    if x.shape[axis] < 8 or not rest:
        return None
    x = x.clone()
    x.narrow(axis, x.shape[axis] - rest, rest).zero_()
    return run(x, y, *c)


@bug("Gemm")
def gemm_beta_ignored(run, a, *xs):
    """The bias is added unscaled."""
    return run(*xs, beta=1.0)


@bug("Gemm")
def gemm_alpha_scales_bias(run, a, x, y, c=None):
    """alpha multiplies the whole sum."""
    return None if c is None else run(x, y, c, beta=a.get("alpha", 1.0) * a.get("beta", 1.0))


@bug("Gemm")
def gemm_bias_transposed(run, a, x, y, c=None):
    """A bias column is read as a row where the result is square, or loses its broadcast."""
    if c is None or c.numel() < 2:
        return None
    return run(x, y, c.reshape(-1)[:1])


@bug("Gemm")
def gemm_square_not_transposed(run, a, x, y, *c):
    """transB is ignored for square matrices."""
    return run(x, y, *c, transB=0) if y.shape[0] == y.shape[1] else None
