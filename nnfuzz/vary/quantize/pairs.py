"""Pairs (QuantizeLinear, DequantizeLinear) around float operators, as model quantisers place them.

A runtime replaces DequantizeLinear, operator, QuantizeLinear by one integer kernel.
"""

from __future__ import annotations

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.codes import BLOCKS, QUANTISED, Codes, Grid, Values

LEFT_OUT = 0.1
"""Probability that an input of a quantised operator gets no pair."""
FLOATING = 0.3
"""Probability that a constant gets no pair, as with quantisers of activations only."""
ALSO_BEHIND = 0.85
"""Probability of a pair after a quantised operator."""
SAME_GRID = 0.75
"""Probability that the result of an operator that only moves elements keeps their grid (scale and
zero point)."""
WRONG_BIAS = 0.03
"""Share of biases whose scale is wrong by a factor of two."""
CHANNELS = {"Conv": 0, "ConvTranspose": 1, "MatMul": -1, "Gemm": -1}
"""Operators with weights as their second input: the channel axis of the weights."""


def with_pairs(values: Values, node: Node) -> None:
    """Add an operator whose inputs and outputs pass through codes. Raises: Misfit."""
    rng = values.rng
    weighted = node.op.name in CHANNELS and len(node.inputs) > 1
    inputs, weights = [], None
    for i, name in enumerate(node.inputs):
        left_out = FLOATING if name in values.constants else LEFT_OUT
        if values.type(name).dtype not in QUANTISED or rng.random() < left_out:
            inputs.append(values.floats(name))
        elif weighted and i == 1 and name in values.constants:
            weights = _weights(values, node)
            inputs.append(values.dequantised(weights, name))
        elif weighted and i == 2:
            inputs.append(_bias(values, node, weights))
        elif weighted and i == 1:
            inputs.append(values.dequantised(values.codes(name, (DType.UINT8,)), name))
        else:
            inputs.append(values.through(name))
    values.draft.copy(node, inputs)
    for name in node.outputs:
        values.hold(name)
        if values.type(name).dtype in QUANTISED and rng.random() < ALSO_BEHIND:
            _behind(values, node, name)


def _behind(values: Values, node: Node, name: str) -> None:
    """Add a pair after an output; if elements are only moved, with the input's grid.

    No pair is added if the values do not fit on a grid.
    """
    try:
        known = values.held[node.inputs[0]].codes
        moved = isinstance(node.op, DataMovement) and not node.op.mixes and known
        if moved and known[0].grid.axis is None and values.rng.random() < SAME_GRID:
            first = known[0]
            codes = values.quantised(name, first.scale, first.zero, first.grid, name)
            values.held[name].codes.append(codes)
        values.through(name)
    except Misfit:
        return


def channel_axis(node: Node, rank: int) -> int | None:
    """The axis of an operator's weights that has a scale per index; None for other operators."""
    if node.op.name == "Gemm" and node.op.attributes["transB"]:
        return 0
    axis = CHANNELS[node.op.name]
    return None if rank < 2 else axis


def _weights(values: Values, node: Node) -> Codes:
    """The codes of an operator's constant weights; scales per tensor, channel or block."""
    rng, name = values.rng, node.inputs[1]
    rank = values.type(name).rank
    axis, kind = channel_axis(node, rank), rng.random()
    if kind < 0.2 and rank >= 2 and node.op.name in ("MatMul", "Gemm"):
        along = -2 if axis == -1 else -1
        return values.weight(name, along, block=rng.choice(BLOCKS))
    return values.weight(name, axis if kind < 0.65 else None)


def _bias(values: Values, node: Node, weights: Codes | None) -> str:
    """The bias as a float; dequantised from int32 if the codes of both operands give a scale."""
    name = node.inputs[2]
    known = values.held[node.inputs[0]].codes
    if weights is None or not known or known[0].grid.axis is not None:
        return values.floats(name)
    try:
        whole, scale = values.bias(name, known[0], weights)
        if values.rng.random() < WRONG_BIAS:
            scale = np.asarray(scale * 2, scale.dtype)
        grid = Grid(DType.INT32, scale, axis=0 if scale.ndim else None)
        codes = values.draft.constant(whole, f"{name}_q")
        stored = Codes(codes, *values.parameters(grid, name), grid)
        return values.dequantised(stored, name)
    except Misfit:
        return values.floats(name)
