"""A backend that has no code for Softplus, which an exporter makes of other operators."""

from __future__ import annotations

import sys
from pathlib import Path

from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Faults, FaultyBackend, FaultyCompiler

FAULTS = Faults()


@FAULTS.at(Stage.COMPILE, "Softplus")
def table_empty(site):
    """The table has no entry."""
    raise RuntimeError("the table of curves has an entry of length zero")


@backend
class Parts(FaultyBackend):
    name = "parts"
    compiler = FaultyCompiler(FAULTS)
