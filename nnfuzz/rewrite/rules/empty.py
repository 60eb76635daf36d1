"""Rules that add empty tensors, which ONNX allows: a dimension may be 0."""

from __future__ import annotations

import random

import numpy as np

from nnfuzz.ir.types import TensorType
from nnfuzz.rewrite.draft import Draft, Nodes
from nnfuzz.rewrite.rule import models, values
from nnfuzz.rewrite.rules.batch import Batch, InParts, batches, carried, taken
from nnfuzz.rewrite.rules.identities import MOVED, ints, of

FAMILY = "empty tensors"


@values(FAMILY, of(MOVED, rank=1), uses=["Slice", "Concat"])
def joined_with_nothing(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Concat of x and of what has no slices along that axis, a part of x or a constant: by
    ONNX a dimension may be 0."""
    axis = rng.randrange(type_.rank)
    sizes = [0 if i == axis else size for i, size in enumerate(type_.sizes)]
    if rng.random() < 0.5:
        empty = emit.const(np.zeros(sizes), type_.dtype)
    else:
        start = rng.randint(0, type_.sizes[axis])
        empty = emit.one("Slice", x, ints(emit, start), ints(emit, start), ints(emit, axis))
    return emit.one("Concat", *rng.sample([x, empty], 2), axis=axis)


@models(FAMILY, lambda draft: batches(draft, unsized=True), uses=["Concat", "Slice"], bits=False)
def batch_with_nothing(draft: Draft, site: Batch, rng: random.Random) -> None:
    """Nodes that compute every slice along an axis by itself -> the same on all slices and once
    more on none, and Concat of the results: by ONNX a dimension may be 0."""
    extent = site.extent(draft)
    lanes = InParts(draft, draft.emitter(), extent, rng.choice((0, extent)))
    carried(draft, lanes, taken(draft, site, rng, unsized=True))


RULES = (joined_with_nothing, batch_with_nothing)
