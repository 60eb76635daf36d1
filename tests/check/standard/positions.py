"""Operators that read between elements, read from the ONNX standard."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.check.implementation import StandardImplementation


class GridSample(StandardImplementation):
    def compute(self, x, grid, mode="linear", padding_mode="zeros", align_corners=0):
        """GridSample-20. Positions beyond the image are moved into it, or their elements are 0.

        Of the cubic mode each neighbour is moved, not the position: the standard refers to
        torch.nn.functional.grid_sample.
        """
        n, sizes = x.ndim - 2, x.shape[2:]
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
        kernel = {"nearest": nearest, "cubic": cubic, "bicubic": cubic}.get(mode, linear)
        moved = mover(padding_mode, align_corners)
        for at in np.ndindex(grid.shape[0], *grid.shape[1:-1]):
            terms = []
            for size, place in zip(sizes, grid[at][::-1]):
                if align_corners:
                    position = (place + 1) / 2 * (size - 1)
                else:
                    position = ((place + 1) * size - 1) / 2
                if kernel is not cubic:
                    position = moved(position, size)
                pairs = [(moved(i, size), weight) for i, weight in kernel(position)]
                inside = [(round(i), weight) for i, weight in pairs if 0 <= round(i) < size]
                terms.append(inside)
            for corner in itertools.product(*terms):
                weight = math.prod(w for _, w in corner)
                index = (at[0], slice(None), *(i for i, _ in corner))
                y[(at[0], slice(None), *at[1:])] += weight * x[index]
        assert n == len(sizes)
        return y


def mover(padding_mode, align_corners):
    """How a position (in elements) outside is treated: "border" and "reflection" move it in."""

    def border(position, size):
        return min(max(position, 0), size - 1)

    def reflection(position, size):
        low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
        if high == low:
            return 0.0
        off = abs(position - low) % (2 * (high - low))
        return border(low + min(off, 2 * (high - low) - off), size)

    return {"border": border, "reflection": reflection}.get(padding_mode, lambda p, size: p)


def nearest(position):
    return [(round(position), 1.0)]


def linear(position):
    low = math.floor(position)
    return [(low, low + 1 - position), (low + 1, position - low)]


def cubic(position, a=-0.75):
    low = math.floor(position)
    return [(low + i, keys(position - low - i, a)) for i in range(-1, 3)]


def keys(t, a):
    """Keys' kernel, "Cubic convolution interpolation", equation 4."""
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


class DeformConv(StandardImplementation):
    def compute(self, x, w, offset, b=None, mask=None, group=1, offset_group=1, **window):
        """ "Linear interpolation for fractional offset values. Sampling locations outside of the
        padded input tensor gives zero": elements beyond the image are 0.
        """
        count, channels = x.shape[:2]
        kernel, sizes = w.shape[2:], offset.shape[2:]
        strides = window.get("strides") or [1, 1]
        dilations, pads = window.get("dilations") or [1, 1], window.get("pads") or [0] * 4
        offset = offset.reshape(count, offset_group, *kernel, 2, *sizes)
        if mask is None:
            mask = np.ones((count, offset_group, *kernel, *sizes))
        mask = mask.reshape(count, offset_group, *kernel, *sizes)
        each, inner, wide = w.shape[0] // group, w.shape[1], channels // offset_group
        y = np.zeros((count, w.shape[0], *sizes))
        grid = np.meshgrid(
            *(np.arange(o) * s - p for o, s, p in zip(sizes, strides, pads)), indexing="ij"
        )
        for n, *at in np.ndindex(count, *kernel):
            seen = np.empty((channels, *sizes))
            for g in range(offset_group):
                place = [own + k * d for own, k, d in zip(grid, at, dilations)] + offset[n, g, *at]
                part = slice(g * wide, (g + 1) * wide)
                seen[part] = between(x[n, part], *place) * mask[n, g, *at]
            for g in range(group):
                rows, part = slice(g * each, (g + 1) * each), slice(g * inner, (g + 1) * inner)
                y[n, rows] += np.tensordot(w[rows, :, *at], seen[part], 1)
        return y if b is None else y + b.reshape(-1, 1, 1)


def between(planes, y, x):
    """(C, H, W) at positions (h, w): linear, 0 beyond; (C, h, w)."""
    found = np.zeros((planes.shape[0], *y.shape))
    for i, j in itertools.product(range(planes.shape[1]), range(planes.shape[2])):
        weight = np.maximum(0, 1 - np.abs(y - i)) * np.maximum(0, 1 - np.abs(x - j))
        found += planes[:, i, j, None, None] * weight
    return found


class AffineGrid(StandardImplementation):
    def compute(self, theta, size, align_corners=0):
        """ "-1 and 1 [are] the centers of the corner pixels" or "the outer edge"."""
        places = []
        for count in size[2:]:
            at = np.arange(count)
            places.append(at / (count - 1) * 2 - 1 if align_corners else (2 * at + 1) / count - 1)
        mesh = np.meshgrid(*places, indexing="ij")[::-1]
        points = np.stack([*mesh, np.ones_like(mesh[0])], -1)
        return np.einsum("nij,...j->n...i", theta, points)


class Resize(StandardImplementation):
    def compute(self, x, roi=None, scales=None, sizes=None, mode="nearest", antialias=0, **options):
        """Resize-19, axis by axis: output = sum of weights times elements.

        "Antialiasing is achieved by stretching the resampling filter by a factor max(1, 1 /
        scale)". Where sizes are given for all axes, they say what any policy would.
        """
        axes = options.get("axes") or range(x.ndim)
        for i, axis in enumerate(axes):
            size = x.shape[axis]
            if scales is not None and len(scales):
                scale = float(scales[i])
                count = math.floor(size * scale)
            else:
                count, scale = int(sizes[i]), int(sizes[i]) / size
            ends = (roi[i], roi[i + len(axes)]) if roi is not None and len(roi) else (0, 1)
            weights = np.zeros((count, size))
            for o in range(count):
                place = source(o, size, count, scale, ends, **options)
                squeeze = min(scale, 1.0) if antialias else 1.0
                for j, weight in self.terms(mode, place, size, squeeze, **options):
                    weights[o, min(max(j, 0), size - 1)] += weight
            x = np.moveaxis(np.tensordot(weights, x.astype(np.float64), (1, axis)), 0, axis)
        return x

    def _run(self, x, *args, **attributes):
        return (super()._run(x, *args, **attributes)[0].astype(x.dtype),)

    def terms(self, mode, place, size, squeeze, **options):
        """Indices, maybe beyond the tensor, with their weights."""
        if mode == "nearest":
            rounding = {
                "floor": math.floor,
                "ceil": math.ceil,
                "round_prefer_floor": lambda p: math.ceil(p - 0.5),
                "round_prefer_ceil": lambda p: math.floor(p + 0.5),
            }[options["nearest_mode"]]
            return [(rounding(place), 1.0)]
        reach, a = (2 if mode == "cubic" else 1) / squeeze, options["cubic_coeff_a"]
        near = range(math.ceil(place - reach), math.floor(place + reach) + 1)
        if options["exclude_outside"]:
            near = [j for j in near if 0 <= j < size]
        off = [(j, abs(j - place) * squeeze) for j in near]
        found = [(j, keys(t, a) if mode == "cubic" else max(0.0, 1 - t)) for j, t in off]
        total = sum(weight for _, weight in found)
        return [(j, weight / total) for j, weight in found]


def source(o, size, count, scale, ends, coordinate_transformation_mode="half_pixel", **others):
    """x_original for x_resized = o; ends: of the region of interest."""
    mode, (start, end) = coordinate_transformation_mode, ends
    if mode == "asymmetric":
        return o / scale
    if mode == "align_corners":
        return o * (size - 1) / (count - 1) if count > 1 else 0.0
    if mode == "tf_crop_and_resize":
        if count == 1:
            return 0.5 * (start + end) * (size - 1)
        return start * (size - 1) + o * (end - start) * (size - 1) / (count - 1)
    if mode == "pytorch_half_pixel" and count == 1:
        return 0.0
    lost = size / 2 * (1 - count / (scale * size)) if mode == "half_pixel_symmetric" else 0.0
    return lost + (o + 0.5) / scale - 0.5


class NonMaxSuppression(StandardImplementation):
    def compute(self, boxes, scores, most=0, iou=0.0, least=None, center_point_box=0):
        """ "Boxes are suppressed if their IOU with a previously selected box is strictly greater
        than iou_threshold"; "score less than score_threshold are removed".
        """
        found = []
        for n, c in np.ndindex(*scores.shape[:2]):
            kept = []
            for i in sorted(range(scores.shape[2]), key=lambda i: (-scores[n, c, i], i)):
                low = least is not None and scores[n, c, i] <= np.asarray(least).item()
                if low or len(kept) >= np.asarray(most).item():
                    continue
                spans = [_span(boxes[n, k], center_point_box) for k in (*kept, i)]
                if all(_overlap(spans[-1], s) <= np.asarray(iou).item() for s in spans[:-1]):
                    kept.append(i)
            found += [[n, c, i] for i in kept]
        return np.array(found, np.int64).reshape(-1, 3)


def _span(box, center_point_box):
    """(y1, x1, y2, x2), in order."""
    if center_point_box:
        x, y, w, h = box
        return y - h / 2, x - w / 2, y + h / 2, x + w / 2
    y1, x1, y2, x2 = box
    return min(y1, y2), min(x1, x2), max(y1, y2), max(x1, x2)


def _overlap(a, b):
    sides = [max(0.0, min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in (0, 1)]
    both = sides[0] * sides[1]
    areas = [(s[2] - s[0]) * (s[3] - s[1]) for s in (a, b)]
    return both / (sum(areas) - both) if both > 0 else 0.0
