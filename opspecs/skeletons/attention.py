"""Attention as models have it: with masks, causal, in groups, with a cache, in windows."""

from __future__ import annotations

import math
from functools import partial

from nnfuzz.operators.motif import skeleton

from .parts import (
    COPIED,
    MOST_OF_FIVE,
    WIDEST,
    attended,
    causal_mask,
    head_sizes,
    layer_norm,
    linear,
    merge_heads,
    padding_mask,
    positions,
    repeated,
    rotated,
    scores_of,
    sequence,
    small_image,
    split_heads,
    stored_weight,
    tiny_image,
    with_cache,
)


def self_attention(m, x, mask=padding_mask):
    """Projections of one input to queries, keys and values, heads, and a projection of the sum."""
    hidden = m.shape(x)[-1]
    heads, width = head_sizes(m, hidden)
    bias = m.draw.chance(0.8)
    q, k, v = (split_heads(m, linear(m, x, heads * width, bias), heads, width) for _ in range(3))
    scores = scores_of(m, q, k)
    y = attended(m, mask(m, scores) if mask else scores, v)
    return linear(m, merge_heads(m, y), hidden, bias)


def exported_attention(m, x):
    """The same word for word as PyTorch writes BERT's, which runtimes replace by one operator."""
    hidden = m.shape(x)[-1]
    heads, width = head_sizes(m, hidden)
    perms = ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3))
    q, k, v = (_projected(m, x, heads, width, perm) for perm in perms)
    scores = padding_mask(m, m("Div", m("MatMul", q, k), math.sqrt(width)))
    y = m("Transpose", attended(m, scores, v), perm=(0, 2, 1, 3))
    y = m("Reshape", y, shape=(*m.shape(x)[:2], heads * width), **COPIED)
    y = m("MatMul", y, m.weight(x, heads * width, hidden))
    return m("Add", y, m.weight(x, hidden))


def _projected(m, x, heads, width, perm):
    y = m("MatMul", x, m.weight(x, m.shape(x)[-1], heads * width))
    y = m("Add", y, m.weight(x, heads * width))
    y = m("Reshape", y, shape=(*m.shape(x)[:2], heads, width), **COPIED)
    return m("Transpose", y, perm=perm)


PACKED = "com.microsoft.Attention"


def optimised_attention(m, x):
    """The same as tools that optimise models of transformers leave it: as one operator."""
    hidden = m.shape(x)[-1]
    heads, width = head_sizes(m, hidden)
    size = 3 * heads * width
    weights = m.weight(x, hidden, size), m.weight(x, size)
    y = m(PACKED, x, *weights, num_heads=heads, scale=None, unidirectional=0)
    return linear(m, y, hidden)


def encoder_attention(m, x):
    """Attention of BERT with the mask of padding, in one of the spellings that are in use."""
    kinds = [self_attention, exported_attention, exported_attention]
    if m.takes(PACKED):
        kinds += [optimised_attention]
    return m.draw.choice(kinds)(m, x)


def packed_attention(m, x, cached=False):
    """Causal attention with one projection that is split into queries, keys and values."""
    hidden = m.shape(x)[-1]
    heads, width = head_sizes(m, min(hidden, WIDEST // 3))
    packed = linear(m, x, 3 * heads * width)
    parts = m("Split", packed, axis=-1, split=(heads * width,) * 3)
    q, k, v = (split_heads(m, part, heads, width) for part in parts)
    if cached:
        k, v = with_cache(m, k, v)
    y = attended(m, causal_mask(m, scores_of(m, q, k)), v)
    return linear(m, merge_heads(m, y), hidden)


def grouped_attention(m, x, cached=False, window=0):
    """Causal attention with rotated queries and keys, and keys and values that heads share."""
    hidden = m.shape(x)[-1]
    heads, times = m.draw.choice(((1, 2), (2, 2), (2, 1), (1, 4), (3, 1)))
    width = m.draw.choice((2, 4, 4, 6, 8) if heads * times < 4 else (2, 4))
    bias = m.draw.chance(0.2)
    q = split_heads(m, linear(m, x, heads * times * width, bias), heads * times, width)
    k, v = (split_heads(m, linear(m, x, heads * width, bias), heads, width) for _ in range(2))
    q, k = rotated(m, q), rotated(m, k)
    if cached:
        k, v = with_cache(m, k, v)
    scores = scores_of(m, q, repeated(m, k, times))
    y = attended(m, causal_mask(m, scores, window), repeated(m, v, times))
    return linear(m, merge_heads(m, y), hidden, bias)


@skeleton(size=26, begin=tiny_image)
def stacked_heads_attention(m, x):
    """Attention of FastViT between places of an image: one projection to queries, keys and values,
    which are taken apart along an axis of their own."""
    batch, channels, height, width = m.shape(x)
    count = height * width
    heads, width = head_sizes(m, min(channels, MOST_OF_FIVE))
    y = m("Transpose", m("Reshape", x, shape=(batch, channels, count)), perm=(0, 2, 1))
    y = linear(m, y, 3 * heads * width, bias=m.draw.chance(0.2))
    y = m("Reshape", y, shape=(batch, count, 3, heads, width))
    parts = m("Split", m("Transpose", y, perm=(2, 0, 3, 1, 4)), axis=0, split=(1, 1, 1))
    q, k, v = (m("Squeeze", part, axes=(0,)) for part in parts)
    scores = m("MatMul", m("Mul", q, width**-0.5), m("Transpose", k, perm=(0, 1, 3, 2)))
    y = m("Transpose", attended(m, scores, v), perm=(0, 2, 1, 3))
    linear(m, m("Reshape", y, shape=(batch, count, heads * width)), channels)


@skeleton(size=34, begin=sequence)
def attention_with_padding(m, x):
    """Attention of BERT, with the mask of padding, none, or an added one."""
    if m.draw.chance(0.4):
        return exported_attention(m, x)
    return self_attention(m, x, m.draw.choice((padding_mask, padding_mask, added_mask, None)))


def added_mask(m, scores):
    """Scores plus a mask that is an input."""
    batch, heads, queries, keys = m.shape(scores)
    first = m.draw.choice(((batch, 1), (1, 1), (batch, heads)))
    return m("Add", scores, m.free(m.weight(scores, *first, queries, keys)))


@skeleton(size=32, begin=sequence)
def causal_attention(m, x):
    """Attention of GPT-2, with or without a cache."""
    packed_attention(m, x, cached=m.draw.chance(0.5))


@skeleton(size=58, begin=sequence, weight=2.0)
def grouped_query_attention(m, x):
    """Attention of Llama: rotated, heads that share keys and values, with or without a cache."""
    grouped_attention(m, x, cached=m.draw.chance(0.6))


@skeleton(size=58, begin=sequence)
def sliding_window_attention(m, x):
    """Attention of Mistral, where a query sees the last few keys alone."""
    grouped_attention(m, x, cached=m.draw.chance(0.3), window=m.draw.choice((1, 2, 4)))


@skeleton(size=34, begin=sequence)
def cross_attention(m, x):
    """Attention of a decoder to what an encoder computes."""
    batch, _, hidden = m.shape(x)
    memory = m.free(m.weight(x, batch, m.draw.choice((1, 3, 4, 8, 9)), hidden))
    heads, width = head_sizes(m, hidden)
    q = split_heads(m, linear(m, x, heads * width), heads, width)
    k, v = (split_heads(m, linear(m, memory, heads * width), heads, width) for _ in range(2))
    y = linear(m, merge_heads(m, attended(m, scores_of(m, q, k), v)), hidden)
    layer_norm(m, m("Add", x, y))


@skeleton(size=26, begin=sequence)
def relative_position_attention(m, x):
    """Attention of T5: a bias that is looked up by distance, no scale."""
    _, length, hidden = m.shape(x)
    heads, width = head_sizes(m, hidden)
    q, k, v = (split_heads(m, linear(m, x, heads * width, False), heads, width) for _ in range(3))
    table = m.weight(x, m.draw.choice((4, 8, 16)), heads)
    bias = m("Gather", m.shared(table), positions(m, length, length), axis=0)
    bias = m("Unsqueeze", m("Transpose", bias, perm=(2, 0, 1)), axes=(0,))
    scores = m("Add", m("MatMul", q, m("Transpose", k, perm=(0, 1, 3, 2))), bias)
    linear(m, merge_heads(m, attended(m, scores, v)), hidden, False)


@skeleton(size=100, begin=sequence)
def unrolled_heads_attention(m, x):
    """Attention whose heads are computed one by one and summed, each with projections of its own,
    as models for accelerators are unrolled."""
    batch, length, hidden = m.shape(x)
    heads, width = m.draw.choice((2, 2, 3)), m.draw.choice((2, 4, 8))
    cached, turned, ranked = m.draw.chance(0.4), m.draw.chance(0.5), m.draw.chance(0.6)
    past = m.draw.choice((1, 3, 8)) if cached else 0
    mask = m.shared(m.weight(x, *(1,) * ranked, 1, length, past + length), -4.0, 0.0)
    stored, shared = m.draw.chance(0.3), m.draw.chance(0.4)
    summed, k, v = None, None, None

    def head(rotates):
        y = _head(m, x, width, stored)
        y = m("Reshape", y, shape=(batch, *(1,) * ranked, length, width))
        return rotated(m, y) if rotates else y

    for _ in range(heads):
        q = head(turned)
        if k is None or not shared:
            k, v = head(turned), head(False)
            if cached:
                k, v = (_behind(m, part, past, axis=1 + ranked) for part in (k, v))
        flipped = (0, 1, 3, 2) if ranked else (0, 2, 1)
        scores = m("Div", m("MatMul", q, m("Transpose", k, perm=flipped)), math.sqrt(width))
        y = m("MatMul", m("Softmax", m("Add", scores, mask), axis=-1), v)
        y = m("Reshape", y, shape=(batch, length, width)) if ranked else y
        y = m("MatMul", y, m.weight(x, width, hidden))
        summed = y if summed is None else m("Add", summed, y)


def _head(m, x, width, stored):
    """A projection with a bias to one head; the weight may be stored in integers."""
    shape = m.shape(x)[-1], width
    weight = stored_weight(m, x, *shape) if stored else m.weight(x, *shape)
    return m("Add", m("MatMul", x, weight), m.weight(x, width))


def _behind(m, x, past, axis):
    """The value behind an earlier one, which is an input."""
    shape = list(m.shape(x))
    shape[axis] = past
    return m("Concat", m.free(m.weight(x, *shape)), x, axis=axis)


@skeleton(size=24, begin=sequence)
def linear_attention(m, x):
    """Attention without a softmax of scores: the product of keys and values comes first."""
    hidden = m.shape(x)[-1]
    heads, width = head_sizes(m, hidden)
    q, k, v = (split_heads(m, linear(m, x, heads * width, False), heads, width) for _ in range(3))
    q, k = (m("Add", m("Elu", part, alpha=1.0), 1.0) for part in (q, k))
    context = m("MatMul", m("Transpose", k, perm=(0, 1, 3, 2)), v)
    sums = m("Transpose", m("ReduceSum", k, axes=(2,), keepdims=1), perm=(0, 1, 3, 2))
    y = m("Div", m("MatMul", q, context), m("Add", m("MatMul", q, sums), 1e-3))
    linear(m, merge_heads(m, y), hidden, False)


def _shifted(m, scores, batch):
    """Scores of windows that were shifted: places from other sides of the image are masked, in each
    window of an image by itself, and distances have a bias."""
    windows, heads, places, _ = m.shape(scores)
    shape = (batch, windows // batch, heads, places, places)
    y = m("Reshape", scores, shape=shape)
    bias = m.shared(m.weight(scores, 1, 1, heads, places, places))
    mask = m.shared(m.weight(scores, 1, windows // batch, 1, places, places), -4.0, 0.0)
    y = m("Add", m("Add", y, mask), m.draw.choice((bias, bias, mask)))
    return m("Reshape", y, shape=(windows, heads, places, places))


@skeleton(size=48, begin=small_image)
def window_attention(m, x):
    """Attention of Swin within windows of an image, which are cut out and put back."""
    batch, channels, height, width = m.shape(x)
    size = math.gcd(height, width) if height * width <= 64 else m.draw.choice((1, 2))
    size = m.draw.choice([n for n in (1, 2, 4, size) if height % n == 0 and width % n == 0])
    down, across = height // size, width // size
    y = m("Reshape", x, shape=(batch, channels, down, size, across * size))
    y = m(
        "Reshape",
        m("Transpose", y, perm=(0, 2, 3, 4, 1)),
        shape=(batch * down, size, across, size * channels),
    )
    y = m("Transpose", y, perm=(0, 2, 1, 3))
    y = m("Reshape", y, shape=(batch * down * across, size * size, channels))
    y = layer_norm(m, y)
    fits = max(batch, down * across, size * size) <= MOST_OF_FIVE
    shifted = partial(_shifted, batch=batch) if fits and m.draw.chance(0.6) else None
    y = self_attention(m, y, mask=shifted)
    y = m("Reshape", y, shape=(batch * down, across, size, size * channels))
    y = m("Reshape", m("Transpose", y, perm=(0, 2, 1, 3)), shape=(batch, height, width, channels))
    m("Add", x, m("Transpose", y, perm=(0, 3, 1, 2)))
