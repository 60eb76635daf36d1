"""Selection among overlapping boxes."""

from __future__ import annotations

import math

import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.elementwise import single
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.unexportable import DECOMPOSED


@operator
class NonMaxSuppression(OpSpec):
    """Boxes (N, S, 4), scores (N, C, S) -> the first `rows` selections (batch, class, box).

    A composition: the lowering appends rows of -1 and truncates, so that the shape is static.
    Source: ONNX NonMaxSuppression-11.
    """

    inputs = (In("T", (DType.FLOAT32,), (3, 3)), In("T", ranks=(3, 3)))
    output = DType.INT64
    unexportable = DECOMPOSED
    weight = 5.0  # few graphs hold boxes
    center_point_box = Choice((0, 1))
    most = Choice((1, 2, 3, 5))
    iou = Choice((0.1, 0.3, 0.5, 0.7))
    least = Choice((None, None, -0.5, 0.25))
    rows = Sym(1, 32)

    def requires(self, boxes, scores):
        yield boxes.shape[0] == scores.shape[0]
        yield boxes.shape[1] == scores.shape[2]
        yield boxes.shape[2] == 4

    def type_transfer(self, boxes, scores):
        return [TensorType(DType.INT64, (self.rows, 3))]

    def complete(self, draw, first, dtypes):
        n, s, _ = first.shape
        return tensor_types(dtypes, first.shape, (n, draw.dim(3), s))

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 3 if output_rank == 2 else None

    def infer_input_types(self, draw, first, dtypes, output):
        n, s, _ = first.shape
        return self.complete(draw, first.with_shape((n, s, 4)), dtypes)

    def cost(self, boxes, scores):
        return scores.numel * boxes.shape[1] * 8

    def value_range(self, boxes, scores):
        return -1, 1 << 16

    def certain(self, boxes, scores):
        """0 occurs: the first selection belongs to the first batch."""
        return ((0, 0),)

    def onnx(self, emit, boxes, scores):
        limits = (emit.const(self.most, DType.INT64), emit.const(self.iou, DType.FLOAT32))
        least = () if self.least is None else (emit.const(self.least, DType.FLOAT32),)
        options = {"center_point_box": self.center_point_box}
        found = emit("NonMaxSuppression", boxes, scores, *limits, *least, **options)
        padding = emit.const([[-1] * 3] * self.rows, DType.INT64)
        whole = emit("Concat", found, padding, axis=0)
        ends = (emit.const([end], DType.INT64) for end in (0, self.rows, 0))
        return emit("Slice", whole, *ends)

    def torch(self, boxes, scores):
        overlap = self._overlaps(boxes)[0]
        return self._selected(overlap, torch.full_like(overlap, -1), scores, scores, scores)[0]

    def _selected(self, overlap, off, scores, low, high):
        """The selections, and the row from which on they are uncertain.

        overlap, off: intersections over unions and their error, infinite where an overlap is
        undefined; low, high: bounds of the scores. A pick is certain if every other remaining box
        surely scores less, an overlap if its distance to the threshold exceeds its error.
        """
        n, c, s = scores.shape
        threshold = single(self.iou)
        floor = -math.inf if self.least is None else single(self.least)
        alive, sure, may = (v > floor for v in (scores, low, high))
        near = ((overlap - threshold).abs() <= off) | off.isinf()
        near = near.unsqueeze(1).expand(n, c, s, s)
        beside = (overlap <= threshold).unsqueeze(1).expand(n, c, s, s)
        place = torch.arange(s)
        picked, valid, open_ = [], [], []
        for _ in range(min(self.most, s)):
            best = scores.masked_fill(~alive, torch.finfo(scores.dtype).min).argmax(-1, True)
            picked.append(best.squeeze(-1))
            valid.append(alive.any(-1))
            others = may & (place != best)
            beaten = (high < low.gather(-1, best)) | ~others
            known = torch.where(valid[-1], sure.gather(-1, best).squeeze(-1) & beaten.all(-1), True)
            open_.append(~known | (may.any(-1) & ~valid[-1]))
            row = best.unsqueeze(-1).expand(n, c, 1, s)
            kept, unsure = (v.gather(2, row).squeeze(2) for v in (beside, near))
            alive = alive & kept & (place != best)
            sure = sure & kept & ~unsure & (place != best)
            may = may & (kept | unsure) & (place != best)
        there, lost = (torch.stack(v, -1).reshape(-1) for v in (valid, open_))
        rows = int(there[: int(lost.byte().argmax())].sum()) if bool(lost.any()) else self.rows
        return self._packed(torch.stack(picked, -1), there), rows

    def _overlaps(self, boxes):
        """Intersection over union of every pair, and the union; both (N, S, S)."""
        if self.center_point_box:
            centre, half = boxes[..., :2], boxes[..., 2:] / 2
            low, high = centre - half, centre + half
        else:
            low = torch.minimum(boxes[..., :2], boxes[..., 2:])
            high = torch.maximum(boxes[..., :2], boxes[..., 2:])
        inner = torch.minimum(high.unsqueeze(2), high.unsqueeze(1)) - torch.maximum(
            low.unsqueeze(2), low.unsqueeze(1)
        )
        inner = inner.clamp(min=0)
        shared = inner[..., 0] * inner[..., 1]
        sides = high - low
        area = sides[..., 0] * sides[..., 1]
        union = area.unsqueeze(2) + area.unsqueeze(1) - shared
        return shared / union, union

    def _packed(self, index, valid):
        """The valid selections of (N, C, K) in order, followed by -1."""
        n, c, k = index.shape
        batch = torch.arange(n).reshape(n, 1, 1).expand(n, c, k)
        kind = torch.arange(c).reshape(1, c, 1).expand(n, c, k)
        triples = torch.stack((batch, kind, index), -1).reshape(-1, 3)
        at = (valid.long().cumsum(0) - 1).clamp(max=self.rows)
        at = at.masked_fill(~valid, self.rows)
        whole = torch.full((self.rows + 1, 3), -1)
        return whole.scatter(0, at.unsqueeze(1).expand(-1, 3), triples)[: self.rows]

    def domain(self, boxes, scores):
        return [boxes.abs() - 1e3]

    def _flat(self, boxes, r):
        """(N, S) mask of boxes that may have no area if coordinates are off by r; ONNX does not
        define them."""
        sides = boxes[..., 2:]
        if not self.center_point_box:
            sides = (sides - boxes[..., :2]).abs()
        return (sides - 2 * r < 0.01).any(-1)

    def proxy(self, boxes, scores):
        return (boxes.sum() + scores.sum()).expand(self.rows, 3)

    def margins(self, boxes, scores):
        found = [_of_pairs(self._overlaps(boxes)[0] - self.iou), _of_pairs(_differences(scores))]
        return [m.abs() for m in (*found, *self._above(scores))]

    def _above(self, scores):
        return [] if self.least is None else [scores - single(self.least)]

    def decided(self, u, boxes, scores):
        """A decision that rounding may reverse changes all selections after it and none before.

        The same holds for an overlap with a box without area or with uncertain coordinates, and for
        an uncertain score. Picks by score alone are still certain.
        """
        middle, r = (boxes.lo + boxes.hi) / 2, float((boxes.hi - boxes.lo).max()) / 2
        size = float(middle.abs().max())
        iou, union = self._overlaps(middle)
        off = (32 * u * size**2 + 16 * size * r) / union.clamp(min=1e-30) + 4 * u
        vague = self._flat(middle, r)
        vague = vague if boxes.any is None else vague | boxes.any.any(-1)
        off = off.masked_fill(vague.unsqueeze(-1) | vague.unsqueeze(-2), math.inf)
        low, high = scores.lo, scores.hi
        if scores.any is not None:
            low, high = (
                v.masked_fill(scores.any, e) for v, e in ((low, -math.inf), (high, math.inf))
            )
        y, known = self._selected(iou, off, (scores.lo + scores.hi) / 2, low, high)
        mask = (torch.arange(self.rows) >= known).unsqueeze(1).expand_as(y)
        return [Interval(y, y, mask if known < self.rows else None)]


def _differences(scores):
    """(N, C, S, S) differences of every pair of scores of a class."""
    return scores.unsqueeze(-1) - scores.unsqueeze(-2)


def _of_pairs(pairs):
    """The values of all pairs of different boxes: (..., S * (S - 1) / 2)."""
    s = pairs.shape[-1]
    rows, columns = torch.triu_indices(s, s, 1)
    return pairs[..., rows, columns]
