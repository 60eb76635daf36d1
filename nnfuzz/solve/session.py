"""A growing constraint system that always has a witness.

The session keeps values for all variables under which every accepted constraint holds. New
constraints usually concern new variables only, so propagation finds values for these while the
witness stays. If that fails, a search by propagation changes as little of the witness as possible,
and Z3 solves the whole system only if that fails too. Constraints are lowered to Z3 at its first
call, so most graphs never need its context.
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
    """Constraints and their witness, a store that stays symbolic; use as a context manager.

    budget: Z3 checks that `extend` may spend in all.
    """

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

    @property
    def checks(self) -> int:
        """Z3 checks made so far."""
        return self._smt.checks if self._smt else 0

    def value(self, e: Int | Bool) -> int | bool:
        """The value of an expression under the witness. Raises: KeyError for a new variable."""
        return evaluate(e, self.env, self._values)

    def known(self, e: Int) -> int | None:
        """`value`, or None where a variable is new."""
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
        """See Store. smt: whether to ask Z3 when the witness can not simply be extended."""
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
        """Extend by new values for the constraints' variables; the other ones keep theirs if they
        can.

        Propagation only.
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
        model = self.model(constraints)
        if model is None:
            return False
        env = {**self.env, **model}
        for var in free:
            if var not in env:
                env[var] = self.draw.value(var.lo, var.hi, self.draw.kinds.get(var, "size"))
        return self._move(env, constraints, accept)

    def _move(self, env: dict[Var, int], constraints: list[BoolExpr], accept: Accept) -> bool:
        """Make another solution of the constraints the witness, if it is acceptable."""
        if not accept(env, {}):
            return False
        self._commit(env)
        self.constraints += constraints
        return True

    def resettle(self, preferences: Mapping[Var, tuple[int, int]]) -> dict[Var, int] | None:
        """New values for all variables under which all constraints hold, or None.

        Propagation and search, without Z3; each variable takes a value that it prefers if it still
        can when its turn comes, in the order of the preferences.
        """
        order = dict.fromkeys((*preferences, *self.env))
        return solve(self.constraints, self.draw, free=order, tries=3, prefer=preferences)

    def model(self, extra: Sequence[Bool]) -> dict[Var, int] | None:
        """Z3's values under which all constraints and the extra ones hold, or None."""
        smt = self._smt
        if smt is None:
            from nnfuzz.solve.smt import SmtSolver  # Z3 takes time to load, and few graphs need it

            smt = self._smt = SmtSolver(self._seed, self._resources)
        if self._asserted < len(self.constraints):
            smt.add(self.constraints[self._asserted :])
            self._asserted = len(self.constraints)
        smt.push()
        smt.add(extra)
        model = smt.check()
        smt.pop()
        return model

    def mark(self) -> tuple[int, int]:
        """See Store."""
        return len(self.env), len(self.constraints)

    def restore(self, mark: tuple[int, int]) -> None:
        """See Store."""
        _shorten(self.env, mark[0])
        del self.constraints[mark[1] :]

    def adopt(self, model: dict[Var, int]) -> None:
        """Make a solution of all constraints the witness."""
        self._commit({**self.env, **model})

    def _commit(self, env: dict[Var, int]) -> None:
        self.env = env
        self._values = {}


def _shorten(entries: dict[Any, int], length: int) -> None:
    """Removes the last entries, so that so many are left."""
    while len(entries) > length:
        entries.popitem()
