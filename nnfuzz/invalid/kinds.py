"""The form of a kind of fault: a function that makes it, and the clause that it violates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnx.defs import OpSchema

from nnfuzz.invalid.site import Site

Make = Callable[[Site], str]
"""Makes the fault and returns a sentence that describes it. Raises: NoPlace."""
Carries = Callable[[OpSchema], bool]


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    text: for people. carries: operators to which it applies; None for all. nodes: whether it needs
    several nodes, so that a generated graph serves better than a single operator.
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
