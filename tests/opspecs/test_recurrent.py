"""RNN, GRU and LSTM against PyTorch's own, and what ONNX has beyond them."""

from __future__ import annotations

import pytest
import torch
from nnfuzz.opspecs.recurrent import GRU, LSTM, RNN

from nnfuzz.ir.dtypes import DType
from tests.opspecs.samples import solved, t

STEPS, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6
PLAIN = {
    "direction": "bidirectional", "hidden_size": HIDDEN, "layout": 0, "lens": (), "clip": None,
    "given": ("B",), "activations": (), "explicit": 0,
}  # fmt: skip
ROWS = {RNN: [0], GRU: [1, 0, 2], LSTM: [0, 2, 3, 1]}
"""PyTorch's order of gates, as places in ONNX's."""


def spec(cls, **changed):
    extra = {"linear_before_reset": 1} if cls is GRU else {}
    kept = tuple(range(1 + len(cls.states)))
    return cls(**{**PLAIN, "kept": kept, **extra, **changed})


def inputs(cls, op, seed=0):
    torch.manual_seed(seed)
    x = torch.randn(STEPS, BATCH, WIDTH, dtype=torch.float64)
    shapes = op._shapes(t(STEPS, BATCH, WIDTH))[1:]
    return [x, *(torch.randn(shape, dtype=torch.float64) for shape in shapes)]


def reordered(cls, rows):
    """Rows of ONNX's gates in PyTorch's order."""
    parts = rows.chunk(len(cls.gates))
    return torch.cat([parts[i] for i in ROWS[cls]])


def own(cls, w, r, b):
    """The layer of PyTorch with the same parameters."""
    layer = getattr(torch.nn, cls.name)(WIDTH, HIDDEN, bidirectional=True).double()
    for d, suffix in enumerate(("", "_reverse")):
        wb, rb = b[d].chunk(2)
        for name, rows in (
            ("weight_ih", w[d]),
            ("weight_hh", r[d]),
            ("bias_ih", wb),
            ("bias_hh", rb),
        ):
            getattr(layer, f"{name}_l0{suffix}").data = reordered(cls, rows)
    return layer


@pytest.mark.parametrize("cls", [RNN, GRU, LSTM])
def test_the_plain_cells_are_those_of_pytorch(cls):
    op = spec(cls)
    x, w, r, b = inputs(cls, op)
    y, *states = op.torch(x, w, r, b)
    with torch.no_grad():
        wanted, last = own(cls, w, r, b)(x)
    torch.testing.assert_close(y.permute(0, 2, 1, 3).reshape(STEPS, BATCH, -1), wanted)
    for state, other in zip(states, last if cls is LSTM else [last]):
        torch.testing.assert_close(state, other)


@pytest.mark.parametrize("cls", [RNN, GRU, LSTM])
def test_each_sequence_ends_where_sequence_lens_says(cls):
    """As if it were run by itself; zeros follow."""
    op = spec(cls, lens=(1, 4, 2))
    tensors = inputs(cls, op)
    y, last, *_ = op.torch(*tensors)
    for b, steps in enumerate((2, 5, 3)):
        alone = [tensors[0][:steps, b : b + 1], *tensors[1:]]
        part, end, *_ = spec(cls).torch(*alone)
        torch.testing.assert_close(y[:steps, :, b], part[:, :, 0])
        torch.testing.assert_close(last[:, b], end[:, 0])
        assert not y[steps:, :, b].any()


@pytest.mark.parametrize("cls", [RNN, GRU, LSTM])
def test_layout_1_has_the_batch_first(cls):
    op, swapped = spec(cls, given=("initial_h",)), spec(cls, given=("initial_h",), layout=1)
    x, w, r, h = inputs(cls, op)
    y, last, *_ = op.torch(x, w, r, h)
    turned = swapped.torch(x.transpose(0, 1), w, r, h.transpose(0, 1))
    assert torch.equal(turned[0], y.permute(2, 0, 1, 3))
    assert torch.equal(turned[1], last.transpose(0, 1))


def test_peepholes_of_the_output_gate_see_the_new_state():
    op = spec(LSTM, direction="forward", hidden_size=1, given=("P",))
    zero = torch.zeros(1, 4, 1, dtype=torch.float64)
    w = torch.tensor([[[50.0], [0.0], [-50.0], [1.0]]], dtype=torch.float64)
    p = torch.tensor([[0.0, 2.0, 0.0]], dtype=torch.float64)
    x = torch.ones(1, 1, 1, dtype=torch.float64)
    _, h, c = op.torch(x, w, zero, p)
    torch.testing.assert_close(c.squeeze(), torch.tanh(x.squeeze()))
    torch.testing.assert_close(h, torch.sigmoid(2 * c) * torch.tanh(c))


def test_explicit_parameters_stand_in_the_order_of_the_functions_that_take_them():
    op = spec(GRU, activations=("HardSigmoid", "Tanh", "Sigmoid", "LeakyRelu"), explicit=1)
    attributes = op.onnx_attributes()
    assert attributes["activation_alpha"] == [0.25, 0.25]
    assert attributes["activation_beta"] == [0.375]


def test_bounds_of_cells_hold():
    for cls in (RNN, GRU, LSTM):
        for op, types in solved(cls, DType.FLOAT32, 20, seed=3):
            lo, hi = op.value_range(*[(-9.0, 9.0)] * len(types))
            for y in op.torch(*[torch.randn(tuple(x.shape)) * 3 for x in types]):
                assert float(y.min()) >= lo and float(y.max()) <= hi
