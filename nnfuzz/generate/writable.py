"""The motifs that a choice of operators can write, so that no test case has a turn in vain."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import lru_cache

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.motifs import MissingOperator, plant
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.operator import OpSpec
from nnfuzz.solve.store import DecidedStore

TRIED = 12
"""Graphs in which a motif is tried: some motifs have forms with other operators."""
FORMS = 4
"""Graphs in which the operators of a motif are looked for; most motifs have one form or two."""
NODES = 24
RANK, SIZE = 3, 4
"""Of the values that motifs start from; the rank as far as the motif takes it."""


@lru_cache(maxsize=8)
def writable(motifs: tuple[Motif, ...], specs: tuple[type[OpSpec], ...]) -> tuple[Motif, ...]:
    """The motifs that are written in one of the graphs in which they are tried, or lack no operator
    in any of them.

    They are written at the newest opset whatever that of a test is, so that all test cases of a
    campaign have the same turns. Raises: NothingLeft.
    """
    config = GenerateConfig(nodes=NODES)
    catalog = Catalog(specs, config)
    return tuple(motif for motif in motifs if _is_writable(motif, catalog, config))


def _is_writable(motif: Motif, catalog: Catalog, config: GenerateConfig) -> bool:
    lacking = False
    for seed in range(TRIED):
        try:
            if _is_written(motif, catalog, config, seed):
                return True
        except MissingOperator:
            lacking = True
    return not lacking


def operators_written(motif: Motif, catalog: Catalog, config: GenerateConfig) -> frozenset[str]:
    """The operators of the motif, as far as it is written in one of the graphs in which it is
    tried: some motifs have several forms.
    """
    found: set[str] = set()
    for seed in range(FORMS):
        with suppress(MissingOperator):
            found.update(node.op.name for node in _written(motif, catalog, config, seed) or ())
    return frozenset(found)


def _is_written(motif: Motif, catalog: Catalog, config: GenerateConfig, seed: int) -> bool:
    """Whether the motif fits behind a value of its own. Raises: MissingOperator."""
    return _written(motif, catalog, config, seed) is not None


def _written(
    motif: Motif, catalog: Catalog, config: GenerateConfig, seed: int
) -> list[Node] | None:
    """The nodes of the motif behind a value of its own; None if it does not fit.

    Raises: MissingOperator.
    """
    rng = random.Random(f"{motif.name}/{seed}")
    growth = Growth(DecidedStore(rng, config.sizes, True), config)
    weights = {dtype: config.dtype_weight(dtype) or 0.0 for dtype in DType}
    rank = min(max(RANK, motif.ranks[0]), motif.ranks[1])
    type_: TensorType | None = TensorType(motif.dtypes[0], (SIZE,) * rank)
    if motif.begin is not None:
        type_ = motif.begin(growth.store.writing, weights)
    start = growth.place(type_) if type_ else None
    fits = start is not None and plant(motif, catalog, growth, start) is not None
    return growth.graph.nodes if fits else None
