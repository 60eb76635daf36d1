"""Convolutional networks: their blocks, and their heads: classes, boxes, masks, the next token."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.motif import skeleton

from .parts import (
    LAST,
    WIDEST,
    added,
    convolved,
    drawn,
    gelu,
    group_norm,
    image,
    layer_norm,
    linear,
    near,
    rows,
    sequence,
    silu,
    small_image,
    split_heads,
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


MOST_CHANNELS = 32
MOST_OF_TWO = 96
"""The largest dimension of a tensor with two axes."""
PIXELS = {DType.UINT8: 2.0, DType.FLOAT32: 1.0}
"""Dtypes of images that models read, with their frequencies."""


def conv(m, x, channels, kernel=3, dilation=1, **more):
    """A convolution that keeps height and width where the stride is 1."""
    pads = (dilation * (kernel // 2),) * 4
    return convolved(m, x, channels, (kernel,) * 2, pads, dilation=dilation, **more)


def normalised(m, x):
    """A BatchNormalization, or the scale and shift that folding one leaves."""
    channels = m.shape(x)[1]
    if m.draw.chance(0.75):
        spread = m.shared(m.weight(x, channels), 0.5, 2.0)
        return m("BatchNormalization", x, *[m.weight(x, channels)] * 3, spread, epsilon=1e-5)
    column = m.weight(x, channels, 1, 1)
    return m("Add", m("Mul", x, column), column)


def activated(m, x):
    """A usual activation function of convolutional networks."""
    kind = m.draw.choice(("Relu", "Relu", "Clip", "silu", "HardSwish", "LeakyRelu"))
    if kind == "Clip":
        return m("Clip", x, min=0.0, max=6.0)
    if kind == "HardSwish" and m.takes("HardSwish"):
        return m("HardSwish", x)
    if kind == "LeakyRelu":
        return m("LeakyRelu", x, alpha=0.1)
    return silu(m, x) if kind == "silu" else m("Relu", x)


def conv_block(m, x, channels, **more):
    """Convolution, normalisation, activation."""
    return activated(m, normalised(m, conv(m, x, channels, bias=m.draw.chance(0.3), **more)))


def pooled(m, x):
    """The mean of every channel, (batch, channels, 1, 1)."""
    if m.draw.chance(0.5):
        return m("GlobalAveragePool", x)
    return m("ReduceMean", x, axes=(2, 3), keepdims=1)


def excited(m, x):
    """Squeeze and excitation: channels are scaled by a function of their means."""
    channels = m.shape(x)[1]
    y = m("Relu", conv(m, pooled(m, x), max(1, channels // 4), kernel=1))
    y = conv(m, y, channels, kernel=1)
    gate = m("HardSigmoid", y, alpha=1 / 6, beta=0.5) if m.draw.chance(0.4) else m("Sigmoid", y)
    return m("Mul", x, gate)


def doubled(m, x, channels=0):
    """Twice the height and width: by Resize and a convolution, or a transposed one."""
    given = m.shape(x)[1]
    channels = channels or given
    if m.draw.chance(0.35):
        kernel = m.weight(x, given, channels, 2, 2)
        given = {"group": 1, "strides": (2, 2), "pads": (0,) * 4, "dilations": (1, 1)}
        given |= {"output_padding": (0, 0), "auto_pad": "NOTSET"}
        return m("ConvTranspose", x, kernel, m.weight(x, channels), **given)
    kind = m.draw.choice(("ResizeNearest", "ResizeNearest", "ResizeLinear"))
    how = "asymmetric" if kind == "ResizeNearest" else "half_pixel"
    more = {"nearest_mode": "floor"} if kind == "ResizeNearest" else {}
    y = m(kind, x, scales=(2, 2), transformation=how, **more)
    return conv(m, y, channels)


def halved(m, x):
    """Half the height and width by a pooling; sizes that are odd lose a row."""
    kind = m.draw.choice(("MaxPool", "MaxPool", "AveragePool"))
    more = {"dilations": (1, 1)} if kind == "MaxPool" else {"count_include_pad": 0}
    given = {"kernel_shape": (2, 2), "strides": (2, 2), "pads": (0,) * 4, "ceil_mode": 0}
    return m(kind, x, **given, auto_pad="NOTSET", **more)


def cut_to(m, x, like):
    """The upper left part of an image that is as large as another one."""
    height, width = m.shape(like)[2:]
    if m.shape(x)[2:] == (height, width):
        return x
    return m("Slice", x, axes=(2, 3), starts=(0, 0), ends=(height, width), steps=(1, 1))


def even(m, x):
    """An image whose height and width are even: it loses a row or a column."""
    height, width = m.shape(x)[2:]
    if height % 2 == 0 == width % 2:
        return x
    ends = (height - height % 2 or 1, width - width % 2 or 1)
    return m("Slice", x, axes=(2, 3), starts=(0, 0), ends=ends, steps=(1, 1))


@skeleton(size=20, begin=image, weight=2.0)
def residual_block(m, x):
    """A block of ResNet: two convolutions beside a connection, which may be a convolution too."""
    given = m.shape(x)[1]
    stride = m.draw.choice((1, 1, 2))
    channels = given if stride == 1 and m.draw.chance(0.6) else near(m.draw, (4, 8, 16))
    y = normalised(m, conv(m, conv_block(m, x, channels, stride=stride), channels, bias=False))
    if (channels, stride) != (given, 1):
        x = normalised(m, conv(m, x, channels, kernel=1, stride=stride, bias=False))
    m("Relu", added(m, x, y))


@skeleton(size=22, begin=image)
def bottleneck_block(m, x):
    """A bottleneck of ResNet or ResNeXt: narrow, 3 x 3 in groups, wide."""
    given = m.shape(x)[1]
    narrow = max(2, given // 2)
    group = m.draw.choice([n for n in (1, 1, 2, 4) if narrow % n == 0])
    y = conv_block(m, conv_block(m, x, narrow, kernel=1), narrow, group=group)
    m("Relu", added(m, x, normalised(m, conv(m, y, given, kernel=1, bias=False))))


@skeleton(size=30, begin=image, weight=2.0)
def inverted_residual(m, x):
    """A block of MobileNet: wide, depthwise, with or without excitation, narrow."""
    given = m.shape(x)[1]
    wide = 2 * given if given * 2 <= MOST_CHANNELS else given
    y = conv_block(
        m, conv_block(m, x, wide, kernel=1), wide, group=wide, kernel=m.draw.choice((3, 3, 5))
    )
    y = excited(m, y) if m.draw.chance(0.5) else y
    m("Add", x, normalised(m, conv(m, y, given, kernel=1, bias=False)))


@skeleton(size=9, begin=image)
def squeeze_and_excitation(m, x):
    """A convolution with excitation behind it."""
    excited(m, activated(m, conv(m, x, m.shape(x)[1])))


@skeleton(size=14, begin=image)
def separable_convolution(m, x):
    """A depthwise and a pointwise convolution, normalised."""
    channels = m.shape(x)[1]
    y = conv_block(m, x, channels, group=channels, dilation=m.draw.choice((1, 1, 2)))
    conv_block(m, y, near(m.draw, (4, 8, 16)), kernel=1)


@skeleton(size=30, begin=image)
def convnext_block(m, x):
    """A block of ConvNeXt: depthwise 7 x 7, then normalised and projected with channels last."""
    channels = m.shape(x)[1]
    y = conv(m, x, channels, kernel=m.draw.choice((3, 7)), group=channels)
    y = layer_norm(m, m("Transpose", y, perm=(0, 2, 3, 1)))
    wide = 2 * channels if 2 * channels <= MOST_CHANNELS else channels
    y = linear(m, gelu(m, linear(m, y, wide)), channels)
    if m.draw.chance(0.7):
        y = m("Mul", m.weight(x, channels), y)
    m("Add", x, m("Transpose", y, perm=(0, 3, 1, 2)))


@skeleton(size=32, begin=image)
def down_and_up(m, x):
    """A step of U-Net: down, a convolution, up, and both levels side by side."""
    channels = m.shape(x)[1]
    y = conv_block(m, x, min(channels, MOST_CHANNELS // 2))
    z = doubled(m, conv_block(m, halved(m, y), channels), m.shape(y)[1])
    part = m("Concat", z, cut_to(m, y, z), axis=1)
    conv_block(m, part, channels)


@skeleton(size=36, begin=small_image)
def diffusion_block(m, x):
    """A block of a diffusion model's U-Net: group norms, SiLU, convolutions, and times added."""
    batch, channels = m.shape(x)[:2]
    y = conv(m, silu(m, group_norm(m, x)), channels)
    time = linear(m, silu(m, m.free(m.weight(x, batch, near(m.draw, (4, 8))))), channels)
    y = m("Add", y, m("Unsqueeze", m("Unsqueeze", time, axes=(2,)), axes=(3,)))
    y = conv(m, silu(m, group_norm(m, y)), channels)
    m("Add", x, y)


@skeleton(size=38, begin=small_image)
def image_attention(m, x):
    """Attention between the places of an image beside a connection, as diffusion models have it."""
    batch, channels, height, width = m.shape(x)
    count = height * width
    y = m("Reshape", group_norm(m, x), shape=(batch, channels, count))
    y = m("Transpose", y, perm=(0, 2, 1))
    q, k, v = (split_heads(m, linear(m, y, channels), 1, channels) for _ in range(3))
    scores = m("Mul", m("MatMul", q, m("Transpose", k, perm=(0, 1, 3, 2))), channels**-0.5)
    y = m("MatMul", m("Softmax", scores, axis=-1), v)
    y = m("Transpose", m("Squeeze", y, axes=(1,)), perm=(0, 2, 1))
    m(
        "Add",
        x,
        conv(m, m("Reshape", y, shape=(batch, channels, height, width)), channels, kernel=1),
    )


@skeleton(size=9, begin=image)
def sliced_stem(m, x):
    """The first layer of YOLOv5: the four pixels of each square become channels, by slices."""
    x = even(m, x)
    height, width = m.shape(x)[2:]
    mixed = (1, 0), (0, 1)
    places = ((0, 0), *(mixed if m.draw.chance(0.7) else mixed[::-1]), (1, 1))
    given = {"axes": (2, 3), "ends": (height, width), "steps": (2, 2)}
    y = m("Concat", *(m("Slice", x, starts=place, **given) for place in places), axis=1)
    activated(m, conv(m, y, near(m.draw, (4, 8))))


@skeleton(size=7, begin=image)
def rolled_and_mirrored(m, x):
    """An image rolled along its width, mirrored, and read with a step: one Slice behind another."""
    height, width = m.shape(x)[2:]
    if width > 1:
        ahead = m.draw.integer(1, width - 1)
        last, first = (
            m("Slice", x, axes=(3,), starts=(start,), ends=(end,), steps=(1,))
            for start, end in ((ahead, width), (0, ahead))
        )
        x = m("Concat", last, first, axis=3)
    x = m("Slice", x, axes=(2,), starts=(height - 1,), ends=(-1,), steps=(-1,))
    return m("Slice", x, axes=(3,), starts=(0,), ends=(width,), steps=(2,))


def pixels(draw, weights):
    """(batch, height, width, colours), as cameras and files give images."""
    height = near(draw, (4, 8))
    width = height if draw.chance(0.7) else near(draw, (4, 8))
    usual = {dtype: more for dtype, more in PIXELS.items() if weights.get(dtype)}
    return drawn(draw, usual, (draw.choice((1, 1, 2)), height, width, draw.choice((3, 4))))


def slim(draw, weights):
    """An image of few channels, so that all kernels together fit one axis."""
    height, width = (near(draw, (2, 4, 6)) for _ in range(2))
    return drawn(draw, weights, (draw.choice((1, 1, 2)), draw.choice((2, 3, 4, 8)), height, width))


@skeleton(size=16, begin=pixels, dtypes=tuple(PIXELS))
def image_input(m, x):
    """The first nodes of a model that reads pixels: numbers of bytes as floats, without
    transparency, channels first, in the other order, of another size, normalised."""
    if m.type(x).dtype is not DType.FLOAT32:
        x = m("Cast", x, to=DType.FLOAT32)
    colours = m.shape(x)[-1]
    if colours > 3:
        x = m("Slice", x, axes=(m.draw.choice((-1, 3)),), starts=(0,), ends=(3,), steps=(1,))
    x = m("Transpose", x, perm=(0, 3, 1, 2))
    if m.draw.chance(0.5):
        x = m("ResizeNearest", x, scales=(2, 2), transformation="asymmetric", nearest_mode="floor")
    if m.draw.chance(0.5):
        x = m("Concat", *m("Split", x, axis=1, split=(1, 1, 1))[::-1], axis=1)
    x = m("Mul", x, 1 / 255)
    mean, spread = (m.shared(m.weight(x, 1, 3, 1, 1), *ends) for ends in ((0.4, 0.5), (0.2, 0.3)))
    x = m("Div", m("Sub", x, mean), spread)
    activated(m, conv(m, x, near(m.draw, (4, 8)), stride=m.draw.choice((1, 2))))


@skeleton(size=24, begin=slim)
def mixed_kernels(m, x):
    """A convolution whose kernel and bias are mixed of several, as the image decides: dynamic
    convolution (CondConv). Images of a batch are groups of one convolution."""
    batch, channels, height, width = m.shape(x)
    experts = m.draw.choice((2, 3, 4))
    kernel = m.draw.choice((1, 3)) if 9 * channels**2 <= MOST_OF_TWO else 1
    shares = m("Reshape", pooled(m, x), shape=(batch, channels))
    shares = m(m.draw.choice(("Softmax", "Sigmoid")), linear(m, shares, experts))
    weights = m("MatMul", shares, m.weight(x, experts, channels * channels * kernel**2))
    total = batch * channels
    weights = m("Reshape", weights, shape=(total, channels, kernel, kernel))
    biases = m("MatMul", shares, m.weight(x, experts, channels))
    y = m(
        "Conv",
        m("Reshape", x, shape=(1, total, height, width)) if batch > 1 else x,
        weights,
        m("Reshape", biases, shape=(total,)),
        group=batch,
        strides=(1, 1),
        pads=(kernel // 2,) * 4,
        dilations=(1, 1),
        auto_pad="NOTSET",
    )
    if batch > 1:
        y = m("Reshape", y, shape=(batch, channels, height, width))
    m("Relu", added(m, y, x))


@skeleton(size=10, begin=image)
def upsampling(m, x):
    """Resize and convolutions, as decoders of images have them."""
    conv_block(m, doubled(m, activated(m, x)), near(m.draw, (4, 8)))


@skeleton(size=12, begin=image)
def pixel_shuffle(m, x):
    """The end of a super-resolution model: a convolution to many channels, which become places."""
    channels = m.draw.choice((1, 2, 3))
    y = conv(m, activated(m, conv(m, x, m.shape(x)[1])), 4 * channels)
    y = m("DepthToSpace", y, blocksize=2, mode=m.draw.choice(("CRD", "DCR")))
    m("Clip", y, min=0.0, max=1.0)


@skeleton(size=20, begin=image)
def feature_pyramid(m, x):
    """Two levels of a pyramid of features, brought to the same channels and added."""
    x = even(m, x)
    channels = near(m.draw, (4, 8))
    low = conv(m, conv(m, halved(m, x), m.shape(x)[1]), channels, kernel=1)
    y = m("ResizeNearest", low, scales=(2, 2), transformation="asymmetric", nearest_mode="floor")
    conv(m, added(m, conv(m, x, channels, kernel=1), y), channels)
    conv(m, low, channels)


@skeleton(size=26, begin=small_image)
def shuffled_channels(m, x):
    """A block of ShuffleNet: half of the channels go through convolutions, then all are mixed."""
    x = conv(m, x, 2 * m.draw.choice((2, 4, 8)))
    batch, channels, height, width = m.shape(x)
    half = channels // 2
    kept, y = m("Split", x, axis=1, split=(half, half))
    y = conv_block(m, y, half, kernel=1)
    y = conv_block(m, normalised(m, conv(m, y, half, group=half)), half, kernel=1)
    if max(height, width) > 12:
        y, kept = halved(m, y), halved(m, kept)
        height, width = m.shape(y)[2:]
    y = m("Concat", kept, y, axis=1)
    y = m("Reshape", y, shape=(batch, 2, half, height * width))
    y = m("Transpose", y, perm=(0, 2, 1, 3))
    m("Reshape", y, shape=(batch, channels, height, width))


@skeleton(size=24, begin=image)
def branches_side_by_side(m, x):
    """A block of Inception: branches of several kernels and a pooling, concatenated."""
    channels = m.draw.choice((2, 3, 4, 8))
    y = conv_block(m, x, channels, kernel=1)
    parts = [y, conv_block(m, y, channels), conv_block(m, x, channels, kernel=5)]
    pool = m(
        "AveragePool",
        x,
        kernel_shape=(3, 3),
        strides=(1, 1),
        pads=(1,) * 4,
        ceil_mode=0,
        count_include_pad=m.draw.choice((0, 1)),
        auto_pad="NOTSET",
    )
    m("Concat", *parts, conv_block(m, pool, channels, kernel=1), axis=1)
