"""The structures of the motifs that there are, so that mining finds others."""

from __future__ import annotations

import random
from collections.abc import Iterator

from nnfuzz.check.judgements import Judgements
from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.motifs import MissingOperator, plant
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.ir.view import GraphView
from nnfuzz.mine.cuts import cuts, edges_of
from nnfuzz.operators.motif import Motif, load_motifs
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.decided import DecidedStore

NODES = 24
SEEDS, PAIR_SEEDS = 40, 4
"""How often a motif is written to see its forms: by hand they have many, pairs few."""


def structures(registry: OpRegistry, mined: bool, judgements: Judgements) -> set[str]:
    """The structures of all cuts of all motifs, pairs among them.

    mined: whether motifs that were mined count, too. judgements: of earlier processes.
    """
    motifs = [motif for motif in load_motifs() if mined or not motif.mined]
    specs = registry.of_domains(())
    config = admitted_by_schema(GenerateConfig(nodes=NODES), specs, judgements=judgements)
    catalog = Catalog(specs, config, motifs)
    by_hand = {motif.name for motif in motifs}
    found: set[str] = set()
    seen: set[tuple[object, ...]] = set()
    for motif in catalog.motifs:
        for seed in range(SEEDS if motif.name in by_hand else PAIR_SEEDS):
            graph = _planted(motif, catalog, config, seed)
            if graph is None:
                continue
            weights = tuple(name in graph.weights for node in graph.nodes for name in node.inputs)
            form = (edges_of(graph.nodes), weights)
            if form not in seen:
                seen.add(form)
                found.update(_structures(graph, random.Random(seed)))
    return found


def _structures(graph: GraphView, rng: random.Random) -> Iterator[str]:
    """Of the cuts of a graph. Indices may be computed here: it is the structure that counts."""
    return (cut.structure for cut in cuts(graph, lambda node: [False] * len(node.inputs), rng))


def _planted(motif: Motif, catalog: Catalog, config: GenerateConfig, seed: int) -> GraphView | None:
    """The graph of a motif behind a new value; None if it does not fit there."""
    rng = random.Random(f"{motif.name}/{seed}")
    growth = Growth(DecidedStore(rng, config.sizes, True), config)
    lo, hi = motif.ranks
    rank = min(max(rng.randint(2, 4), lo), hi)
    dtype = motif.dtypes[0]
    start = growth.place(TensorType(dtype, tuple(rng.randint(2, 8) for _ in range(rank))))
    try:
        if start is None or plant(motif, catalog, growth, start) is None:
            return None
    except MissingOperator:
        return None
    graph: Graph = growth.graph
    graph.inputs = list(growth.placeholders)
    return graph.view()
