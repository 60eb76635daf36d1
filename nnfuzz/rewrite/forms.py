"""Forms of test cases whose model was rewritten: "direct+times_one#5+function#12".

The name of a form says which exporter wrote the model and which rewriting steps followed, so the
model can be made again from the graph, the weights and the name.
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
    """A model and its form. plain: the model before its rewrites; empty if there are none."""

    model: bytes
    form: str
    plain: bytes = b""


def form_name(exporter: str, steps: Iterable[Step]) -> str:
    """The name of a form."""
    return SEPARATOR.join((exporter, *map(str, steps)))


def parse_form(form: str) -> tuple[str, tuple[Step, ...]]:
    """The inverse of form_of. Raises: ValueError; KeyError for an unknown rule."""
    exporter, *steps = form.split(SEPARATOR)
    return exporter, tuple(map(Step.parse, steps))


def write_form(
    form: str,
    exporters: Mapping[str, Exporter],
    graph: Graph,
    weights: Mapping[str, Array],
    inputs: Mapping[str, Array],
    opset: int,
) -> Written:
    """Writes the model of a graph in a form. Steps that apply nowhere in the model are left out.

    Raises: ValueError, KeyError if the name is no form; and as Exporter.export.
    """
    exporter, steps = parse_form(form)
    model = exporters[exporter].export(graph, weights, inputs, opset)
    if not steps:
        return Written(model, form)
    after, done = rewritten(model, steps)
    return Written(after, form_name(exporter, done), model if done else b"")
