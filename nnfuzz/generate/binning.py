"""Attribute binning: moves dimensions and attributes away from the values solvers prefer."""

from __future__ import annotations

from nnfuzz.generate.growth import Growth
from nnfuzz.ir.expr import Var, and_


def rebin(growth: Growth, bins: int = 7) -> None:
    """Give every variable a random sub-range of a random exponential bin (NNSmith, Algorithm 2).

    The ranges that can hold together are found by halving: while the system has no solution, a
    random half of the added constraints is dropped. A solution that makes the graph too expensive
    counts as none; the witness of the insertions is what remains in the worst case.
    """
    session, draw = growth.session, growth.draw
    wishes = []
    for var in session.env:
        lo, hi = draw.binned(var.lo, var.hi, draw.kinds.get(var, "size"), bins)
        left = draw.integer(lo, hi)
        wishes.append(and_(var >= left, var <= draw.integer(left, hi)))
    wishes = draw.shuffled([w for w in wishes if not isinstance(w, bool)])
    while wishes:
        model = session.resettle(wishes)
        if model is not None and _all_affordable(growth, {**session.env, **model}):
            session.adopt(model)
            return
        wishes = wishes[: len(wishes) // 2]


def _all_affordable(growth: Growth, env: dict[Var, int]) -> bool:
    return all(
        growth.affordable(
            node.op, growth.graph.types(node.inputs), growth.graph.types(node.outputs), env
        )
        for node in growth.graph.nodes
    )
