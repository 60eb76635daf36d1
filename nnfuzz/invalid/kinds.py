"""How a kind of fault is written: a function that makes it, with the clause that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx.defs import OpSchema

from nnfuzz.invalid.site import Site

Make = Callable[[Site], str]
"""Makes the fault and says what it is, in a sentence. Raises: NoPlace."""
Carries = Callable[[OpSchema], bool]


@dataclass(frozen=True)
class Kind:
    """A kind of fault. text: for people; carries: operators in which it can be made, None for any;
    nodes: whether it needs several of them, so that a generated graph serves better than one
    operator.
    """

    name: str
    clause: str
    text: str
    make: Make
    carries: Carries | None = None
    nodes: bool = False


def kind(
    clause: str, carries: Carries | None = None, nodes: bool = False
) -> Callable[[Make], Kind]:
    """Turns a function with a docstring into the kind of its name."""

    def made(make: Make) -> Kind:
        text = " ".join((make.__doc__ or "").split("\n\n")[0].split())
        return Kind(make.__name__.replace("_", "-"), clause, text, make, carries, nodes)

    return made
