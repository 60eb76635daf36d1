"""Attribute binning: diverse sizes and attributes instead of the extreme values that solvers prefer
(NNSmith, Algorithm 2)."""

from __future__ import annotations

from nnfuzz.generate.growth import Growth
from nnfuzz.ir.expr import Bool, Expr, Var, and_
from nnfuzz.solve.session import SolverSession

BINNING_SEARCHES = 2
"""How many sets of bins are tried by propagation, which takes milliseconds, before Z3 is asked."""


def rebin(growth: Growth, session: SolverSession, bins: int = 7) -> None:
    """Give every variable a value from a random exponential bin (NNSmith, Algorithm 2).

    A search by propagation gives each variable a value from its bin if it can. If that fails, Z3 is
    asked whether all bins are compatible, and a random half of them is dropped until they are. If
    no solution keeps the graph affordable, the values from the insertions remain.
    """
    for _ in range(BINNING_SEARCHES):
        preferences = _preferences(session, bins)
        if not preferences or _adopted(growth, session, session.resettle(preferences)):
            return
    terms = [t for t in map(_within, preferences.items()) if not isinstance(t, bool)]
    while terms:
        if _adopted(growth, session, session.model(terms)):
            return
        terms = terms[: len(terms) // 2]


def _preferences(session: SolverSession, bins: int) -> dict[Var, tuple[int, int]]:
    draw = session.draw
    found = {}
    for var in draw.shuffled(list(session.env)):
        lo, hi = draw.binned(var.lo, var.hi, draw.kinds.get(var, "size"), bins)
        left = draw.integer(lo, hi)
        found[var] = left, draw.integer(left, hi)
    return found


def _within(preference: tuple[Var, tuple[int, int]]) -> Bool:
    var, (lo, hi) = preference
    return and_(var >= lo, var <= hi)


def _adopted(growth: Growth, session: SolverSession, model: dict[Var, int] | None) -> bool:
    """Use a solution, if there is one and the graph stays within the limits on size and cost."""
    if model is None:
        return False
    env = {**session.env, **model}
    values: dict[Expr, int] = {}
    if not all(
        growth.affordable(
            node.op, growth.graph.types(node.inputs), growth.graph.types(node.outputs), env, values
        )
        for node in growth.graph.nodes
    ):
        return False
    session.adopt(model)
    return True
