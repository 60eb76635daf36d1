"""Attention and rotary embeddings against PyTorch and by hand."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.attention import Attention, AttentionPadded
from nnfuzz.opspecs.rotary import RotaryEmbedding
from torch.nn import functional as F

from nnfuzz.compare.envelope import admitted
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.operator import ConstraintError
from tests.opspecs.samples import ramp, t


def attention(**attributes):
    usual = {"kv_heads": 1, "groups": 1, "scale": None, "softcap": 0.0, "is_causal": 0, "qk": None}
    return Attention(**{**usual, **attributes})


def waves(*shape):
    return torch.sin(ramp(*shape) * 0.7)


def test_grouped_heads_are_pytorch_s():
    q, k, v = waves(2, 6, 3, 4), waves(2, 2, 5, 4), waves(2, 2, 5, 3)
    (y,) = attention(groups=3).torch(q, k, v)
    assert torch.allclose(y, F.scaled_dot_product_attention(q, k, v, enable_gqa=True), atol=1e-6)


def test_flat_heads_are_heads():
    q, k, v = waves(2, 3, 8), waves(2, 5, 4), waves(2, 5, 6)
    (flat,) = attention(kv_heads=2, groups=2, scale=0.5).torch(q, k, v)
    parts = [x.unflatten(2, (h, -1)).transpose(1, 2) for x, h in ((q, 4), (k, 2), (v, 2))]
    (y,) = attention(groups=2, scale=0.5).torch(*parts)
    assert torch.equal(flat, y.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("earlier", [0, 2])
def test_causal_attention_counts_from_the_past(earlier):
    q, k, v = (waves(1, 1, 3, 4) for _ in range(3))
    past = [waves(1, 1, earlier, 4).cos()] * 2 if earlier else []
    y, *kept = attention(is_causal=1).torch(q, k, v, *past)
    keys = torch.cat([past[0], k], 2) if earlier else k
    mask = torch.ones(3, 3 + earlier, dtype=torch.bool).tril(earlier)
    expected = F.scaled_dot_product_attention(
        q, keys, torch.cat([past[1], v], 2) if earlier else v, attn_mask=mask
    )
    assert torch.allclose(y, expected, atol=1e-6)
    assert [x.shape for x in kept] == [keys.shape] * (2 if earlier else 0)


def test_a_row_without_any_key_is_zero_and_not_comparable():
    q, k, v = (waves(1, 1, 2, 4) for _ in range(3))
    mask = torch.tensor([[True, False], [False, False]])
    (y,) = attention().torch(q, k, v, mask)
    assert torch.equal(y[..., 0, :], v[..., 0, :])
    assert (y[..., 1, :] == 0).all()
    (interval,) = admitted(attention(), [q.double(), k.double(), v.double(), mask], [DType.FLOAT32])
    assert interval.mask()[0, 0].all(-1).tolist() == [False, True]


def test_scores_come_out_at_the_stage_asked_for():
    q, k, v = waves(1, 1, 2, 4), waves(1, 1, 3, 4), waves(1, 1, 3, 4)
    raw, capped = q @ k.transpose(2, 3) * 0.5, 2 * torch.tanh(q @ k.transpose(2, 3) * 0.25)
    options = {"scale": 0.5, "softcap": 2.0}
    assert torch.allclose(attention(scale=0.5, qk=0).torch(q, k, v)[1], raw)
    assert torch.allclose(attention(**options, qk=1).torch(q, k, v)[1], capped)
    assert torch.allclose(attention(**options, qk=3).torch(q, k, v)[1], capped.softmax(-1))


def test_heads_must_fit():
    attention(groups=2).check(t(2, 4, 3, 8), t(2, 2, 5, 8), t(2, 2, 5, 6))
    with pytest.raises(ConstraintError):
        attention(groups=2).check(t(2, 4, 3, 8), t(2, 4, 5, 8), t(2, 4, 5, 6))
    with pytest.raises(ConstraintError):
        attention(groups=2).check(t(2, 4, 3, 8), t(2, 5, 8), t(2, 5, 6))


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotations_turn_pairs(interleaved):
    x, angle = waves(1, 2, 3, 4), ramp(1, 3, 2)
    op = RotaryEmbedding(interleaved=interleaved, partial=False, num_heads=1)
    (y,) = op.torch(x, angle.cos(), angle.sin())
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :2], x[..., 2:])
    turned = torch.complex(first, second) * torch.exp(1j * angle.unsqueeze(1))
    mine = (
        torch.complex(y[..., ::2], y[..., 1::2])
        if interleaved
        else torch.complex(y[..., :2], y[..., 2:])
    )
    assert torch.allclose(mine, turned, atol=1e-6)


def test_positions_pick_angles_and_the_rest_stays():
    x, angle = waves(1, 2, 6), ramp(4, 1)
    op = RotaryEmbedding(interleaved=0, partial=True, num_heads=2)
    (y,) = op.torch(x, angle.cos(), angle.sin(), torch.tensor([[0, 3]]))
    assert torch.equal(y[:, 0], x[:, 0])
    assert torch.equal(y[0, 1, [2, 5]], x[0, 1, [2, 5]])
    assert not torch.equal(y[0, 1], x[0, 1])


def test_keys_behind_the_lengths_take_no_part():
    q, k, v = (torch.randn(2, 1, 3, 4, dtype=torch.float64) for _ in range(3))
    usual = {"kv_heads": 1, "groups": 1, "scale": None, "softcap": 0.0, "qk": None}
    op = AttentionPadded(is_causal=0, **usual)
    (y,) = op.torch(q, k, v, torch.tensor([2, 3]))
    (first,) = Attention(is_causal=0, **usual).torch(q[:1], k[:1, :, :2], v[:1, :, :2])
    assert torch.allclose(y[:1], first)
    (causal,) = AttentionPadded(is_causal=1, **usual).torch(q, k, v, torch.tensor([3, 3]))
    assert torch.allclose(causal, Attention(is_causal=1, **usual).torch(q, k, v)[0])
