"""Concrete applications of one operator, drawn for conformance checks.

Three ways to draw one: solved (attributes and shapes from the solver, forward or backward), blind
(uniform over the declared domains, without a look at `requires`), and broken (solved, but for one
condition that does not hold).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Bool, Expr, Var, evaluate, not_, variables
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.operators.operator import OpSpec, dtypes_of
from nnfuzz.solve.propagation import solve

SIZES = Sizes(max_dim=(1, 40, 16, 10, 8, 5, 3), max_numel=1 << 13, max_flops=1 << 21)
"""Small tensors: a check is about types and meaning, not about load."""

SignatureTypes = tuple[dict[str, DType], DType]


@dataclass(frozen=True)
class OpInstance:
    """An operator with concrete attributes, and concrete types of its inputs."""

    op: OpSpec
    types: tuple[TensorType, ...]

    def __repr__(self) -> str:
        return f"{self.op!r} on {list(self.types)}"


def solved(
    spec: type[OpSpec], signature: SignatureTypes, rank: int, draw: Draw
) -> OpInstance | None:
    """Forward: a fresh first input of that rank, then attributes, then the other inputs."""
    dtypes = dtypes_of(spec, draw.integer(*spec.arity()), signature[0])
    first = draw.tensor(dtypes[0], rank)
    op = fixed_output(spec.draw(draw, first), signature[1])
    types = op.complete(draw, first, dtypes)
    constraints = [*op.requires(*types), *_in_range(op.type_transfer(*types), draw.sizes)]
    return _settled(op, types, constraints, draw)


def preceding(
    spec: type[OpSpec], signature: SignatureTypes, rank: int, draw: Draw
) -> tuple[OpInstance, TensorType] | None:
    """Backward: input types inferred from an output of that rank, and that output's type.

    None where the operator has no such output or the solver finds nothing. Mirrors what the
    symbolic engine does.
    """
    first_rank = spec.input_rank(draw, rank)
    lo, hi = spec.inputs[0].ranks
    if first_rank is None or not lo <= first_rank <= hi:
        return None
    output = draw.tensor(signature[1], rank)
    dtypes = dtypes_of(spec, draw.integer(*spec.arity()), signature[0])
    first = draw.tensor(dtypes[0], first_rank)
    op = fixed_output(spec.draw_backward(draw, first, output), signature[1])
    types = op.infer_input_types(draw, first, dtypes, output)
    outputs = op.type_transfer(*types)
    if outputs[0].rank != rank:
        return None
    equal = [a == b for a, b in zip(outputs[0].shape, output.shape)]
    constraints = [*op.requires(*types), *equal, *_in_range(outputs, draw.sizes)]
    settled = _settled(op, [*types, output], constraints, draw)
    return (
        None if settled is None else (OpInstance(settled.op, settled.types[:-1]), settled.types[-1])
    )


def blind(spec: type[OpSpec], signature: SignatureTypes, draw: Draw) -> OpInstance:
    """Shapes and attributes drawn uniformly, `requires` left aside.

    Half of the time the other inputs follow `complete`, else their shapes are independent.
    """
    dtypes = dtypes_of(spec, draw.integer(*spec.arity()), signature[0])
    types = [
        _small(draw, dtype, pattern.ranks)
        for dtype, pattern in zip(dtypes, spec.patterns(len(dtypes)))
    ]
    op = fixed_output(spec.draw(draw, *types), signature[1])
    if draw.chance(0.5):
        types = op.complete(draw, types[0], dtypes)
    env = {v: draw.integer(v.lo, min(v.hi, v.lo + 63)) for v in symbols(op, types)}
    return OpInstance(op.concrete(env), tuple(t.concrete(env) for t in types))


def broken(spec: type[OpSpec], signature: SignatureTypes, draw: Draw) -> OpInstance | None:
    """An instance that violates exactly one condition of `requires`; None if none was found."""
    dtypes = dtypes_of(spec, draw.integer(*spec.arity()), signature[0])
    types = [
        draw.tensor(dtype, draw.integer(*_ranks(pattern.ranks)))
        for dtype, pattern in zip(dtypes, spec.patterns(len(dtypes)))
    ]
    op = fixed_output(spec.draw(draw, *types), signature[1])
    conditions = list(op.requires(*types))
    false = [i for i, c in enumerate(conditions) if not isinstance(c, Expr) and not c]
    open_ = [i for i, c in enumerate(conditions) if isinstance(c, Expr)]
    if len(false) > 1 or not (false or open_):
        return None
    rest: list[Bool] = [c for c in conditions if isinstance(c, Expr)]
    if not false:
        victim = draw.choice(open_)
        rest = [not_(c) if i == victim else c for i, c in enumerate(conditions) if i in open_]
    return _settled(op, types, rest, draw)


def emptied(
    spec: type[OpSpec], signature: SignatureTypes, rank: int, draw: Draw
) -> OpInstance | None:
    """An application to inputs of which a size is 0, with attributes for these; whether it is
    admitted is for `check` to say. None if attributes cannot be drawn for it.
    """
    dtypes = dtypes_of(spec, draw.integer(*spec.arity()), signature[0])
    sizes = [draw.integer(1, 4) for _ in range(rank)]
    sizes[draw.integer(0, rank - 1)] = 0
    first = TensorType(dtypes[0], tuple(sizes))
    op = fixed_output(spec.draw(draw, first), signature[1])
    types = op.complete(draw, first, dtypes)
    return _settled(op, types, list(op.requires(*types)), draw)


def fixed_output(op: OpSpec, output: DType) -> OpSpec:
    """Set the attribute that names the output's dtype, if the operator has one."""
    if isinstance(op.output, str) and op.output in op.declared:
        op.__dict__[op.output] = output
    return op


def symbols(op: OpSpec, types: Sequence[TensorType]) -> list[Var]:
    """The variables of an operator's attributes and its inputs' shapes."""
    values: list[object] = list(itertools.chain.from_iterable(t.shape for t in types))
    for value in op.attributes.values():
        values += value if isinstance(value, tuple) else [value]
    return variables(*(v for v in values if isinstance(v, Expr)))


def _settled(
    op: OpSpec, types: Sequence[TensorType], constraints: Sequence[Bool], draw: Draw
) -> OpInstance | None:
    for _ in range(4):
        env = solve(constraints, draw, free=symbols(op, types))
        if env is None:
            continue
        instance = OpInstance(op.concrete(env), tuple(t.concrete(env) for t in types))
        limit = draw.sizes.max_numel
        if all(math.prod(t.shape) <= limit for t in instance.types) and all(
            evaluate(c, env) for c in constraints
        ):
            return instance
    return None


def _in_range(outputs: Sequence[TensorType], sizes: Sizes) -> list[Bool]:
    limits: list[Bool] = []
    for type_ in outputs:
        for dim in type_.shape:
            limits += [dim >= 1, dim <= 4 * sizes.dim(type_.rank)]
    return limits


def _ranks(ranks: tuple[int, int]) -> tuple[int, int]:
    return ranks[0], min(ranks[1], 5)


def _small(draw: Draw, dtype: DType, ranks: tuple[int, int]) -> TensorType:
    rank = draw.integer(*_ranks(ranks))
    return TensorType(dtype, tuple(draw.integer(1, 4) for _ in range(rank)))
