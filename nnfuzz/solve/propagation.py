"""Propagation of constraints over finite domains, and a search on top.

It is incomplete by design: it settles the small systems that one insertion adds, and leaves the
rest to Z3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Int, Var, evaluate
from nnfuzz.operators.draw import Draw
from nnfuzz.solve.domains import Contradiction, Domains


class Propagator:
    """Constraints, and the domains that they leave to their variables."""

    def __init__(
        self,
        constraints: Sequence[Bool],
        fixed: Mapping[Var, int] | None = None,
        values: dict[Expr, int] | None = None,
    ) -> None:
        """values: of expressions under the fixed variables, to be filled further.

        Raises: Contradiction if a constraint is False already.
        """
        self.domains = Domains(fixed, values)
        self.constraints = [c for c in constraints if isinstance(c, BoolExpr)]
        if len(self.constraints) < len(constraints) and not all(
            c for c in constraints if not isinstance(c, BoolExpr)
        ):
            raise Contradiction
        self.readers: dict[Var, list[BoolExpr]] = {}
        for constraint in self.constraints:
            found: dict[Var, None] = {}
            self._settled(constraint, found, set())
            for var in found:
                self.readers.setdefault(var, []).append(constraint)

    def _settled(self, e: Int | Bool, open_: dict[Var, None], visited: set[Expr]) -> bool:
        """Whether fixed variables settle an expression; if not, adds the other ones to `open_`."""
        if not isinstance(e, Expr):
            return True
        if e.op == "var":
            if e in self.domains.fixed:
                return True
            open_[e] = None  # type: ignore[index]
            return False
        if e in self.domains.values:
            return True
        if e in visited:
            return False
        if sum([self._settled(arg, open_, visited) for arg in e.args]) < len(e.args):
            visited.add(e)
            return False
        evaluate(e, self.domains.fixed, self.domains.values)
        return True

    @property
    def vars(self) -> list[Var]:
        """The free variables, in order of first appearance."""
        return list(self.readers)

    def propagate(self, constraints: Iterable[BoolExpr] | None = None, steps: int = 200) -> None:
        """Narrow until nothing changes or `steps` revisions are spent. Raises: Contradiction."""
        queue = list(self.constraints if constraints is None else constraints)
        domains = self.domains
        while queue and steps:
            steps -= 1
            domains.impose(queue.pop(0))
            if domains.changed:
                for var in dict.fromkeys(domains.changed):
                    for reader in self.readers.get(var, ()):
                        if reader not in queue:
                            queue.append(reader)
                domains.changed.clear()

    def assign(self, var: Var, lo: int, hi: int) -> bool:
        """Restrict a variable and propagate; undo everything and return False on contradiction."""
        box, decided = dict(self.domains.box), len(self.domains.decided)
        try:
            self.domains.narrow(var, lo, hi)
            self.domains.changed.clear()
            self.propagate(self.readers.get(var, ()))
        except Contradiction:
            self.domains.take_back(box, decided)
            return False
        return True


def solve(
    constraints: Sequence[Bool],
    draw: Draw,
    fixed: Mapping[Var, int] | None = None,
    free: Iterable[Var] = (),
    tries: int = 8,
    prefer: Mapping[Var, tuple[int, int]] | None = None,
    values: dict[Expr, int] | None = None,
) -> dict[Var, int] | None:
    """Random values for the variables of the constraints (and those in `free`), or None.

    Values come from random exponential bins of the ranges that propagation leaves, so they are
    diverse; a variable in `prefer` takes a value from that interval if it can. `free` variables are
    settled first, in their order. `fixed` ones keep their values. None means that the search
    failed, not that there is no solution. values: of expressions under the fixed variables; if
    there is a result, it holds values under the result as well.
    """
    try:
        system = Propagator(constraints, fixed, values)
        system.propagate()
    except Contradiction:
        return None
    result: dict[Var, int] = {}
    preferences = prefer or {}
    for var in dict.fromkeys([*(v for v in free if v not in system.domains.fixed), *system.vars]):
        value = _preferred(system, var, draw, preferences.get(var))
        if value is None:
            value = _settle(system, var, draw, tries)
        if value is None:
            return None
        result[var] = value
    env = {**system.domains.fixed, **result}
    decided = system.domains.values
    return result if all(evaluate(c, env, decided) for c in system.constraints) else None


def _preferred(
    system: Propagator, var: Var, draw: Draw, preference: tuple[int, int] | None
) -> int | None:
    if preference is None:
        return None
    lo, hi = system.domains.of(var)
    lo, hi = max(lo, preference[0]), min(hi, preference[1])
    if lo > hi:
        return None
    value = draw.integer(lo, hi)
    return value if system.assign(var, value, value) else None


def _settle(system: Propagator, var: Var, draw: Draw, tries: int) -> int | None:
    kind = draw.kinds.get(var, "size")
    for _ in range(tries):
        lo, hi = system.domains.of(var)
        if lo == hi:
            return lo
        value = draw.value(lo, hi, kind)
        if system.assign(var, value, value):
            return value
    lo, hi = system.domains.of(var)
    for value in draw.shuffled(range(lo, min(hi, lo + 63) + 1)):
        if system.assign(var, value, value):
            return value
    return None
