"""Planted bugs in kernels that move data: the wrong element or order."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from tests.planted.changes import Catalogue

BUGS = Catalogue()
bug = BUGS.kernel


# -- shapes ------------------------------------------------------------------------------------


@bug("Concat")
def concat_negative_axis(run, a, *xs):
    """Counted from the back, operands are joined in reverse order."""
    return run(*xs[::-1]) if a["axis"] < 0 else None


@bug("Concat")
def concat_third_repeats_second(run, a, *xs):
    """The third operand is written from the second one's buffer where their shapes agree."""
    if len(xs) < 3:
        return None
    third = xs[1] if xs[1].shape == xs[2].shape else torch.zeros_like(xs[2])
    return run(*xs[:2], third, *xs[3:])


@bug("Split")
def split_offsets_uniform(run, a, x, sizes=None):
    """Parts of uneven sizes start at multiples of the first size."""
    if sizes is None:
        return None
    axis, parts = a.get("axis", 0), sizes.tolist()
    last = [x.shape[axis] - size for size in parts]
    starts = [min(i * parts[0], most) for i, most in enumerate(last)]
    return [x.narrow(axis, s, size) for s, size in zip(starts, parts)]


@bug("Split")
def split_even_reversed(run, a, x, sizes=None):
    """Equal parts come in the wrong order for negative axes or num_outputs."""
    return run(x)[::-1] if sizes is None else None


@bug("Slice")
def slice_packed_stride(run, a, x, starts, ends, axes=None, steps=None):
    """Layout packing reads a strided slice as if it were contiguous."""
    y = run(x, starts, ends, axes, steps)
    if steps is None or steps.max() < 2:
        return None
    for axis, step in zip(axes.tolist(), steps.tolist()):
        if step > 1:
            x = x.narrow(axis, 0, y.shape[axis])
        else:
            i = torch.tensor([axis])
            x = run(x, starts[axes == i], ends[axes == i], i, torch.tensor([step]))
    return x


@bug("Slice")
def slice_negative_step_order(run, a, x, starts, ends, axes=None, steps=None):
    """A negative step yields the right elements in ascending order."""
    down = [] if steps is None else [i for i, s in zip(axes.tolist(), steps.tolist()) if s < 0]
    return run(x, starts, ends, axes, steps).flip(down) if down else None


@bug("Pad")
def pad_negative_as_zero(run, a, x, pads, *value):
    """Negative pads do not crop."""
    return run(x, pads.clamp(min=0), *value)


@bug("Pad")
def pad_reflect_repeats_edge(run, a, x, pads, *value):
    """Reflection includes the edge: off by one."""
    if a.get("mode") != "reflect":
        return None
    n, amounts = x.dim(), pads.tolist()
    for axis in range(n):
        before, behind = amounts[axis], amounts[n + axis]
        parts = [x.narrow(axis, 0, before).flip(axis), x]
        x = torch.cat([*parts, x.narrow(axis, x.shape[axis] - behind, behind).flip(axis)], axis)
    return x


@bug("Pad")
def pad_value_ignored(run, a, x, pads, *value):
    """Always pads with 0."""
    return run(x, pads) if value else None


@bug("Pad")
def pad_edge_as_constant(run, a, x, pads, *value):
    """The edge mode pads with 0."""
    return run(x, pads, mode="constant") if a.get("mode") == "edge" else None


@bug("Pad", "Trilu")
def stale_buffer_not_cleared(run, a, x, *rest):
    """Elements that should be 0 keep what the buffer held before."""
    if a.get("mode", "constant") != "constant" or len(rest) > 1 or x.dtype is torch.bool:
        return None
    ones = run(torch.ones_like(x), *rest)
    old = x.reshape(-1)[torch.arange(ones.numel()) % max(1, x.numel())].reshape(ones.shape)
    return torch.where(ones == 0, old, run(x, *rest))


@bug("Pad")
def pad_axes_reversed(run, a, x, pads, *value):
    """Begins and ends are read as pairs per axis."""
    n = x.dim()
    if a.get("mode", "constant") == "reflect":
        return None
    swapped = torch.cat([pads[n:], pads[:n]])
    return run(x, swapped, *value)


@bug("Gather")
def gather_negative_clamped(run, a, x, indices):
    """Negative indices are clamped to 0."""
    return run(x, indices.clamp(min=0))


@bug("Gather")
def gather_axis_ignored(run, a, x, indices):
    """Scalar indices take from the first element of the axis."""
    return run(x, torch.zeros_like(indices)) if indices.dim() == 0 else None


@bug("Expand")
def expand_lost_broadcast(run, a, x, shape):
    """The repeated axis gets data once and zeros behind."""
    y = run(x, shape)
    if y.numel() == x.numel():
        return None
    flat = F.pad(x.reshape(-1).float(), (0, y.numel() - x.numel()))
    return flat.reshape(y.shape).to(x.dtype)


@bug("Tile")
def tile_repeats_elements(run, a, x, repeats):
    """Elements are repeated in place instead of the whole."""
    for axis, count in enumerate(repeats.tolist()):
        x = x.repeat_interleave(count, axis)
    return x


@bug("Transpose")
def transpose_inverse_permutation(run, a, x):
    """Applies the inverse permutation where shapes allow it."""
    perm = a["perm"]
    inverse = [perm.index(i) for i in range(len(perm))]
    return x.permute(inverse).reshape(run(x).shape)


@bug("Reshape", "Flatten")
def reshape_of_transposed(run, a, x, *shape):
    """Reads a transposed layout as if it were the plain one."""
    return run(x.t().contiguous(), *shape) if x.dim() == 2 else None


@bug("Trilu")
def trilu_offset_ignored(run, a, x, k=None):
    """k is taken for 0."""
    return run(x)


@bug("Trilu")
def trilu_unequal_sides(run, a, x, k=None):
    """Matrices that are not square are cut to the smaller side first."""
    least = min(x.shape[-2:])
    y = run(x, k).clone()
    y[..., least:] = 0
    return y


@bug("Resize")
def resize_linear_asymmetric(run, a, *xs):
    """half_pixel is taken for asymmetric."""
    return run(*xs, coordinate_transformation_mode="asymmetric") if a["mode"] == "linear" else None


@bug("Resize")
def resize_nearest_rounds(run, a, *xs):
    """The nearest element is found by rounding instead of flooring."""
    return run(*xs, nearest_mode="round_prefer_ceil") if a["mode"] == "nearest" else None
