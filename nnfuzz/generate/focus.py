"""What generation prefers in a campaign that focuses on some operators.

Half of the picked operators belong to the focus. Every motif has an operator of the focus; the more
it has, the more often it is picked. Graphs have more motifs, and most of these are arrangements
(nnfuzz.generate.arrangements).
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
"""In a campaign with a focus: a factor on the motifs per graph, and the value of `Sizes.again`."""


def focused_weights(
    weights: Mapping[str, float], specs: Iterable[type[OpSpec]], focus: Collection[str]
) -> dict[str, float]:
    """Factors on operators' frequencies, with a campaign's focus. All operators of the focus are
    equally frequent, and together as frequent as all others. weights: factors without a focus."""
    own = {spec.name: spec.weight * weights.get(spec.name, 1.0) for spec in specs}
    aimed = [name for name in own if name in focus]
    rest = sum(weight for name, weight in own.items() if name not in focus) or 1.0
    plain = {spec.name: spec.weight or 1.0 for spec in specs}
    return {**weights, **{name: rest / len(aimed) / plain[name] for name in aimed}}


def touching(
    motifs: Iterable[Motif], specs: Iterable[type[OpSpec]], focus: Collection[str]
) -> list[Motif]:
    """The motifs with an operator of the focus; their weights grow with the square of how many they
    have. If all operators of some motifs are in the focus, only the largest of these take turns.

    Raises: NothingLeft if there is no operator.
    """
    known = _operators(tuple(motifs), tuple(specs))
    covered = {names for names in known.values() if len(names) > 1 and names.issubset(focus)}
    turning = {names for names in covered if not any(names < other for other in covered)}
    return [
        replace(m, weight=m.weight * count**2, turns=not turning or names in turning)
        for m, names in known.items()
        if (count := len(names.intersection(focus)))
    ]


@lru_cache(maxsize=4)
def _operators(
    motifs: tuple[Motif, ...], specs: tuple[type[OpSpec], ...]
) -> Mapping[Motif, frozenset[str]]:
    """The names of the operators that each motif writes when it is tried."""
    config = GenerateConfig(nodes=NODES)
    catalog = Catalog(specs, config)
    return {motif: operators_written(motif, catalog, config) for motif in motifs}
