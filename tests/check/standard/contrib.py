"""Operators of com.microsoft, read from ONNX Runtime's docs/ContribOperators.md."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.check.implementation import StandardImplementation


class ContribImplementation(StandardImplementation):
    """An implementation of an operator of com.microsoft."""

    op_domain = "com.microsoft"


class Inverse(ContribImplementation):
    def compute(self, x):
        return np.linalg.inv(x)


class Unique(ContribImplementation):
    def compute(self, x, **others):
        """ "Sorted in the same order that they occur in the input"."""
        places = {}
        idx = [places.setdefault(value, len(places)) for value in x.tolist()]
        counts = np.bincount(idx, minlength=len(places))
        return np.array(list(places)), np.array(idx, np.int64), counts.astype(np.int64)


class CropAndResize(ContribImplementation):
    def compute(self, x, rois, images, crop_size, mode="bilinear", extrapolation_value=0.0):
        """Boxes are "[y1, x1, y2, x2] [...] normalized", and "the resizing is corner aligned"."""
        rows, columns = map(int, crop_size)
        y = np.full((len(rois), x.shape[1], rows, columns), extrapolation_value)
        for r, (y1, x1, y2, x2) in enumerate(rois):
            image = x[int(images[r])]
            axes = zip((y1, x1), (y2, x2), (rows, columns), x.shape[2:])
            places = [np.linspace(a, b, count) * (size - 1) for a, b, count, size in axes]
            for i, j in itertools.product(range(rows), range(columns)):
                at = places[0][i], places[1][j]
                if all(0 <= p <= size - 1 for p, size in zip(at, x.shape[2:])):
                    y[r, :, i, j] = sampled(image, at, mode)
        return y


def sampled(image, at, mode):
    """An element of (C, H, W) at a position between others."""
    if mode == "nearest":
        return image[(slice(None), *(round(p) for p in at))]
    total = 0.0
    for corner in itertools.product((0, 1), repeat=2):
        low = [math.floor(p) for p in at]
        shares = [p - k if c else 1 - (p - k) for p, k, c in zip(at, low, corner)]
        place = [min(k + c, n - 1) for k, c, n in zip(low, corner, image.shape[1:])]
        total = total + math.prod(shares) * image[(slice(None), *place)]
    return total


class GridSample(ContribImplementation):
    def compute(self, x, grid, mode="bilinear", padding_mode="zeros", align_corners=0):
        """ "See also in torch.nn.functional.grid_sample", by whose cubic kernel A is -0.75;
        -1 and 1 are centres of corner pixels with align_corners, their corner points without.
        """
        y = np.zeros((*x.shape[:2], *grid.shape[1:3]))
        sizes = x.shape[:1:-1]
        for n, i, j in np.ndindex(*grid.shape[:3]):
            at = []
            for p, size in zip(grid[n, i, j], sizes):
                whole = size - 1 if align_corners else size
                at.append((p + 1) / 2 * whole - (0 if align_corners else 0.5))
            y[n, :, i, j] = self._at(x[n], at, mode, padding_mode, align_corners)
        return y

    def _at(self, image, at, mode, padding, align_corners):
        sizes = image.shape[:0:-1]
        if mode != "bicubic" and padding != "zeros":
            at = [self._within(p, n, padding, align_corners) for p, n in zip(at, sizes)]
        weights = {"nearest": self._nearest, "bilinear": self._linear, "bicubic": self._cubic}
        columns, rows = (weights[mode](p) for p in at)
        total = 0.0
        for (row, a), (column, b) in itertools.product(rows, columns):
            place = [column, row]
            if padding == "zeros":
                if not all(0 <= k < n for k, n in zip(place, sizes)):
                    continue
            else:
                pairs = zip(place, sizes)
                place = [round(self._within(k, n, padding, align_corners)) for k, n in pairs]
            total = total + a * b * image[:, place[1], place[0]]
        return total

    @staticmethod
    def _nearest(p):
        return [(round(p), 1.0)]

    @staticmethod
    def _linear(p):
        low = math.floor(p)
        return [(low, 1 - (p - low)), (low + 1, p - low)]

    @staticmethod
    def _cubic(p):
        low, a = math.floor(p), -0.75
        found = []
        for k in range(low - 1, low + 3):
            d = abs(p - k)
            near = (a + 2) * d**3 - (a + 3) * d**2 + 1
            far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            found.append((k, near if d <= 1 else far))
        return found

    @staticmethod
    def _within(p, size, padding, align_corners):
        """A position inside of the axis: clipped, or reflected at its ends."""
        if padding == "reflection":
            low, high = (0, size - 1) if align_corners else (-0.5, size - 0.5)
            length = high - low
            if length == 0:
                return 0
            p = abs(p - low) % (2 * length)
            p = low + (2 * length - p if p > length else p)
        return min(max(p, 0), size - 1)


class QGemm(ContribImplementation):
    def _run(self, a, sa, za, b, sb, zb, c=None, sy=None, zy=None, transB=0, **others):
        """C "must be quantized with [...] scale = alpha / beta * a_scale * b_scale"."""
        b = b.astype(np.int64).T if transB else b.astype(np.int64)
        zb = np.asarray(zb, np.int64)
        total = (a.astype(np.int64) - np.int64(za)) @ (b - zb)
        total = total if c is None else total + c
        y = total * (np.float64(sa) * np.asarray(sb, np.float64))
        limits = np.iinfo(zy.dtype)
        whole = np.rint(y / np.float64(sy)) + int(zy)
        return (np.clip(whole, limits.min, limits.max).astype(zy.dtype),)


class QAttention(ContribImplementation):
    def compute(self, x, w, bias, sx, sw, mask=None, zx=0, zw=0, past=None, **options):
        """ "unidirectional: Whether every token can only attend to previous tokens", itself
        included; "scale: [...] Default value is 1/sqrt(head_size)".
        """
        heads, scale = options["num_heads"], options.get("scale")
        zx, zw = (np.int64(0) if z is None else np.asarray(z, np.int64) for z in (zx, zw))
        whole = (x.astype(np.int64) - zx) @ (w.astype(np.int64) - zw) * (sx * sw) + bias
        parts = np.split(whole, 3, -1)
        count, length, width = parts[0].shape
        q, k, v = (t.reshape(count, length, heads, width // heads).swapaxes(1, 2) for t in parts)
        scores = q @ k.swapaxes(-1, -2) * (scale or (width // heads) ** -0.5)
        if options.get("unidirectional"):
            scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        y = shares / shares.sum(-1, keepdims=True) @ v
        return y.swapaxes(1, 2).reshape(count, length, width).astype(np.float32)
