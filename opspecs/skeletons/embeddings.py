"""What stands in front of a model: embeddings of tokens, patches and times."""

from __future__ import annotations

import math

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import skeleton

from .attention import encoder_attention
from .parts import (
    LAST,
    added,
    counted,
    identifiers,
    layer_norm,
    linear,
    near,
    positions,
    rows,
    silu,
    small_image,
    stored_integers,
    tokens,
)

IDS = (DType.INT64, DType.INT32)
VOCABULARY = (8, 16, 30)


def _looked_up(m, ids, size, width, dtype):
    """Rows of a new table at the positions that are given."""
    return m("Gather", m.shared(TensorType(dtype, (size, width))), ids, axis=0)


def _float(m):
    return m.draw.choice((DType.FLOAT32,) * 5 + (DType.FLOAT16, DType.FLOAT64))


@skeleton(size=60, begin=tokens, dtypes=IDS, weight=2.0)
def bert_embedding(m, ids):
    """The sum of embeddings of words, positions and segments, normalised; often with a layer of
    attention behind it."""
    batch, length = m.shape(ids)
    hidden, dtype = near(m.draw), _float(m)
    words = _looked_up(m, ids, m.draw.choice(VOCABULARY), hidden, dtype)
    segments = _looked_up(m, identifiers(m, batch, length), 2, hidden, dtype)
    kind = m.draw.choice(("counted", "counted", "constant", "folded"))
    if kind == "folded":
        places = m.shared(TensorType(dtype, (1, length, hidden)), -1.0, 1.0)
    else:
        constant = kind == "constant"
        at = positions(m, 1, length) if constant else counted(m, ids, m.draw.chance(0.6))
        places = _looked_up(m, at, 16, hidden, dtype)
    first, second = m.draw.shuffled((segments, places))  # both orders are exported
    y = layer_norm(m, m("Add", m("Add", words, first), second))
    if m.draw.chance(0.7):
        layer_norm(m, added(m, encoder_attention(m, y), y))


@skeleton(size=18, begin=tokens, dtypes=IDS)
def token_embedding(m, ids):
    """Words and positions of GPT-2, and the scores of all words by the same table."""
    hidden, dtype, size = near(m.draw), _float(m), m.draw.choice(VOCABULARY)
    table = m.shared(TensorType(dtype, (size, hidden)))
    y = m(
        "Add",
        m("Gather", table, ids, axis=0),
        _looked_up(m, counted(m, ids, m.draw.chance(0.3)), 16, hidden, dtype),
    )
    m("MatMul", layer_norm(m, y), m("Transpose", table, perm=(1, 0)))


@skeleton(size=14, begin=tokens, dtypes=IDS)
def stored_embedding(m, ids):
    """Rows of a table that is stored in integers with one scale or one for each row; they are
    multiplied by a number now and then, and normalised."""
    size, hidden = m.draw.choice(VOCABULARY), near(m.draw)
    kind = m.draw.choice((DType.INT8, DType.UINT8))
    scales = m.draw.choice(((), (size,)))
    table = stored_integers(m, kind, (size, hidden), TensorType(DType.FLOAT32, scales))
    table = m("DequantizeLinear", *table, axis=0 if scales else None)
    y = m("Gather", table, ids, axis=0)
    layer_norm(m, m("Mul", y, math.sqrt(hidden)) if m.draw.chance(0.4) else y)


@skeleton(size=17, begin=small_image)
def patch_embedding(m, x):
    """Patches of an image as a sequence, with a class token in front and positions, as in ViT."""
    batch, channels, height, width = m.shape(x)
    size, hidden = m.draw.choice((1, 2, 4)), near(m.draw, (4, 8, 16))
    size = size if size <= min(height, width) else 1
    kernel = m.weight(x, hidden, channels, size, size)
    y = m(
        "Conv",
        x,
        kernel,
        m.weight(x, hidden),
        strides=(size, size),
        pads=(0, 0, 0, 0),
        dilations=(1, 1),
        group=1,
        auto_pad="NOTSET",
    )
    count = (height // size) * (width // size)
    y = m("Transpose", m("Reshape", y, shape=(batch, hidden, count)), perm=(0, 2, 1))
    first = m("Expand", m.shared(m.weight(x, 1, 1, hidden)), shape=(batch, 1, hidden))
    y = m("Concat", first, y, axis=1)
    layer_norm(m, m("Add", y, m.weight(x, 1, count + 1, hidden)))


@skeleton(size=14, begin=rows)
def time_embedding(m, x):
    """Sines and cosines of times at many frequencies, and two projections, as in diffusion."""
    _, hidden = m.shape(x)
    half = m.draw.choice((2, 4, 8))
    time = m("ReduceMean", x, **LAST)
    rates = m("Exp", m("Mul", m.shared(m.weight(x, half), 0.0, 1.0), -math.log(100.0)))
    angles = m("Mul", time, m("Unsqueeze", rates, axes=(0,)))
    y = m("Concat", m("Cos", angles), m("Sin", angles), axis=-1)
    linear(m, silu(m, linear(m, y, hidden)), hidden)
