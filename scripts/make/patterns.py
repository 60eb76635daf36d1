"""Makes the library of mined patterns again that ships with nnfuzz.

python -m scripts.make.patterns CHECKOUTS              # every folder in it is a source
python -m scripts.make.patterns CHECKOUTS --backend onnxruntime

A folder named OWNER+NAME is the source OWNER/NAME. The Python files of its tests are run in a
sandbox, so take checkouts that you trust to some degree; only operators, attributes and their
relations are kept. The installed package onnx, with the backend tests that it makes, is always a
source.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.cli.progress import steps
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.motifs import plant
from nnfuzz.ir.dtypes import DType
from nnfuzz.mine.mining import Miner, MiningRequest, structure, write_library
from nnfuzz.mine.sources import ModelSource, source_of
from nnfuzz.operators.mined import as_motif
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.motif_file import MOST_NODES, MinedPattern
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.decided import DecidedStore

LIBRARY = Path(__file__).parents[2] / "opspecs" / "motifs" / "mined.jsonl"
TRIES = 20
MOST = 520
"""Patterns of the library."""


def sources(checkouts: Path) -> list[ModelSource]:
    """A source for each folder of checkouts, and the package onnx."""
    found = []
    for folder in sorted(path for path in checkouts.iterdir() if path.is_dir()):
        source = source_of(str(folder))
        tests = tuple(file for file in source.scripts if "test" in str(file.relative_to(folder)))
        found.append(replace(source, label=folder.name.replace("+", "/"), scripts=tests))
    return [*found, source_of("onnx")]


def plantable(patterns: Sequence[MinedPattern]) -> list[MinedPattern]:
    """The patterns that generation can plant behind a new value in a tenth of the tries or more."""
    specs = OpRegistry.load().specs()
    config = admitted_by_schema(GenerateConfig(nodes=MOST_NODES), specs)
    catalog = Catalog(specs, config)
    weights = {dtype: config.dtype_weight(dtype) or 0.0 for dtype in DType}

    def fits(motif: Motif, seed: int) -> bool:
        growth = Growth(DecidedStore(random.Random(seed), config.sizes, True), config)
        type_ = motif.begin(growth.store.writing, weights) if motif.begin else None
        start = growth.place(type_) if type_ else None
        return start is not None and plant(motif, catalog, growth, start) is not None

    motifs = {pattern.name: as_motif(pattern) for pattern in patterns}
    counts = {name: sum(fits(m, seed) for seed in range(TRIES)) for name, m in motifs.items()}
    return [pattern for pattern in patterns if 10 * counts[pattern.name] >= TRIES]


def main(
    checkouts: Annotated[Path, typer.Argument(help="Folder of folders with models and tests.")],
    backend: Annotated[str, typer.Option(help="What its passes change comes first.")] = "",
    most: Annotated[int, typer.Option(help="Patterns to keep.")] = MOST,
    out: Annotated[Path, typer.Option(help="The library.")] = LIBRARY,
) -> None:
    registry = BackendRegistry.discover()
    spec = registry.parse(backend) if backend else None
    request = MiningRequest(
        tuple(sources(checkouts)), most=most, python=True, mined=False, backend=spec
    )
    notes: list[str] = []
    mined = Miner(request, registry, notes.append, steps).mine()
    patterns = plantable(mined.patterns)
    write_library(patterns, out)
    origins = Counter(origin.source for p in patterns for origin in p.origins)
    for name, count in origins.most_common():
        print(f"{count:6d} patterns occur in {name}")
    distinct = len({structure(pattern) for pattern in patterns})
    print(f"{len(notes)} files cannot be used")
    print(f"{len(patterns)} patterns, {distinct} structures, of {mined.models} models: {out}")


if __name__ == "__main__":
    typer.run(main)
