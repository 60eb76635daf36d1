"""Attribute binning: moves dimensions and attributes away from the values solvers prefer."""

from __future__ import annotations

from nnfuzz.generate.growth import Growth
from nnfuzz.ir.expr import Bool, Var, and_

SEARCHES = 2


def rebin(growth: Growth, bins: int = 7) -> None:
    """Give every variable a random sub-range of a random exponential bin (NNSmith, Algorithm 2).

    A search by propagation gives each variable a value that it prefers, in turn, as long as it can.
    Where that finds nothing, Z3 is asked for preferences that can hold together, by halving: while
    the system has no solution, a random half of them is dropped. A solution that makes the graph
    too expensive counts as none; the witness of the insertions is what remains in the worst case.
    """
    for _ in range(SEARCHES):
        preferences = _preferences(growth, bins)
        if not preferences or _adopted(growth, growth.session.resettle(preferences)):
            return
    terms = [t for t in map(_within, preferences.items()) if not isinstance(t, bool)]
    while terms:
        if _adopted(growth, growth.session.model(terms)):
            return
        terms = terms[: len(terms) // 2]


def _preferences(growth: Growth, bins: int) -> dict[Var, tuple[int, int]]:
    draw = growth.draw
    found = {}
    for var in draw.shuffled(list(growth.session.env)):
        lo, hi = draw.binned(var.lo, var.hi, draw.kinds.get(var, "size"), bins)
        left = draw.integer(lo, hi)
        found[var] = left, draw.integer(left, hi)
    return found


def _within(preference: tuple[Var, tuple[int, int]]) -> Bool:
    var, (lo, hi) = preference
    return and_(var >= lo, var <= hi)


def _adopted(growth: Growth, model: dict[Var, int] | None) -> bool:
    """Take over a model, if there is one and the graph stays affordable under it."""
    if model is None:
        return False
    env, values = {**growth.session.env, **model}, {}
    if not all(
        growth.affordable(
            node.op, growth.graph.types(node.inputs), growth.graph.types(node.outputs), env, values
        )
        for node in growth.graph.nodes
    ):
        return False
    growth.session.adopt(model)
    return True
