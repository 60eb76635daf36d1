"""Which test cases get a model with a symbolic dimension, and which dimension it is."""

from __future__ import annotations

import itertools
import random

import numpy as np

from nnfuzz.generate.resizing import Resizable
from nnfuzz.generate.symbolic import Generated
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.sizes import joined
from nnfuzz.materialize.dynamic import SizeError, emit_dynamic
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.testcase.case import CaseConfig

DIMENSIONS = 4
"""How many dimensions of a graph are tried."""


def sized(made: Generated, config: CaseConfig, rng: random.Random, index: int) -> tuple[Graph, str]:
    """The graph, at several sizes if it gets a symbolic dimension, and what exports it.

    Probes, whose index is negative, get none.
    """
    if index >= 0 and config.dynamic and made.resizable and rng.random() < config.dynamic:
        whole = at_several_sizes(made.resizable, rng, config.opset)
        if whole is not None:
            return whole, DYNAMIC
    return made.graph, config.exporter


def at_several_sizes(resizable: Resizable, rng: random.Random, opset: int) -> Graph | None:
    """The graph at several sizes (nnfuzz.ir.sizes) for which one model is right, if there is one.

    Raises: as `emit_model` does.
    """
    for family in itertools.islice(resizable.families(rng), DIMENSIONS):
        whole = joined(family)
        whole.verify()
        types = {name: whole.type(name) for name in whole.weights}
        weights = {name: np.zeros(t.shape, t.dtype.numpy) for name, t in types.items()}
        try:
            emit_dynamic(whole, weights, opset)
        except SizeError:
            continue
        return whole
    return None
