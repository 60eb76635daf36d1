"""Pooling and convolution, read from the ONNX standard."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.check.implementation import StandardImplementation


def halved(totals, auto_pad):
    """Pads per axis: "the extra padding is added at the end for SAME_UPPER and at the beginning for
    SAME_LOWER" (MaxPool-22, `auto_pad`)."""
    before = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in totals]
    return [*before, *(t - b for t, b in zip(totals, before))]


def automatic(auto_pad, sizes, kernel, strides, dilations):
    """Pads "so that output_shape[i] = ceil(input_shape[i] / strides[i])"; none for VALID."""
    if auto_pad == "VALID":
        return [0] * 2 * len(kernel)
    parts = zip(sizes, kernel, strides, dilations)
    totals = [(math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n for n, k, s, d in parts]
    return halved(totals, auto_pad)


class Pooling(StandardImplementation):
    """Windows over the spatial axes, clipped to the input."""

    def windows(
        self,
        x,
        kernel_shape,
        strides=None,
        pads=None,
        dilations=None,
        ceil_mode=0,
        auto_pad="NOTSET",
    ):
        """The number of windows per axis, and for each its indices and how many are not padding.

        Source: MaxPool-22: "output_spatial_shape[i] = floor((input_spatial_shape[i] +
        pad_shape[i] - dilation[i] * (kernel_shape[i] - 1) - 1) / strides_spatial_shape[i] + 1)
        [...] Sliding windows that would start in the right padded region are ignored."
        """
        n = len(kernel_shape)
        strides, dilations, pads = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
        if auto_pad != "NOTSET":
            pads = automatic(auto_pad, x.shape[2:], kernel_shape, strides, dilations)
        rounding = math.ceil if ceil_mode else math.floor
        axes = []
        for i, (size, k, s, d) in enumerate(zip(x.shape[2:], kernel_shape, strides, dilations)):
            before, behind = pads[i], pads[n + i]
            count = rounding((size + before + behind - d * (k - 1) - 1) / s + 1)
            starts = [o * s - before for o in range(count) if o * s - before < size]
            places = [[start + j * d for j in range(k)] for start in starts]
            inside = [[p for p in window if 0 <= p < size] for window in places]
            padded = [sum(-before <= p < size + behind for p in window) for window in places]
            axes.append(list(zip(inside, padded)))
        for at in np.ndindex(*map(len, axes)):
            parts = [axis[o] for axis, o in zip(axes, at)]
            yield at, np.ix_(*(inside for inside, _ in parts)), math.prod(p for _, p in parts)

    def pooled(self, x, value, **window):
        """value(elements of a window (N, C, k), how many places it covers) per window."""
        found = {
            at: value(x[(slice(None), slice(None), *index)].reshape(*x.shape[:2], -1), covered)
            for at, index, covered in self.windows(x, **window)
        }
        shape = [max(indices) + 1 for indices in zip(*found)]
        y = np.zeros((*x.shape[:2], *shape), next(iter(found.values())).dtype)
        for at, result in found.items():
            y[(slice(None), slice(None), *at)] = result
        return y


class MaxPool(Pooling):
    def compute(self, x, storage_order=0, **window):
        """Positions are those "in [0, N x C x D1 x ... x Dn)"."""
        planes = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], 1)
        spatial = x.shape[2:]
        order = "F" if storage_order else "C"
        places = np.arange(math.prod(spatial)).reshape(spatial, order=order)
        places = np.broadcast_to(places, x.shape)
        best = self.pooled(x, lambda e, _: e.max(-1), **window)

        def positions(index):
            where = (slice(None), slice(None), *index)
            elements, at = (t[where].reshape(*x.shape[:2], -1) for t in (x, places))
            return np.take_along_axis(at, elements.argmax(-1)[..., None], -1)[..., 0]

        flat = np.zeros(best.shape, np.int64)
        for at, index, _ in self.windows(x, **window):
            flat[(slice(None), slice(None), *at)] = positions(index)
        offsets = (planes * math.prod(spatial)).reshape(*x.shape[:2], *[1] * len(spatial))
        return best, flat + offsets


class MaxUnpool(StandardImplementation):
    def compute(self, x, indices, shape=None, kernel_shape=None, pads=None, strides=None):
        """ "All the non-maximal values from the original input to MaxPool are set to zero"."""
        if shape is None:
            n = len(kernel_shape)
            pads, strides = pads or [0] * 2 * n, strides or [1] * n
            parts = zip(x.shape[2:], kernel_shape, strides, pads[:n], pads[n:])
            shape = [*x.shape[:2], *((d - 1) * s + k - a - b for d, k, s, a, b in parts)]
        y = np.zeros(math.prod(map(int, shape)))
        y[indices.reshape(-1)] = x.reshape(-1)
        return y.reshape([int(d) for d in shape])


class AveragePool(Pooling):
    def compute(self, x, count_include_pad=0, **window):
        """ "Divided by the number of elements (exclude pad when [it] is zero)"."""
        return self.pooled(
            x, lambda e, n: e.sum(-1) / (n if count_include_pad else e.shape[-1]), **window
        )


class LpPool(Pooling):
    def compute(self, x, p=2, **window):
        return self.pooled(x, lambda e, _: (np.abs(e) ** p).sum(-1) ** (1 / p), **window)


class GlobalLpPool(StandardImplementation):
    def compute(self, x, p=2):
        """ "Equivalent to LpPool with kernel size equal to the spatial dimension"."""
        axes = tuple(range(2, x.ndim))
        return (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p)


class GlobalMaxPool(StandardImplementation):
    def compute(self, x):
        return x.max(tuple(range(2, x.ndim)), keepdims=True)


class MaxRoiPool(StandardImplementation):
    def compute(self, x, rois, pooled_shape=None, spatial_scale=1.0):
        """The standard names the operator only; bins are those of Girshick, "Fast R-CNN", 2.1, in
        its implementation: corners are rounded and belong to the region, bins overlap, and an
        empty bin is 0.
        """
        y = np.zeros((len(rois), x.shape[1], *pooled_shape))
        for r, (image, *corners) in enumerate(rois):
            x1, y1, x2, y2 = (math.floor(c * spatial_scale + 0.5) for c in corners)
            axes = zip((y1, x1), (y2, x2), pooled_shape, x.shape[2:])
            bins = [_bins(first, last, count, size) for first, last, count, size in axes]
            for i, j in itertools.product(*map(range, pooled_shape)):
                part = x[int(image), :, slice(*bins[0][i]), slice(*bins[1][j])]
                y[r, :, i, j] = part.reshape(x.shape[1], -1).max(-1) if part.size else 0
        return y


def _bins(first, last, count, size):
    length = max(last - first + 1, 1) / count
    ends = ((math.floor(i * length), math.ceil((i + 1) * length)) for i in range(count))
    return [[min(max(e + first, 0), size) for e in pair] for pair in ends]


class ConvTranspose(StandardImplementation):
    def compute(
        self, x, w, b=None, group=1, output_padding=None, pads=None, strides=None, **others
    ):
        """Every element adds the kernel, times itself, at stride times its position.

        "output_shape[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ((kernel_shape[i]
        - 1) * dilations[i] + 1) - pads[start_i] - pads[end_i]"; `output_shape` "will cause pads
        values to be auto generated", and so does "output_shape[i] = input_shape[i] * strides[i]".
        """
        n, (count, channels) = x.ndim - 2, x.shape[:2]
        strides, dilations = strides or [1] * n, others.get("dilations") or [1] * n
        extra, pads = output_padding or [0] * n, pads or [0] * 2 * n
        parts = list(zip(x.shape[2:], w.shape[2:], strides, dilations, extra))
        full = [s * (size - 1) + e + (k - 1) * d + 1 for size, k, s, d, e in parts]
        auto_pad, goal = others.get("auto_pad", "NOTSET"), others.get("output_shape")
        if auto_pad.startswith("SAME") and not goal:
            goal = [size * s for size, s in zip(x.shape[2:], strides)]
        if goal:
            pads = halved([have - want for have, want in zip(full, goal)], auto_pad)
        inner, each = w.shape[1], channels // group
        y = np.zeros((count, inner * group, *full))
        for at in np.ndindex(*w.shape[2:]):
            places = [
                slice(a * d, a * d + s * (size - 1) + 1, s)
                for a, (size, _, s, d, _) in zip(at, parts)
            ]
            for g in range(group):
                rows = slice(g * each, (g + 1) * each)
                term = np.einsum("nc...,cm->nm...", x[:, rows], w[(rows, slice(None), *at)])
                y[(slice(None), slice(g * inner, (g + 1) * inner), *places)] += term
        crop = [slice(pads[i], size - pads[n + i]) for i, size in enumerate(full)]
        y = y[(slice(None), slice(None), *crop)]
        return y if b is None else y + b.reshape(-1, *[1] * n)


class ConvInteger(StandardImplementation):
    def compute(self, x, w, x_zero_point=0, w_zero_point=0, **window):
        zero = np.asarray(0 if w_zero_point is None else w_zero_point, np.int64)
        zero = zero.reshape(-1, *[1] * (w.ndim - 1)) if zero.ndim else zero
        x = x.astype(np.int64) - np.int64(0 if x_zero_point is None else x_zero_point)
        return self.convolved(x, w.astype(np.int64) - zero, **window).astype(np.int32)

    def convolved(
        self, x, w, group=1, pads=None, strides=None, dilations=None, auto_pad="NOTSET", **others
    ):
        """Products of windows and kernels; "padded" zeros are zeros after the zero point."""
        n = x.ndim - 2
        strides, dilations, pads = strides or [1] * n, dilations or [1] * n, pads or [0] * 2 * n
        if auto_pad != "NOTSET":
            pads = automatic(auto_pad, x.shape[2:], w.shape[2:], strides, dilations)
        x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:n], pads[n:])])
        parts = list(zip(x.shape[2:], w.shape[2:], strides, dilations))
        sizes = [(size - (k - 1) * d - 1) // s + 1 for size, k, s, d in parts]
        each, inner = w.shape[0] // group, w.shape[1]
        y = np.zeros((x.shape[0], w.shape[0], *sizes), np.int64)
        for at in np.ndindex(*w.shape[2:]):
            places = [
                slice(a * d, a * d + s * (size - 1) + 1, s)
                for a, size, (_, _, s, d) in zip(at, sizes, parts)
            ]
            for g in range(group):
                rows = slice(g * each, (g + 1) * each)
                seen = x[(slice(None), slice(g * inner, (g + 1) * inner), *places)]
                kernel = w[(rows, slice(None), *at)]
                y[:, rows] += np.einsum("nc...,mc->nm...", seen, kernel)
        return y


class QLinearConv(ConvInteger):
    def _run(self, *args, **attributes):
        return (self.requantised(*args, **attributes),)

    def requantised(self, x, sx, zx, w, sw, zw, sy, zy, b=None, **window):
        """ "Bias [...] must be quantized using scale = input scale * weight scale"."""
        total = self.compute(x, w, zx, zw, **window).astype(np.float64)
        total += 0 if b is None else b.reshape(-1, *[1] * (x.ndim - 2))
        scale = np.asarray(sx * sw, np.float64) / np.float64(sy)
        scale = scale.reshape(-1, *[1] * (x.ndim - 2)) if scale.ndim else scale
        limits = np.iinfo(zy.dtype)
        return np.clip(np.rint(total * scale) + int(zy), limits.min, limits.max).astype(zy.dtype)
