"""What stands at the end of a model: classes, boxes, masks, the next token."""

from __future__ import annotations

from nnfuzz.operators.motif import skeleton

from .images import conv, conv_block, doubled, pooled
from .parts import (
    LAST,
    WIDEST,
    added,
    gelu,
    image,
    layer_norm,
    linear,
    near,
    rows,
    sequence,
    small_image,
)


@skeleton(size=12, begin=image)
def classifier(m, x):
    """Means of channels, a projection, and the probabilities of classes."""
    y = conv_block(m, x, m.shape(x)[1])
    y = m("Flatten", pooled(m, y), axis=1)
    y = linear(m, y, m.draw.choice((2, 3, 5, 10)))
    m(m.draw.choice(("Softmax", "LogSoftmax")), y, axis=-1)


@skeleton(size=34, begin=small_image)
def detection_head(m, x):
    """Boxes of YOLO without suppression: offsets from a grid, sizes from anchors, scores."""
    batch, _, height, width = m.shape(x)
    anchors, classes = m.draw.choice((1, 2, 3)), m.draw.choice((1, 2, 3))
    each, count = 5 + classes, height * width
    y = conv(m, x, anchors * each, kernel=1)
    y = m("Reshape", y, shape=(batch * anchors, each, count))
    y = m("Transpose", y, perm=(0, 2, 1))
    places, sizes, scores = m("Split", m("Sigmoid", y), axis=-1, split=(2, 2, 1 + classes))
    stride = float(m.draw.choice((8, 16, 32)))
    grid = m.shared(m.weight(x, 1, count, 2), 0.0, float(max(height, width)))
    places = m("Mul", m("Add", m("Sub", m("Mul", places, 2.0), 0.5), grid), stride)
    anchor = m.shared(m.weight(x, 1, 1, 2), 1.0, 16.0)
    sizes = m("Mul", m("Pow", m("Mul", sizes, 2.0), 2.0), anchor)
    y = m("Concat", places, sizes, scores, axis=-1)
    if anchors * count <= WIDEST:
        m("Reshape", y, shape=(batch, anchors * count, each))


@skeleton(size=26, begin=sequence)
def box_head(m, x):
    """Boxes of DETR: centres and sizes of every query as corners, and the best class."""
    hidden = m.shape(x)[-1]
    scores = m("Softmax", linear(m, x, m.draw.choice((2, 4, 5))), axis=-1)
    m("ReduceMax", scores, axes=(-1,), keepdims=0)
    m("ArgMax", scores, axis=-1, keepdims=0, select_last_index=0)
    y = m("Relu", linear(m, x, hidden))
    centre, size = m("Split", m("Sigmoid", linear(m, y, 4)), axis=-1, split=(2, 2))
    half = m("Mul", size, 0.5)
    m("Concat", m("Sub", centre, half), m("Add", centre, half), axis=-1)


@skeleton(size=16, begin=image)
def segmentation_head(m, x):
    """Scores of classes for every place, brought to twice the size, and the best class."""
    y = conv(m, conv_block(m, x, m.shape(x)[1]), near(m.draw, (4, 4, 8)), kernel=1)
    m("ArgMax", doubled(m, y), axis=1, keepdims=0, select_last_index=0)


@skeleton(size=24, begin=rows)
def token_sampling(m, x):
    """The probabilities of the best tokens at a temperature, those beyond a sum of them removed."""
    words = m.draw.choice((8, 15, 16, 30))
    y = m("Div", linear(m, layer_norm(m, x), words, bias=False), m.draw.choice((0.7, 1.0, 1.5)))
    if m.draw.chance(0.3):
        y = m("Mul", m("Tanh", m("Div", y, 30.0)), 30.0)
    scores, places = m("TopK", y, axis=-1, k=m.draw.choice((1, 4, 8)), largest=1, sorted=1)
    shares = m("Softmax", scores, axis=-1)
    before = m("Sub", m("CumSum", shares, axis=-1, exclusive=0, reverse=0), shares)
    y = m("Where", m("Less", before, m.draw.choice((0.5, 0.9))), shares, 0.0)
    m("Div", y, m("ReduceSum", y, **LAST))
    m("Cast", places, to=m.type(x).dtype)


@skeleton(size=24, begin=sequence)
def masked_word_head(m, x):
    """The scores of words of BERT: a projection, GELU, a norm, and another projection."""
    hidden = m.shape(x)[-1]
    y = layer_norm(m, gelu(m, linear(m, x, hidden)))
    linear(m, y, m.draw.choice((8, 15, 30)))


@skeleton(size=20, begin=sequence)
def pooled_sentence(m, x):
    """The mean of a sequence without its padding, of length 1, as embeddings of sentences are."""
    batch, length, _ = m.shape(x)
    mask = m.free(m.weight(x, batch, length))
    mask = m("Unsqueeze", m("Sigmoid", mask), axes=(-1,))
    total = m("ReduceSum", m("Mul", x, mask), axes=(1,), keepdims=0)
    count = m("Clip", m("ReduceSum", mask, axes=(1,), keepdims=0), min=1e-3, max=None)
    y = m("Div", total, count)
    norm = m("ReduceL2", y, **LAST)
    added(m, m("Div", y, m("Max", norm, 1e-4)), m.weight(x, m.shape(y)[-1]))
