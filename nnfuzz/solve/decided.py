"""A constraint store without a solver: every variable gets its final value when it is added."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Sequence

from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Int, Var
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.solve.propagation import solve
from nnfuzz.solve.store import Accept

LAST = 6
"""How many of the last sizes may come again (see Sizes)."""


class EagerDraw(Draw):
    """Dice whose fresh variables are numbers already: random values of their domains."""

    def __init__(self, rng: random.Random, sizes: Sizes) -> None:
        super().__init__(rng, sizes)
        self._last: deque[int] = deque(maxlen=LAST)

    def var(self, name: str, lo: int, hi: int, kind: str = "size") -> int:
        if lo == hi:
            return lo
        if kind != "size":
            return self.value(lo, hi, kind)
        if self.sizes.powers and self.chance(self.sizes.powers):
            return self.power(lo, hi)
        again = self.sizes.again and self.chance(self.sizes.again)
        if again and (known := [size for size in self._last if lo <= size <= hi]):
            return self.choice(known)
        size = self.value(lo, hi, kind)
        self._last.append(size)
        return size


class DecidedStore:
    """Variables get values by propagation over the few constraints that come with them.

    Values are never revised, so the graph is concrete and constraints need not be stored.
    """

    immediate = True

    def __init__(self, rng: random.Random, sizes: Sizes, eager: bool) -> None:
        """eager: whether a first attempt draws numbers in place of variables, constraints unseen:
        most of them hold, and nothing has to be propagated."""
        lazy = Draw(rng, sizes)
        self.writing: Draw = EagerDraw(rng, sizes)
        self.draws: Sequence[Draw] = (self.writing, self.writing, lazy) if eager else (lazy,)
        self.env: dict[Var, int] = {}

    def known(self, e: Int) -> int | None:
        return e if isinstance(e, int) else None

    def extend(
        self, constraints: Iterable[Bool], free: Sequence[Var], accept: Accept, smt: bool = False
    ) -> bool:
        open_ = [c for c in constraints if c is not True]
        values: dict[Expr, int] = {}
        env: dict[Var, int] | None = {}
        if free or open_:
            if any(not isinstance(c, BoolExpr) and not c for c in open_):
                return False
            env = solve(open_, self.draws[-1], None, free, values=values)
        if env is None or not accept(env, values):
            return False
        self.env = env
        if free:
            self.draws[-1].kinds.clear()  # later constraints do not read these variables
        return True

    def mark(self) -> tuple[int, int]:
        return 0, 0

    def restore(self, mark: tuple[int, int]) -> None:
        pass
