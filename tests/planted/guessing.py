"""A compiler that infers wrong types for two operators, and fails in whatever reads them.

    nnfuzz fuzz --plugin tests/planted/guessing.py -b guessing --tests 600
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/guessing.py

The rank of Expand's result and the dtype of Floor's are wrong: each reader says so in words of its
own, at import, in compilation or at execution. One check fails at import and at execution.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler

FAULTS = Faults()
EXPANDED, FLOORED, PADDED = "rank_of_expand", "dtype_of_floor", "pad_table"
COMPILED = ("Add", "Sub", "Mul", "Div", "Max", "Min")
WORDS = (
    "axis {n} is out of bounds for an operand of {op}",
    "{op}: operands could not be broadcast together",
    "{op} expects rank {n}",
    "the shape of operand 0 of {op} has no extent {n}",
)


@FAULTS.at(Stage.IMPORT, "Reshape", when=lambda site: site.reads("Expand"), cause=EXPANDED)
def reshaped(site):
    """The rank of Expand's result is one too small."""
    raise IndexError(f"dimension {site.rank() + 3} of {site.node.inputs[0]} does not exist")


@FAULTS.at(Stage.IMPORT, *COMPILED, when=lambda site: site.reads("Floor"), cause=FLOORED)
def floored(site):
    """The dtype of Floor's result is an integer one."""
    raise ValueError(f"{site.op}: operands have different element types in {site.node.outputs[0]}")


@FAULTS.at(Stage.COMPILE, when=lambda site: site.reads("Expand"), cause=EXPANDED)
def expanded(site):
    """The rank of Expand's result is one too small."""
    words = WORDS[len(site.op) % len(WORDS)]
    raise RuntimeError(words.format(n=site.rank() + 2, op=site.op))


@FAULTS.at(Stage.COMPILE, when=lambda site: site.reads("Floor"), cause=FLOORED)
def floored_later(site):
    """The dtype of Floor's result is an integer one."""
    raise RuntimeError(f"codegen of {site.op}: no cast between data types {site.index}")


@FAULTS.at(Stage.IMPORT, "Pad", when=lambda site: site.rank() > 2, cause=PADDED)
def pad_table(site):
    """A table of layouts has no entry."""
    raise RuntimeError(f"table of layouts: no entry maps the layout of node {site.index}")


@FAULTS.kernel("Pad")
def pad_at_run_time(node, inputs, run):
    """The same table, read later."""
    raise RuntimeError("table of layouts: no entry maps the layout of node 7")


FAULTS[-1] = replace(FAULTS[-1], cause=PADDED)
COMPILER = FaultyCompiler(FAULTS)
causes_of = COMPILER.causes_of


@backend
class Guessing(FaultyBackend):
    name = "guessing"
    compiler = COMPILER
