"""The contract of stores for the constraints and variables of a growing graph, and the store
without a solver, in which every variable gets its final value when it is added."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from nnfuzz.ir.expr import Bool, BoolExpr, Expr, Int, Var
from nnfuzz.operators.draw import BLOCKS, Draw, Sizes
from nnfuzz.solve.propagation import solve

Accept = Callable[[dict[Var, int], dict[Expr, int]], bool]
"""(values of variables, cache of expressions' values) -> whether the values are acceptable."""


class ConstraintStore(Protocol):
    """Stores the constraints of a growing graph (nnfuzz.generate.growth).

    draws: sources of randomness for the first attempt, the second and so on; the last one serves
    all further attempts. They differ in how they make a fresh variable. writing: the source for
    motifs, which use a variable several times. immediate: whether every variable gets its final
    value as soon as it is accepted, so that the graph is never symbolic. env: values under which
    all constraints hold; if immediate, only those of the last call.
    """

    draws: Sequence[Draw]
    writing: Draw
    immediate: bool
    env: dict[Var, int]

    def known(self, e: Int) -> int | None:
        """The present value of an expression; None if it has a new variable."""
        ...

    def extend(
        self, constraints: Iterable[Bool], free: Sequence[Var], accept: Accept, smt: bool = False
    ) -> bool:
        """Add constraints and the new variables in `free`; change nothing if they cannot hold.

        accept: a last check of the values (sizes, costs). smt: whether a solver may change earlier
        values if necessary. Returns whether the constraints were added.
        """
        ...

    def mark(self) -> tuple[int, int]:
        """The present state, for `restore`."""
        ...

    def restore(self, mark: tuple[int, int]) -> None:
        """Forget all constraints since the mark; none of them may have been given to a solver."""
        ...


LAST = 6
"""How many of the last sizes may be repeated (`Sizes.again`)."""


class EagerDraw(Draw):
    """Random choices whose fresh variables are plain numbers, drawn from their domains."""

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
        blocks = self.sizes.blocks and self.chance(self.sizes.blocks)
        if blocks and (fitting := [size for size in BLOCKS if lo <= size <= hi]):
            return self.choice(fitting)
        again = self.sizes.again and self.chance(self.sizes.again)
        if again and (known := [size for size in self._last if lo <= size <= hi]):
            return self.choice(known)
        size = self.value(lo, hi, kind)
        self._last.append(size)
        return size


class DecidedStore:
    """A store that decides variables at once, by propagating the few constraints added with them.

    Values are never revised, so the graph is concrete and constraints need not be stored.
    """

    immediate = True

    def __init__(self, rng: random.Random, sizes: Sizes) -> None:
        """The first attempts draw numbers before they look at the constraints; most constraints
        then hold, and nothing has to be propagated."""
        self.writing: Draw = EagerDraw(rng, sizes)
        self.draws: Sequence[Draw] = (self.writing, self.writing, Draw(rng, sizes))
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
