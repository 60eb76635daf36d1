"""Weights that lie in files beside the model."""

from __future__ import annotations

import random

from onnx import TensorProto

from nnfuzz.base.external_data import LOCATIONS
from nnfuzz.rewrite.draft import Draft
from nnfuzz.rewrite.rule import Kind, models

FAMILY = "external data"
_ALIGNMENTS = (1, 1, 4, 64, 4096)


def _movable(draft: Draft) -> list[TensorProto]:
    """Initializers whose elements are bytes that another program can read from a file."""
    return [tensor for tensor in draft.graph.initializer if tensor.raw_data]


def _plain(tensors: list[TensorProto]) -> list[TensorProto]:
    return [tensor for tensor in tensors if tensor.data_type != TensorProto.INT64]


@models(FAMILY, lambda draft: [0] if _plain(_movable(draft)) else [], kind=Kind.ENDS)
def external_data(draft: Draft, site: int, rng: random.Random) -> None:
    """Initializers of the file -> the same bytes in one or several files beside it, at offsets that
    are aligned or not: the model names file, offset and length of each."""
    tensors = _movable(draft)
    if rng.random() < 0.7:  # as exporters do it: not those that describe shapes
        tensors = _plain(tensors)
    if rng.random() < 0.3:
        tensors = rng.sample(tensors, rng.randint(1, len(tensors)))
    rng.shuffle(tensors)
    location, count = rng.choice(LOCATIONS), rng.choice((1, 1, 2, 1 + len(tensors)))
    alignment, shift = rng.choice(_ALIGNMENTS), rng.choice((0, 0, 1, 3))
    ends = [0] * count
    for tensor in tensors:
        number = rng.randrange(count)
        start = -(-ends[number] // alignment) * alignment + (shift if ends[number] else 0)
        ends[number] = start + len(tensor.raw_data)
        entries = {"location": f"{location}{number or ''}", "offset": start}
        entries["length"] = len(tensor.raw_data)
        if not start and rng.random() < 0.5:
            del entries["offset"]  # which is 0 by default
        del tensor.external_data[:]
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=str(value))


RULES = (external_data,)
