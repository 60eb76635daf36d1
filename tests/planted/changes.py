"""Changes to a program: planted bugs and legal variations, as data with one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.planted.program import Kernel, Node, Program

STRUCTURAL, SUBTLE, LEGAL = "structural", "subtle", "legal"


@dataclass(frozen=True)
class Change:
    """One deviation of level O1 from O0.

    kind: structural (wrong elements), subtle (numbers slightly off) or legal (rounding only).
    text: one line. apply: program -> changed program, None where there is nothing to change.
    """

    name: str
    kind: str
    text: str
    apply: Callable[[Program], Program | None]


Mutant = Callable[..., Any]
"""(run, attributes, *inputs) -> outputs, None for what the correct kernel returns.

`run(*inputs, **attributes)` is the correct kernel with some attributes replaced.
"""


def replaced(node: Node, mutant: Mutant) -> Node:
    """The node with a mutant of its kernel."""
    return replace(node, kernel=_mutated(node.kernel, mutant))


def _mutated(kernel: Kernel, mutant: Mutant) -> Kernel:
    def mutated(a, *xs):
        result = mutant(lambda *ys, **changed: kernel({**a, **changed}, *ys), a, *xs)
        return kernel(a, *xs) if result is None else result

    return mutated


class Catalogue(list[Change]):
    """Collects changes by decorators; a function's name and docstring become the change's."""

    def kernel(self, *ops: str, kind: str = STRUCTURAL) -> Callable[[Mutant], Mutant]:
        """A mutant of the kernels of some operators."""

        def register(mutant: Mutant) -> Mutant:
            def apply(program: Program) -> Program | None:
                if not any(node.op in ops for node in program.nodes):
                    return None
                return program.with_nodes(
                    replaced(n, mutant) if n.op in ops else n for n in program.nodes
                )

            self._add(mutant, kind, apply)
            return mutant

        return register

    def rewrite(self, kind: str = STRUCTURAL) -> Callable:
        """A function from a program to its new nodes; None or equal nodes where nothing matches."""

        def register(rewrite: Callable[[Program], Iterable[Node] | None]):
            def apply(program: Program) -> Program | None:
                nodes = rewrite(program)
                nodes = None if nodes is None else tuple(nodes)
                return None if nodes in (None, program.nodes) else program.with_nodes(nodes)

            self._add(rewrite, kind, apply)
            return rewrite

        return register

    def program(self, kind: str) -> Callable:
        """A function from a program to another program, or None."""

        def register(apply: Callable[[Program], Program | None]):
            self._add(apply, kind, apply)
            return apply

        return register

    def _add(self, function: Callable, kind: str, apply: Callable) -> None:
        if any(function.__name__ == change.name for change in self):
            raise ValueError(f"two changes are called {function.__name__}")
        text = (function.__doc__ or "").strip().splitlines()[0]
        self.append(Change(function.__name__, kind, text, apply))
