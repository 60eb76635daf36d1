"""Motifs: sub-graphs that optimisers look for, inserted like operators. The contract.

A motif is a function that writes a sub-graph behind a value of the growing graph, operator by
operator; the nodes are ordinary ones, so nothing downstream of generation knows about motifs:

    @motif(size=5)
    def gelu(m, x):
        half = m("Mul", x, 0.5)
        m("Mul", half, m("Add", m("Erf", m("Div", x, 2**0.5)), 1.0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.registry import installed, modules

if TYPE_CHECKING:
    from nnfuzz.ir.graph import Node
    from nnfuzz.operators.draw import Draw

Begin = Callable[["Draw", Mapping[DType, float]], TensorType | None]
Operand = str | float | TensorType
"""An existing value by name, a constant of that value, or a new weight of that type."""


FACTOR = 64
"""The largest factor of a dimension that is not decided yet."""
MISSED = "~"
"""Stands in the name of a planted motif before the kind of near miss that it became."""


def planted_name(motif: str, missed: str) -> str:
    """The name of a planted motif in a test, such as "gelu_erf~swapped".

    missed: the kind of near miss that it became; "" for the exact pattern.
    """
    return f"{motif}{MISSED}{missed}" if missed else motif


class Misfit(Exception):
    """The motif does not fit here: an operator is missing, or its constraints cannot hold."""


class Writer(Protocol):
    """The interface by which a motif writes nodes (nnfuzz.generate.motifs implements it).

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

    def node(self, name: str) -> Node:
        """The node that computes a value. Raises: Misfit if none does."""

    def shape(self, name: str) -> tuple[Int, ...]:
        """Its dimensions."""

    def weight(self, like: str, *shape: Int) -> TensorType:
        """The operand for a new weight of that shape and the dtype of `like`."""

    def shared(self, type_: TensorType, *ends: float) -> str:
        """A new weight that several operators can read.

        ends: the value of all its elements, or the least and the greatest; none: any.
        """

    def free(self, type_: TensorType) -> str:
        """A new value that several operators can read: an input, or what nodes that are inserted
        later compute. Where not all parameters are constants, it may be a weight.
        """

    def index(self, type_: TensorType, constant: bool = False) -> str:
        """A new value that operators use as positions; nothing computes it. It is an input, or a
        weight if it is to be constant; where not all parameters are constants, any of both.
        """

    def takes(self, op: str) -> bool:
        """Whether there is an operator of that name; a motif may write another form without it."""

    def dim(self, rank: int) -> Int:
        """A fresh dimension of a tensor of that rank."""


@dataclass(frozen=True, eq=False)
class Motif:
    """A motif and where it can stand.

    name: of the function. size: the most nodes that it writes. dtypes, ranks (inclusive): of the
    value that it starts from. weight: how often it is picked, relative to the others.
    begin: draws the type of a new value that it can start from, or None, for weights of dtypes;
    None for a motif that starts from any value. skeleton: whether it is a
    part of a model that people deploy, too large to be one motif of several; skeletons have a share
    of the test cases of their own (nnfuzz.generate.turns).
    """

    name: str
    write: Callable[[Writer, str], object]
    size: int
    dtypes: tuple[DType, ...] = FLOATS
    ranks: tuple[int, int] = (1, 5)
    weight: float = 1.0
    begin: Begin | None = None
    skeleton: bool = False


def factors(m: Writer, size: Int, options: Sequence[int]) -> tuple[Int, Int]:
    """Two factors of a dimension, the first of which is one of the options.

    options: 1 is among them. The second factor is a variable if the dimension is not decided yet.
    """
    if not isinstance(size, int):
        return m.draw.choice(options), m.draw.var("f", 1, FACTOR)
    factor = m.draw.choice([option for option in options if size % option == 0])
    return factor, size // factor


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


def skeleton(
    size: int, begin: Begin, dtypes: tuple[DType, ...] = FLOATS, weight: float = 1.0
) -> Callable[[Callable[[Writer, str], object]], Motif]:
    """Make a function a skeleton that starts from a new value. See Motif for the arguments."""

    def decorated(write: Callable[[Writer, str], object]) -> Motif:
        name = write.__name__
        return Motif(name, write, size, dtypes, weight=weight, begin=begin, skeleton=True)

    return decorated


def load_motifs(plugins: Iterable[ModuleType] = ()) -> list[Motif]:
    """The motifs in the modules that also hold operators: installed ones, then plug-ins.

    Raises: ValueError if two of them have the same name.
    """
    motifs: dict[str, Motif] = {}
    for part in (part for top in (*installed(), *plugins) for part in modules(top)):
        for motif in vars(part).values():
            if isinstance(motif, Motif) and motif.write.__module__ == part.__name__:
                known = motifs.setdefault(motif.name, motif)
                if known is not motif:
                    homes = f"{known.write.__module__} and {motif.write.__module__}"
                    raise ValueError(f"motif {motif.name} is registered twice: in {homes}")
    return list(motifs.values())
