"""Attribute binning: diverse sizes and attributes instead of the extreme values that solvers prefer
(NNSmith, Algorithm 2)."""

from __future__ import annotations

from nnfuzz.generate.growth import Growth
from nnfuzz.ir.expr import Expr, Var
from nnfuzz.solve.session import SolverSession

BINNING_SEARCHES = 2
"""How many sets of bins are tried by propagation, which takes milliseconds."""


def rebin(growth: Growth, session: SolverSession, bins: int = 7) -> None:
    """Give every variable a value from a random exponential bin (NNSmith, Algorithm 2).

    A search by propagation gives each variable a value from its bin if it can. If no solution keeps
    the graph affordable, the values from the insertions remain.
    """
    for _ in range(BINNING_SEARCHES):
        preferences = _preferences(session, bins)
        if not preferences or _adopted(growth, session, session.resettle(preferences)):
            return


def _preferences(session: SolverSession, bins: int) -> dict[Var, tuple[int, int]]:
    draw = session.draw
    found = {}
    for var in draw.shuffled(list(session.env)):
        lo, hi = draw.binned(var.lo, var.hi, draw.kinds.get(var, "size"), bins)
        left = draw.integer(lo, hi)
        found[var] = left, draw.integer(left, hi)
    return found


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
