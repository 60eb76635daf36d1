"""Operators of com.microsoft against numbers computed by hand; test_conformance has the rest."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
import torch
from nnfuzz.opspecs.contrib.experts import Preferred

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.reference_implementations import one_node
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()


def op(name, **attributes):
    return REGISTRY.get(f"com.microsoft.{name}")(**attributes)


def scalars(*numbers, dtype=torch.float32):
    return [torch.tensor(n, dtype=dtype) for n in numbers]


def test_models_import_version_1_of_the_domain_and_declare_what_onnx_cannot_infer():
    x = TensorType(DType.FLOAT32, (2, 3))
    model = one_node(OpInstance(op("QuickGelu", alpha=1.702), (x,)), [x], 17)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    assert versions == {"": 17, "com.microsoft": 1}
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("com.microsoft", "QuickGelu")
    onnx.checker.check_model(model, full_check=True)


def test_gelu_follows_the_sum_with_a_bias():
    x, bias = torch.zeros(2, 3), torch.tensor([1.0, 0.0, -1.0])
    (y,) = op("BiasGelu").torch(x, bias)
    phi = 0.5 * (1 + math.erf(math.sqrt(0.5)))
    assert torch.allclose(y[1], torch.tensor([phi, 0.0, phi - 1]))


def test_the_first_axis_moves_behind_the_stack_before_the_product():
    a, b = torch.rand(4, 2, 3), torch.rand(3, 2, 5)
    found = op("FusedMatMul", transA=0, transB=0, alpha=2.0, batchA=1, batchB=1).torch(a, b)
    expected = 2 * torch.einsum("mbk,kbn->bmn", a, b)
    assert torch.allclose(found, expected)


def test_an_activation_has_its_parameters():
    attributes = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    gemm = op("FusedGemm", activation="LeakyRelu", **attributes)
    (y,) = gemm.torch(torch.tensor([[-2.0, 0.0]]), torch.eye(2))
    assert y.tolist() == [[-0.5, 0.0]]


@pytest.mark.parametrize(("name", "expected"), [("QLinearAdd", 22), ("QLinearMul", 30)])
def test_numbers_are_dequantised_and_quantised_again(name, expected):
    """(10 - 2) * 0.5 = 4 and (12 - 4) * 0.25 = 2, in steps of 0.4 from 7, or 10 above it."""
    x, y = (torch.tensor([n], dtype=torch.uint8) for n in (10, 12))
    sx, sy, sz = scalars(0.5, 0.25, 0.4 if name == "QLinearAdd" else 0.35)
    zx, zy, zz = scalars(2, 4, 7, dtype=torch.uint8)
    (z,) = op(name, to=DType.UINT8).torch(x, sx, zx, y, sy, zy, sz, zz)
    assert z.tolist() == [expected]


def test_a_pool_of_bytes_has_the_attributes_of_the_pool():
    x = torch.arange(4, dtype=torch.uint8).reshape(1, 1, 4)
    pool = op(
        "QLinearAveragePool",
        to=DType.UINT8,
        kernel_shape=(2,),
        strides=(2,),
        auto_pad="NOTSET",
        pads=(0, 0),
        ceil_mode=0,
        count_include_pad=0,
    )
    (sx, sy), (zx, zy) = scalars(1.0, 0.5), scalars(0, 1, dtype=torch.uint8)
    (y,) = pool.torch(x, sx, zx, sy, zy)
    assert np.array_equal(y.numpy().reshape(-1), [2, 6])


def test_factors_may_be_dequantised_before_they_are_multiplied():
    torch.manual_seed(0)
    product = op("MatMulIntegerToFloat", columns=0, listed=0)
    for _ in range(50):
        a = torch.randint(-9, 10, (3, 8), dtype=torch.int8)
        b = torch.randint(-9, 10, (8, 4), dtype=torch.int8)
        s, t = torch.rand(()) + 0.1, torch.rand(()) + 0.1
        wide = [a.double(), b.double(), s.double(), t.double()]
        exact = (wide[0] @ wide[1]) * (wide[2] * wide[3])
        error = (((a * s) @ (b * t)).double() - exact).abs()
        assert (error <= product.radius(2.0**-24, exact, *wide)).all()
        most = (wide[0].abs() @ wide[1].abs()) * (wide[2] * wide[3])
        assert (product.radius(2.0**-24, exact, *wide) < 1e-6 * most).all()


GROUPED = {
    "kv_heads": 1,
    "groups": 2,
    "scale": 1.0,
    "softcap": 0.0,
    "is_causal": 1,
    "qk": None,
    "softmax_precision": None,
    "rotary": None,
    "keys_seen": 0,
    "smooth": 0,
}


def grouped(q, k, v, *rest, **changes):
    return op("GroupQueryAttention", **{**GROUPED, **changes}).torch(q, k, v, *rest)


def test_grouped_heads_share_keys_and_a_window_ends_at_the_query():
    q, k = torch.zeros(1, 4, 16), torch.zeros(1, 4, 8)
    v = torch.arange(4.0).reshape(1, 4, 1).expand(1, 4, 8)
    (y,) = grouped(q, k, v)
    assert y[0, :, 0].tolist() == y[0, :, 15].tolist() == [0.0, 0.5, 1.0, 1.5]
    (y,) = grouped(q, k, v, keys_seen=2)
    assert y[0, :, 0].tolist() == [0.0, 0.5, 1.5, 2.5]
    (y,) = grouped(q, k, v, smooth=1)
    assert torch.allclose(y[0, :, 0], torch.tensor([0.0, 1 / 3, 3 / 4, 6 / 5]))


def test_positions_start_behind_the_past_keys_and_rotate_queries_and_keys():
    q, k, v = torch.rand(1, 2, 32), torch.rand(1, 2, 16), torch.rand(1, 2, 16)
    past = torch.rand(1, 1, 3, 16), torch.rand(1, 1, 3, 16)
    cos, sin = torch.zeros(6, 8), torch.zeros(6, 8)
    cos[3:5], sin[3:5] = -1, 0
    _, keys, values = grouped(q, k, v, *past, cos, sin, rotary="halves")
    assert torch.equal(keys[0, 0], torch.cat([past[0][0, 0], -k[0]]))
    assert torch.equal(values[0, 0], torch.cat([past[1][0, 0], v[0]]))


def test_the_cache_has_room_behind_the_keys_that_it_holds():
    given = {n: v for n, v in GROUPED.items() if n not in ("rotary", "keys_seen", "smooth")}
    given |= {"kv_heads": 1, "groups": 1, "is_causal": 0, "biased": 0, "padding": 0}
    decoder = op("DecoderMaskedMultiHeadAttention", **given, position=1)
    q = torch.zeros(1, 1, 2)
    held, values = torch.zeros(1, 1, 4, 2), torch.full((1, 1, 4, 2), 3.0)
    values[:, :, 1:] = torch.nan
    (y,) = decoder.torch(q, q, torch.ones(1, 1, 2), held, values)
    assert y.tolist() == [[[2.0, 2.0]]]


MIXED = {"alpha": 1.0, "beta": 0.0, "limit": None}


def test_a_token_goes_through_the_experts_that_the_router_prefers():
    x, router = torch.ones(1, 1), torch.tensor([[2.0, 0.0, 2.0]])
    first, second = torch.ones(3, 1, 1), torch.tensor([1.0, 100.0, 3.0]).reshape(3, 1, 1)
    mixture = op("MoE", per=2, activation="relu", normalize_routing_weights=1, **MIXED)
    (y,) = mixture.torch(x, router, first, second)
    assert y.tolist() == [[2.0]]
    mixture = op("MoE", per=2, activation="relu", normalize_routing_weights=0, **MIXED)
    (y,) = mixture.torch(x, router, first, second)
    share = math.exp(2) / (2 * math.exp(2) + 1)
    assert y.item() == pytest.approx(4 * share)


def test_pairs_of_neighbours_are_gate_and_line():
    """silu(1) * (2 + 1)."""
    x, router = torch.ones(1, 1), torch.zeros(1, 1)
    first, second = torch.tensor([[[1.0], [2.0]]]), torch.ones(1, 1, 1)
    gates = {"alpha": 1.0, "beta": 1.0, "limit": None}
    mixture = op("MoE", per=1, activation="swiglu", normalize_routing_weights=1, **gates)
    (y,) = mixture.torch(x, router, first, second)
    assert y.item() == pytest.approx(3 / (1 + math.exp(-1)))


def test_of_experts_with_equal_scores_any_may_be_preferred():
    scores = torch.tensor([[1.0, 1.0, 0.0]])
    (y,) = Preferred(1).decided(0.0, Interval(scores, scores))
    assert (y.lo.tolist(), y.hi.tolist()) == ([[0.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]])


def test_bytes_hold_numbers_with_the_lower_bits_first():
    """Rows 0x21 and 0x98: 1, 2 and 8, 9, minus 8, times a half or one."""
    rows = torch.zeros(2, 8, dtype=torch.uint8)
    rows[0, 0], rows[1, 0] = 0x21, 0x98
    scales = torch.tensor([[0.5], [1.0]])
    gather = op("GatherBlockQuantized", bits=4, block=16)
    (y,) = gather.torch(rows, torch.tensor([1, 0]), scales)
    assert y[:, :3].tolist() == [[0.0, 1.0, -8.0], [-3.5, -3.0, -4.0]]


def test_columns_have_the_scale_of_the_block_that_g_idx_lists():
    packed = torch.full((1, 2, 8), 0x99, dtype=torch.uint8)
    product = {"bits": 4, "block": 16}
    a, scales = torch.eye(32), torch.tensor([[1.0, 2.0]])
    (plain,) = op("MatMulNBits", **product, turned=0).torch(a, packed, scales)
    (turned,) = op("MatMulNBits", **product, turned=1).torch(a, packed, scales)
    assert plain[:, 0].tolist() == [1.0] * 16 + [2.0] * 16
    assert turned[:, 0].tolist() == plain[:, 0].tolist()[::-1]


def test_an_embedding_is_the_normalised_sum_of_rows():
    words, places = torch.tensor([[1.0, 3.0], [5.0, 1.0]]), torch.zeros(2, 2)
    one, zero = torch.ones(2), torch.zeros(2)
    embedding = op("EmbedLayerNormalization", epsilon=1e-12, summed=1)
    y, total = embedding.torch(torch.tensor([[1, 0]]), words, places, one, zero)
    assert total.tolist() == [[[5.0, 1.0], [1.0, 3.0]]]
    assert torch.allclose(y, torch.tensor([[[1.0, -1.0], [-1.0, 1.0]]]))


def test_a_quantised_product_may_have_its_second_factor_transposed():
    """(3 - 1) * (5 - 4) + (2 - 1) * (7 - 6) = 3, plus 1, in steps of a half, from 10."""
    a, b = torch.tensor([[3, 2]], dtype=torch.uint8), torch.tensor([[5, 7]], dtype=torch.uint8)
    (sa, sb, sy), (za, zy) = scalars(1.0, 0.5, 1.0), scalars(1, 10, dtype=torch.uint8)
    bias, zb = torch.tensor([1], dtype=torch.int32), torch.tensor([4], dtype=torch.uint8)
    gemm = op("QGemm", columns=1, listed=0, transB=1)
    y = gemm.torch(a, sa, za, b, sb.reshape(1), zb, bias, sy, zy)
    assert y.tolist() == [[10 + round((2 * 1 + 1 * 3 + 1) * 0.5)]]


def test_attention_of_bytes_has_the_values_that_come_of_their_codes():
    """One token: the result is the value, (4 - 1) * (2 - 0) * 0.5 * 0.25, plus the bias."""
    attention = op("QAttention", num_heads=1, scale=None, unidirectional=0, columns=0)
    x, w = torch.full((1, 1, 1), 4, dtype=torch.uint8), torch.full((1, 3), 2, dtype=torch.int8)
    zero = torch.tensor(1, dtype=torch.uint8)
    (y,) = attention.torch(x, w, torch.tensor([9.0, 9.0, 1.0]), *scalars(0.5, 0.25), zero)
    assert y.tolist() == [[[1.75]]]


def test_the_first_and_last_samples_of_a_crop_are_its_corners():
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.5, 0.0, 1.5, 1.0]])
    images = torch.zeros(2, dtype=torch.int32)
    crop = op("CropAndResize", mode="bilinear", size=(2, 3), extrapolation=-1.0)
    y = crop.torch(x, boxes, images)
    assert y[:, 0].tolist() == [[[0.0, 1.5, 3.0], [8.0, 9.5, 11.0]], [[4.0, 5.5, 7.0], [-1.0] * 3]]
    nearest = op("CropAndResize", mode="nearest", size=(2, 2), extrapolation=0.0)
    box = torch.tensor([[0.2, 0.2, 0.8, 0.8]])
    assert nearest.torch(x, box, images[:1])[0, 0].tolist() == [[1.0, 2.0], [9.0, 10.0]]


def test_a_sample_at_the_edge_of_the_image_is_not_compared():
    x = torch.ones(1, 1, 4, 4)
    crop = op("CropAndResize", mode="bilinear", size=(2, 2), extrapolation=5.0)
    exact = [Interval(t, t) for t in (x, torch.tensor([[0.0, 0.25, 1.0, 0.5]]))]
    images = torch.zeros(1, dtype=torch.int32)
    (y,) = crop.decided(2.0**-24, *exact, Interval(images, images))
    assert y.mask()[0, 0].tolist() == [[False, False], [True, True]]
    assert bool(((y.lo <= 1) & (y.hi >= 1)).all())


def test_an_inverse_is_bounded_where_its_matrix_is_uncertain():
    x = torch.tensor([[2.0, 0.5], [0.25, 1.0]], dtype=torch.float64)
    inverse, e = op("Inverse"), 0.01
    (y,) = inverse.interval(Interval(x - e, x + e))
    for signs in np.ndindex(2, 2, 2, 2):
        moved = inverse.torch(x + e * (2 * torch.tensor(signs).reshape(2, 2) - 1))
        assert bool(((y.lo <= moved) & (moved <= y.hi)).all())
    assert bool((y.hi - y.lo < 0.1).all())
    (lost,) = inverse.interval(Interval(x - 1, x + 1))
    assert bool(lost.mask().all())


def test_distinct_elements_are_in_order_of_occurrence():
    y, places, counts = op("Unique", axis=None, sorted=0).torch(torch.tensor([2.0, 1.0, 1.0, 3.0]))
    assert y.tolist() == [2.0, 1.0, 3.0, 0.0]
    assert (places.tolist(), counts.tolist()) == ([0, 1, 1, 2], [1, 2, 1, 0])
