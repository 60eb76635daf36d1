"""Motifs: sub-graphs that optimisers look for, inserted like operators. The contract and registry.

A motif is a function that writes a sub-graph behind a value of the growing graph, operator by
operator; the nodes are ordinary ones, so nothing downstream of generation knows about motifs:

    @motif(size=5)
    def gelu(m, x):
        half = m("Mul", x, 0.5)
        m("Mul", half, m("Add", m("Erf", m("Div", x, 2**0.5)), 1.0))
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.registry import installed, modules

if TYPE_CHECKING:
    from nnfuzz.spec.draw import Draw

Operand = str | float | TensorType
"""An existing value by name, a constant of that value, or a new weight of that type."""


class Misfit(Exception):
    """The motif does not fit here: an operator is missing, or its constraints cannot hold."""


class Writer(Protocol):
    """What a motif writes with (nnfuzz.generate.motifs has the one there is).

    draw: the dice; a motif may take different forms.
    """

    draw: Draw

    def __call__(self, op: str, *operands: Operand, **attributes: Any) -> Any:
        """Insert an operator; the name of its output, or a tuple of names if it has several.

        Constants get the dtype that the other operands imply, and a shape of one element. Operands
        that are left out are fresh, attributes that are left out are drawn. Raises: Misfit.
        """

    def type(self, name: str) -> TensorType:
        """The type of a value; dimensions may be expressions."""

    def shape(self, name: str) -> tuple[Int, ...]:
        """Its dimensions."""

    def weight(self, like: str, *shape: Int) -> TensorType:
        """The operand for a new weight of that shape and the dtype of `like`."""

    def shared(self, type_: TensorType, *ends: float) -> str:
        """A new weight that several operators can read.

        ends: the value of all its elements, or the least and the greatest; none: any.
        """

    def dim(self, rank: int) -> Int:
        """A fresh dimension of a tensor of that rank."""


@dataclass(frozen=True)
class Motif:
    """A motif and where it can stand.

    name: of the function. size: the most nodes that it writes. dtypes, ranks (inclusive): of the
    value that it starts from. weight: how often it is picked, relative to the others.
    """

    name: str
    write: Callable[[Writer, str], object]
    size: int
    dtypes: tuple[DType, ...] = FLOATS
    ranks: tuple[int, int] = (1, 5)
    weight: float = 1.0

    def starts_at(self, type_: TensorType) -> bool:
        """Whether the motif can stand behind a value of that type."""
        return type_.dtype in self.dtypes and self.ranks[0] <= type_.rank <= self.ranks[1]


def motif(
    size: int,
    dtypes: tuple[DType, ...] = FLOATS,
    ranks: tuple[int, int] = (1, 5),
    weight: float = 1.0,
) -> Callable[[Callable[[Writer, str], object]], Motif]:
    """Make a function a motif, so that registries find it. See Motif for the arguments."""

    def decorated(write: Callable[[Writer, str], object]) -> Motif:
        return Motif(write.__name__, write, size, dtypes, ranks, weight)

    return decorated


class MotifRegistry:
    """Motifs by name, in order of registration."""

    def __init__(self, motifs: Iterable[Motif] = ()) -> None:
        self._motifs: dict[str, Motif] = {}
        for found in motifs:
            self.add(found)

    def add(self, found: Motif) -> None:
        """Raises: ValueError if another motif has the name already."""
        known = self._motifs.setdefault(found.name, found)
        if known is not found:
            raise ValueError(
                f"motif {found.name} is registered twice: in {known.write.__module__} "
                f"and {found.write.__module__}"
            )

    def get(self, name: str) -> Motif:
        """Raises: KeyError naming the closest known motifs."""
        if name not in self._motifs:
            close = difflib.get_close_matches(name, self._motifs, 3, 0.5)
            hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(self)}"
            raise KeyError(f"unknown motif {name!r}; {hint}")
        return self._motifs[name]

    @classmethod
    def load(cls, plugins: Iterable[ModuleType] = ()) -> MotifRegistry:
        """The motifs in the modules that also hold operators: installed ones, then plug-ins."""
        registry = cls()
        for module in (*installed(), *plugins):
            for part in modules(module):
                for item in vars(part).values():
                    if isinstance(item, Motif) and item.write.__module__ == part.__name__:
                        registry.add(item)
        return registry

    def __iter__(self) -> Iterator[str]:
        return iter(self._motifs)

    def __len__(self) -> int:
        return len(self._motifs)

    def motifs(self) -> list[Motif]:
        """All motifs, in order of registration."""
        return list(self._motifs.values())
