"""Solved instances of operators, and tensors for them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import onnx
import torch

from nnfuzz.check.instances import OpInstance
from nnfuzz.check.runtimes import one_node
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.operators.operator import OpSpec, dtypes_of
from nnfuzz.solve.propagation import solve

SIZES = Sizes(max_dim=(1, 24, 12, 8, 6, 4))


def t(*shape: int, dtype: DType = DType.FLOAT32) -> TensorType:
    """A concrete tensor type."""
    return TensorType(dtype, shape)


def ramp(*shape: int) -> torch.Tensor:
    """0, 1, 2, ... in float32."""
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, dtype=torch.float32).reshape(shape)


def solved(
    spec: type[OpSpec], dtype: DType, count: int, seed: int = 0
) -> Iterator[tuple[OpSpec, list[TensorType]]]:
    """Concrete forward instances whose first input has that dtype."""
    signature = next(b for b, _ in spec.signatures() if b[spec.inputs[0].var] is dtype)
    for i in range(count):
        draw = Draw(random.Random(f"{seed}:{i}"), SIZES)
        lo, hi = spec.inputs[0].ranks
        dtypes = dtypes_of(spec, draw.integer(*spec.arity()), signature)
        first = draw.tensor(dtype, draw.integer(lo, min(hi, 5)))
        op = spec.draw(draw, first)
        types = op.complete(draw, first, dtypes)
        dims = [d for out in op.type_transfer(*types) for d in out.shape]
        limits = [*(d >= 1 for d in dims), *(d <= 64 for d in dims)]
        env = solve([c for c in (*op.requires(*types), *limits) if c is not True], draw)
        if env is not None:
            env = {**{v: v.lo for v in draw.kinds}, **env}
            yield op.concrete(env), [x.concrete(env) for x in types]


def lowered(op: OpSpec, opset: int, *types: TensorType) -> list[str]:
    """Operator types of the direct lowering, which passes the full check."""
    model = one_node(OpInstance(op, types), op.type_transfer(*types), opset)
    onnx.checker.check_model(model, full_check=True)
    return [node.op_type for node in model.graph.node]
