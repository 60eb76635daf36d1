"""Forms of test cases whose model was rewritten: "direct+times_one#5+function#12".

The name of a form says who wrote the model and which steps came after, so that whoever has the
graph, the weights and the name can make the model again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnfuzz.ir.graph import Graph
from nnfuzz.rewrite.rewriting import Step, rewritten

if TYPE_CHECKING:
    from nnfuzz.materialize.exporters import Exporter
    from nnfuzz.materialize.module import Array

SEPARATOR = "+"


@dataclass(frozen=True)
class Written:
    """A model, its form, and what it was before its rewrites; `plain` is empty without any."""

    model: bytes
    form: str
    plain: bytes = b""


def form_of(exporter: str, steps: Iterable[Step]) -> str:
    """The form's name."""
    return SEPARATOR.join((exporter, *map(str, steps)))


def parted(form: str) -> tuple[str, tuple[Step, ...]]:
    """The inverse of form_of. Raises: ValueError, KeyError for a step that is none."""
    exporter, *steps = form.split(SEPARATOR)
    return exporter, tuple(map(Step.parse, steps))


def write(
    form: str,
    exporters: Mapping[str, Exporter],
    graph: Graph,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    opset: int,
) -> Written:
    """The model of a graph in a form, of whose steps those are left out that have no place in it.

    Raises: ValueError, KeyError for no form, and as Exporter.export.
    """
    exporter, steps = parted(form)
    model = exporters[exporter].export(graph, weights, inputs, opset)
    if not steps:
        return Written(model, form)
    after, done = rewritten(model, steps)
    return Written(after, form_of(exporter, done), model if done else b"")
