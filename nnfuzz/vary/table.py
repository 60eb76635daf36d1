"""The table of all variations, in the order in which they are applied to a test case."""

from __future__ import annotations

from nnfuzz.vary.faults.catalogue import Faults
from nnfuzz.vary.generation import (
    Calls,
    Edges,
    Empty,
    Large,
    Leak,
    Motifs,
    Opset,
    Skeletons,
    Slow,
    Symbolic,
)
from nnfuzz.vary.quantize.twin import Quantised
from nnfuzz.vary.rewrite.variations import Forms, Rewrites, Spellings
from nnfuzz.vary.variation import Variation

VARIATIONS: tuple[type[Variation], ...] = (
    Opset, Symbolic, Large, Empty, Slow,  # sizes
    Skeletons, Motifs,  # parts of the graph
    Quantised, Calls, Leak, Edges,  # values
    Rewrites, Spellings, Forms,  # the model
    Faults,  # a model that must be refused
)  # fmt: skip
