"""Suppression of boxes against a plain loop, and decisions that rounding may turn over."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.suppression import NonMaxSuppression

from nnfuzz.operators.intervals import Interval

U = 2.0**-24


def operands(seed: int, n: int = 2, c: int = 2, s: int = 6):
    generator = torch.Generator().manual_seed(seed)
    corner = torch.rand(n, s, 2, generator=generator)
    size = torch.rand(n, s, 2, generator=generator) + 0.2
    return torch.cat((corner, corner + size), -1), torch.rand(n, c, s, generator=generator)


def area(box) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def overlap(a, b) -> float:
    low, high = torch.maximum(a[:2], b[:2]), torch.minimum(a[2:], b[2:])
    shared = float((high - low).clamp(min=0).prod())
    return shared / (area(a) + area(b) - shared)


def plainly(op, boxes, scores):
    rows = []
    for n, c in ((n, c) for n in range(scores.shape[0]) for c in range(scores.shape[1])):
        kept: list[int] = []
        for i in scores[n, c].argsort(descending=True).tolist():
            free = all(overlap(boxes[n, i], boxes[n, j]) <= op.iou for j in kept)
            high = op.least is None or scores[n, c, i] > op.least
            if free and high and len(kept) < op.most:
                kept.append(i)
        rows += [[n, c, i] for i in kept]
    return (rows + [[-1] * 3] * op.rows)[: op.rows]


@pytest.mark.parametrize("least", [None, 0.25])
@pytest.mark.parametrize("rows", [3, 30])
def test_selections_are_those_of_a_plain_loop(least, rows):
    op = NonMaxSuppression(center_point_box=0, most=3, iou=0.3, least=least, rows=rows)
    for seed in range(20):
        boxes, scores = operands(seed)
        assert op.torch(boxes, scores).tolist() == plainly(op, boxes, scores)


def test_boxes_may_be_given_by_their_centres():
    options = {"most": 3, "iou": 0.3, "least": None, "rows": 9}
    corners, centres = (NonMaxSuppression(center_point_box=k, **options) for k in (0, 1))
    boxes, scores = operands(1)
    sides = boxes[..., 2:] - boxes[..., :2]
    middle = torch.cat((boxes[..., :2] + sides / 2, sides), -1)
    assert torch.equal(corners.torch(boxes, scores), centres.torch(middle, scores))


def test_equal_scores_leave_the_order_open():
    op = NonMaxSuppression(center_point_box=0, most=3, iou=0.3, least=None, rows=4)
    boxes, scores = (v.double() for v in operands(2))
    (interval,) = op.decided(U, Interval(boxes, boxes), Interval(scores, scores))
    assert interval.any is None
    scores[0, 0, :2] = scores.max() + 1
    (interval,) = op.decided(U, Interval(boxes, boxes), Interval(scores, scores))
    assert bool(interval.any.all())
