"""Plants motifs and checks that every kind of near miss of each, and most mined motifs, occur.

Motifs are drawn, and have their turns, as in so many models of a campaign, and nothing else is
generated. A kind of near miss of a motif that did not occur is then tried by itself: what succeeds
there is missing, and what never does cannot be made of that motif. Mined motifs are counted after
one model in seven. Exits with 1 if something is missing.

    python -m scripts.check.near_misses --models 20000
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import typer
from rich.progress import track

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.cli.options import Seed
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.motif_turns import MotifTurn, motif_turns
from nnfuzz.generate.motifs import MissingOperator, NearMiss, plant
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.operators.mined import all_motifs
from nnfuzz.operators.motif import MISSED, load_motifs, pattern_name
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.decided import DecidedStore

MINED_SHARE = 0.95
"""Least share of the mined motifs that must occur in 3,000 of 20,000 models, or in proportion."""
EARLY = 3 / 20


def grower(catalog: Catalog, seed: str, turns: Sequence[MotifTurn] = ()) -> GraphGrower:
    config = catalog_config()
    store = DecidedStore(random.Random(seed), config.sizes, True)
    return GraphGrower(catalog, config, store, turns)


def planted(catalog: Catalog, seed: int, index: int) -> Sequence[str]:
    """The motifs of a model: each stands in a graph of its own, whose goal it may fill."""
    average = GenerateConfig().motifs
    draw = random.Random(f"{seed}/{index}/count")
    found: list[str] = []
    turns = motif_turns(catalog, seed, index)
    for number in range(int(average) + (draw.random() < average % 1)):
        made = grower(catalog, f"{seed}/{index}/{number}", () if number else turns)
        made.plant()
        found += made.planted
    return found


def catalog_config(**more: float) -> GenerateConfig:
    return GenerateConfig(nodes=10, opset=opset_range("direct")[1], **more)  # type: ignore[arg-type]


def possible(catalog: Catalog, tries: int) -> Iterator[str]:
    """The kinds of near miss that can be made of the only motif of a catalog."""
    (motif,) = catalog.motifs
    for kind in KINDS:
        for number in range(tries):
            made = grower(catalog, f"{motif.name}/{kind}/{number}")
            start = made._start_of(motif)
            try:
                near = NearMiss((kind,), 1 + number % motif.size)
                if start and plant(motif, catalog, made.growth, start, near):
                    yield kind
                    break
            except MissingOperator:
                return


def main(
    models: int = typer.Option(20000, help="Models of a campaign that are stood in for."),
    tries: int = typer.Option(60, help="Plantings of a kind of a motif that did not occur."),
    seed: Seed = 0,
) -> None:
    config, specs = catalog_config(), OpRegistry.load().specs()
    written = [motif for motif in load_motifs() if not motif.skeleton]
    catalog = Catalog(specs, admitted_by_schema(config, specs), all_motifs())
    found: Counter[str] = Counter()
    early: set[str] = set()
    for index in track(range(models), "planting"):
        found.update(planted(catalog, seed, index))
        if index < models * EARLY:
            early = {pattern_name(name) for name in found}
    missed = sum(count for name, count in found.items() if MISSED in name)
    print(f"{found.total()} plantings, {missed / found.total():.0%} near misses")
    mined = [motif.name for motif in catalog.motifs if motif.mined]
    share = len(early.intersection(mined)) / len(mined)
    print(f"{share:.1%} of {len(mined)} mined motifs in {models * EARLY:.0f} models")
    kinds = Counter(
        {k: sum(n for name, n in found.items() if name.endswith(MISSED + k)) for k in KINDS}
    )
    print(", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
    missing: list[str] = []
    made_of: Counter[str] = Counter()
    alone = Catalog(specs, admitted_by_schema(config, specs), [])
    for motif in track(written, "trying each kind"):
        alone.motifs = (replace(motif),)
        for kind in possible(alone, tries):
            made_of[kind] += 1
            name = f"{motif.name}{MISSED}{kind}"
            missing += [] if found[name] else [name]
    print("kinds by the motifs of which they can be made:", dict(made_of.most_common()))
    print(f"{made_of.total()} near misses of {len(written)} motifs, missing: {len(missing)}")
    for name in missing:
        print("MISSING", name)
    raise typer.Exit(1 if missing or share < MINED_SHARE else 0)


if __name__ == "__main__":
    typer.run(main)
