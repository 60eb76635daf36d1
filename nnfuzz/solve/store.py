"""The contract of stores for the constraints and variables of a growing graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from nnfuzz.ir.expr import Bool, Expr, Int, Var
from nnfuzz.operators.draw import Draw

Accept = Callable[[dict[Var, int], dict[Expr, int]], bool]
"""Decides whether values of the variables are acceptable; its second argument caches values of
expressions."""


class ConstraintStore(Protocol):
    """The constraint store of a growing graph (nnfuzz.generate.growth).

    draws: the sources of randomness by attempt, the last one for all further attempts; they differ
    in how a fresh variable is made. writing: the source for motifs, which use a variable several
    times. immediate: whether every variable gets its final value as soon as it is accepted, so that
    nothing in the graph is symbolic. env: values under which all constraints hold, of the last
    variables only if immediate.
    """

    draws: Sequence[Draw]
    writing: Draw
    immediate: bool
    env: dict[Var, int]

    def known(self, e: Int) -> int | None:
        """The value that an expression has at present; None where a variable is new."""
        ...

    def extend(
        self, constraints: Iterable[Bool], free: Sequence[Var], accept: Accept, smt: bool = False
    ) -> bool:
        """Add constraints and the new variables in `free` if they can hold, else change nothing.

        accept: a last check of the values (sizes, costs). smt: whether to ask a solver for values
        that change earlier ones, where there are no others.
        """
        ...

    def mark(self) -> tuple[int, int]:
        """The present state, for `restore`."""
        ...

    def restore(self, mark: tuple[int, int]) -> None:
        """Forget all constraints since the mark. None of them may have gone to a solver."""
        ...
