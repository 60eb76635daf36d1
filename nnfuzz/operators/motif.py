"""The contract of motifs: sub-graphs that optimisers look for, inserted like operators.

A motif is a function that appends nodes to the growing graph, starting from one of its values. The
nodes are ordinary ones, so nothing downstream of generation knows about motifs:

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
"""The name of an existing value, the number in a new constant, or the type of a new weight."""


FACTOR = 64
"""The largest factor that is drawn for a dimension that is not decided yet."""
MISSED = "~"
"""Separates a motif's name from its kind of near miss (a deliberate deviation)."""


def planted_name(motif: str, missed: str) -> str:
    """The name of a planted motif in a test, such as "gelu_erf~swapped".

    missed: the kind of near miss, if the motif deviates from the exact pattern; otherwise "".
    """
    return f"{motif}{MISSED}{missed}" if missed else motif


class Misfit(Exception):
    """The motif cannot be inserted here: an operator is missing, or constraints cannot hold."""


class Writer(Protocol):
    """The interface by which a motif writes nodes; nnfuzz.generate.motifs implements it.

    draw: random choices, for motifs with several variants.
    """

    draw: Draw

    def __call__(self, op: str, *operands: Operand, **attributes: Any) -> Any:
        """Insert an operator. Returns the name of its output, or a tuple of names if it has
        several.

        Constants have one element and the dtype that the other operands imply. Operands that are
        not given become new values; attributes that are not given are drawn. Raises: Misfit.
        """

    def type(self, name: str) -> TensorType:
        """The type of a value; dimensions may be symbolic."""

    def node(self, name: str) -> Node:
        """The node that computes a value. Raises: Misfit for a value that no node computes."""

    def shape(self, name: str) -> tuple[Int, ...]:
        """The dimensions of a value; they may be symbolic."""

    def weight(self, like: str, *shape: Int) -> TensorType:
        """An operand that becomes a new weight of the given shape, with the dtype of `like`."""

    def shared(self, type_: TensorType, *ends: float) -> str:
        """A new weight that several operators can read.

        ends: one number is the value of all elements; two are the least and the greatest value;
        without them any values will do.
        """

    def free(self, type_: TensorType) -> str:
        """A new value that several operators can read: an input, or the result of nodes that are
        inserted later. In tests whose parameters are not all constants it may also be a weight."""

    def index(self, type_: TensorType, constant: bool = False) -> str:
        """A new value for operators that read positions; no node may compute it.

        It is a weight if `constant` is set, and otherwise an input. In tests whose parameters are
        not all constants, either may be the case.
        """

    def takes(self, op: str) -> bool:
        """Whether there is an operator of that name; a motif may write a variant without it."""

    def dim(self, rank: int) -> Int:
        """A fresh dimension for a tensor of the given rank."""


@dataclass(frozen=True, eq=False)
class Motif:
    """A motif and the values from which it can start.

    name: of the function. size: most nodes that it writes. dtypes, ranks (inclusive): of the value
    that it starts from. weight: how often it is picked, relative to others. begin: draws the type
    of a new value to start from (None if no dtype fits; its argument has the weights of the
    dtypes); a motif without `begin` starts from any value. skeleton: whether it is a large part of
    a deployed model, which has a test of its own (share set in nnfuzz.generate.turns). turns:
    whether graphs begin with it, or with a near miss of it, by turns.
    """

    name: str
    write: Callable[[Writer, str], object]
    size: int
    dtypes: tuple[DType, ...] = FLOATS
    ranks: tuple[int, int] = (1, 5)
    weight: float = 1.0
    begin: Begin | None = None
    skeleton: bool = False
    turns: bool = True


def factors(m: Writer, size: Int, options: Sequence[int]) -> tuple[Int, Int]:
    """Two factors of a dimension; the first one is one of `options`, which include 1.

    If the dimension is not decided yet, the second factor is a new variable.
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
    """Makes a function a motif that registries find. The arguments are described in Motif."""

    def decorated(write: Callable[[Writer, str], object]) -> Motif:
        return Motif(write.__name__, write, size, dtypes, ranks, weight)

    return decorated


def skeleton(
    size: int, begin: Begin, dtypes: tuple[DType, ...] = FLOATS, weight: float = 1.0
) -> Callable[[Callable[[Writer, str], object]], Motif]:
    """Makes a function a skeleton. The arguments are described in Motif."""

    def decorated(write: Callable[[Writer, str], object]) -> Motif:
        name = write.__name__
        return Motif(name, write, size, dtypes, weight=weight, begin=begin, skeleton=True)

    return decorated


def load_motifs(plugins: Iterable[ModuleType] = ()) -> list[Motif]:
    """All motifs in the packages that hold operators: installed packages, then plug-ins.

    Raises: ValueError if two motifs have the same name.
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
