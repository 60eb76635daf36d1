"""A growing system of constraints, with values of all variables that satisfy it (the solution).

New constraints usually concern new variables only, so propagation finds values for these and the
solution is extended. If that fails, a search by propagation changes as few earlier values as
possible, and Z3 solves the whole system only if that fails too. Constraints are given to Z3 at its
first call, so most graphs never need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Int, Var, evaluate, variables
from nnfuzz.operators.draw import Draw
from nnfuzz.solve.propagation import solve
from nnfuzz.solve.store import Accept

if TYPE_CHECKING:
    from nnfuzz.solve.smt import SmtSolver


class SolverSession:
    """Constraints and a solution of them, which later constraints may change. Use as a context
    manager. budget: most Z3 checks that `extend` may make. resources: Z3 resource units per
    check."""

    immediate = False

    def __init__(self, draw: Draw, budget: int = 4, resources: int = 400_000) -> None:
        self.draw = draw
        self.draws: Sequence[Draw] = (draw,)
        self.writing = draw
        self.env: dict[Var, int] = {}
        self.constraints: list[BoolExpr] = []
        self.budget = budget
        self._seed = draw.integer(0, 2**31 - 1)
        self._resources = resources
        self._smt: SmtSolver | None = None
        self._asserted = 0
        self._values: dict[Expr, int] = {}

    def __enter__(self) -> SolverSession:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._smt is not None:
            self._smt.close()

    def value(self, e: Int | Bool) -> int | bool:
        """The value of an expression under the solution. Raises: KeyError for a new variable."""
        return evaluate(e, self.env, self._values)

    def known(self, e: Int) -> int | None:
        """The value of an expression under the solution; None if it has a new variable."""
        try:
            return self.value(e)
        except KeyError:
            return None

    def extend(
        self,
        constraints: Iterable[Bool],
        free: Sequence[Var],
        accept: Accept = lambda env, values: True,
        smt: bool = False,
    ) -> bool:
        """As ConstraintStore.extend. smt: whether to ask Z3 if earlier values have to change."""
        open_: list[BoolExpr] = []
        for constraint in constraints:
            if isinstance(constraint, BoolExpr):
                open_.append(constraint)
            elif not constraint:
                return False
        before = len(self.env), len(self._values)
        env = solve(open_, self.draw, self.env, free, values=self._values)
        self.env.update(env or {})
        if env is not None and accept(self.env, self._values):
            self.constraints += open_
            return True
        _shorten(self.env, before[0])
        _shorten(self._values, before[1])
        return smt and (self._bend(open_, free, accept) or self._ask(open_, free, accept))

    def _bend(self, constraints: list[BoolExpr], free: Sequence[Var], accept: Accept) -> bool:
        """Extend by new values for the constraints' variables, by propagation only.

        Other variables keep their values if possible.
        """
        touched = dict.fromkeys((*free, *variables(*constraints)))
        kept = {var: (value, value) for var, value in self.env.items() if var not in touched}
        order = (*touched, *kept)
        model = solve(
            [*self.constraints, *constraints], self.draw, free=order, tries=3, prefer=kept
        )
        return model is not None and self._move({**self.env, **model}, constraints, accept)

    def _ask(self, constraints: list[BoolExpr], free: Sequence[Var], accept: Accept) -> bool:
        if self.budget <= 0:
            return False
        self.budget -= 1
        smt = self._smt
        if smt is None:
            from nnfuzz.solve.smt import SmtSolver  # Z3 takes time to load, and few graphs need it

            smt = self._smt = SmtSolver(self._seed, self._resources)
        smt.add(self.constraints[self._asserted :])
        self._asserted = len(self.constraints)
        smt.push()
        smt.add(constraints)
        model = smt.check()
        smt.pop()
        if model is None:
            return False
        env = {**self.env, **model}
        for var in free:
            if var not in env:
                env[var] = self.draw.value(var.lo, var.hi, self.draw.kinds.get(var, "size"))
        return self._move(env, constraints, accept)

    def _move(self, env: dict[Var, int], constraints: list[BoolExpr], accept: Accept) -> bool:
        """Use another solution of the constraints, if `accept` admits it."""
        if not accept(env, {}):
            return False
        self._commit(env)
        self.constraints += constraints
        return True

    def resettle(self, preferences: Mapping[Var, tuple[int, int]]) -> dict[Var, int] | None:
        """New values for all variables under which all constraints hold, or None.

        preferences: per variable, an interval that its value is taken from if possible. Variables
        are decided in this order, by propagation and search, without Z3.
        """
        order = dict.fromkeys((*preferences, *self.env))
        return solve(self.constraints, self.draw, free=order, tries=3, prefer=preferences)

    def mark(self) -> tuple[int, int]:
        """The present state, for `restore`."""
        return len(self.env), len(self.constraints)

    def restore(self, mark: tuple[int, int]) -> None:
        """Forget all variables and constraints since the mark; Z3 must not have seen them."""
        _shorten(self.env, mark[0])
        del self.constraints[mark[1] :]

    def adopt(self, model: dict[Var, int]) -> None:
        """Use a solution of all constraints, as `resettle` returned it."""
        self._commit({**self.env, **model})

    def _commit(self, env: dict[Var, int]) -> None:
        self.env = env
        self._values = {}


def _shorten(entries: dict[Any, int], length: int) -> None:
    """Remove the last entries until `length` are left."""
    while len(entries) > length:
        entries.popitem()
