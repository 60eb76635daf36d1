"""What generation prefers in a campaign that is aimed at some operators.

Half of the operators that are picked are among them, and every motif has one of them: the more of
them it has, the more often it is picked. There are more motifs, most of which are arrangements of
the operators (nnfuzz.generate.arrangements).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.turns import NODES, operators_written
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.operator import OpSpec

AIMED, AGAIN = 2.0, 0.4
"""Motifs per graph, as a multiple of those without a focus, and `Sizes.again`."""


def focused_weights(
    weights: Mapping[str, float], specs: Iterable[type[OpSpec]], focus: Collection[str]
) -> dict[str, float]:
    """Factors on the frequencies of operators with which those of the focus, all equally frequent,
    are as frequent as the others are in all. weights: the factors without a focus.
    """
    own = {spec.name: spec.weight * weights.get(spec.name, 1.0) for spec in specs}
    aimed = [name for name in own if name in focus]
    rest = sum(weight for name, weight in own.items() if name not in focus) or 1.0
    plain = {spec.name: spec.weight or 1.0 for spec in specs}
    return {**weights, **{name: rest / len(aimed) / plain[name] for name in aimed}}


def touching(
    motifs: Iterable[Motif], specs: Iterable[type[OpSpec]], focus: Collection[str]
) -> list[Motif]:
    """The motifs that have an operator of the focus, weighed by the square of how many they have.

    Raises: NothingLeft.
    """
    known = _operators(tuple(motifs), tuple(specs))
    counts = {motif: len(names.intersection(focus)) for motif, names in known.items()}
    return [replace(m, weight=m.weight * count**2) for m, count in counts.items() if count]


@lru_cache(maxsize=4)
def _operators(
    motifs: tuple[Motif, ...], specs: tuple[type[OpSpec], ...]
) -> Mapping[Motif, frozenset[str]]:
    """The operators that each motif writes in one of the graphs in which it is tried."""
    config = GenerateConfig(nodes=NODES)
    catalog = Catalog(specs, config)
    return {motif: operators_written(motif, catalog, config) for motif in motifs}
