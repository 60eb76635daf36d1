"""Makes the library of mined patterns again that ships with nnfuzz.

python -m scripts.make.patterns CHECKOUTS              # every folder in it is a source
python -m scripts.make.patterns CHECKOUTS --backend onnxruntime

A folder named OWNER+NAME is the source OWNER/NAME. The Python files of its tests are run in a
sandbox, so take checkouts that you trust to some degree; only operators, attributes and their
relations are kept. The installed package onnx, with the backend tests that it makes, is always a
source.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.cli.progress import steps
from nnfuzz.mine.mining import Miner, MiningRequest, structure, write_library
from nnfuzz.mine.sources import Source, source_of

LIBRARY = Path(__file__).parents[2] / "opspecs" / "motifs" / "mined.jsonl"
MOST = 900
"""Patterns of the library."""


def sources(checkouts: Path) -> list[Source]:
    """A source for each folder of checkouts, and the package onnx."""
    found = []
    for folder in sorted(path for path in checkouts.iterdir() if path.is_dir()):
        source = source_of(str(folder))
        tests = tuple(file for file in source.scripts if "test" in str(file.relative_to(folder)))
        found.append(replace(source, label=folder.name.replace("+", "/"), scripts=tests))
    return [*found, source_of("onnx")]


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
    write_library(mined.patterns, out)
    origins = Counter(origin.source for p in mined.patterns for origin in p.origins)
    for name, count in origins.most_common():
        print(f"{count:6d} patterns occur in {name}")
    distinct = len({structure(pattern) for pattern in mined.patterns})
    print(f"{len(notes)} files cannot be used")
    print(f"{len(mined.patterns)} patterns, {distinct} structures, of {mined.models} models: {out}")


if __name__ == "__main__":
    typer.run(main)
