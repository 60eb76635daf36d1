"""Plants motifs in empty graphs and checks that every kind of near miss of each of them occurs.

Motifs are drawn as a campaign draws them, as often as in that many models, and nothing else is
generated. A kind that did not occur is then tried by itself: what succeeds there is missing, and
what never does cannot be made of that motif. Exits with 1 if something is missing.

    python -m scripts.check.near_misses --models 20000
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import typer
from rich.progress import track

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.cli.options import Seed
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.misses import KINDS
from nnfuzz.generate.motifs import MissingOperator, NearMiss, plant
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.operators.motif import MISSED, load_motifs
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.decided import DecidedStore

PLANTED = 0.95
"""Motifs per model, of GenerateConfig.motifs that were asked for, as scripts.check.vocabulary
counts them: some find no room."""


def grower(catalog: Catalog, seed: str) -> GraphGrower:
    config = catalog_config(motifs=1.5)
    return GraphGrower(catalog, config, DecidedStore(random.Random(seed), config.sizes, True))


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
    models: int = typer.Option(20000, help="Models in which motifs are planted as often."),
    tries: int = typer.Option(60, help="Plantings of a kind of a motif that did not occur."),
    seed: Seed = 0,
) -> None:
    config, specs = catalog_config(), OpRegistry.load().specs()
    written = load_motifs()
    catalog = Catalog(specs, admitted_by_schema(config, specs), written)
    found: Counter[str] = Counter()
    plantings = round(models * GenerateConfig().motifs * PLANTED)
    for index in track(range(plantings), "planting"):
        made = grower(catalog, f"{seed}/{index}")
        made.plant()
        found.update(made.planted)
    missed = sum(count for name, count in found.items() if MISSED in name)
    print(f"{found.total()} of {plantings} plantings, {missed / found.total():.0%} near misses")
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
    raise typer.Exit(1 if missing else 0)


if __name__ == "__main__":
    typer.run(main)
