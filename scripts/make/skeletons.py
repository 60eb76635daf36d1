"""Writes the skeletons that PyTorch's exporters make of modules.

Each module of `scripts/check/modules.py` and `scripts/make/deployed.py` is exported by both
exporters and read as `--seed-models` is. Sizes that may be others become letters, as in mined
patterns (`nnfuzz/mine/generalise.py`). Modules with an operator that has no spec are left out, and
so are those of fewer than LEAST nodes. The result is `opspecs/skeletons/exported.jsonl`.

    python -m scripts.make.skeletons
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.motif_turns import MotifTurn
from nnfuzz.generate.moves import GraphGrower
from nnfuzz.inputs.search import Found, search
from nnfuzz.ir.view import GraphView
from nnfuzz.materialize.importing import import_onnx
from nnfuzz.materialize.opsets import opset_range
from nnfuzz.mine.cuts import Cut, whole
from nnfuzz.mine.generalise import generalised
from nnfuzz.mine.mining import write_library
from nnfuzz.operators.mined import as_motif
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.motif_file import MinedPattern, MotifVariant
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.solve.decided import DecidedStore
from scripts.check.imports import exported
from scripts.check.modules import MODULES
from scripts.make import deployed

LIBRARY = Path(__file__).parents[2] / "opspecs" / "skeletons" / "exported.jsonl"
EXPORTS = (("torchscript", 20), ("dynamo", 23))
EVERY = {**MODULES, **deployed.MODULES}
TRIES, WORKING = 12, 0.75
"""Tries of a skeleton, and the share of them that must give a graph with inputs."""
LEAST = 4
"""Nodes of a skeleton: fewer are what other motifs have."""


def read(name: str, exporter: str, opset: int, registry: OpRegistry) -> GraphView:
    """The graph of a module as an exporter writes it. Raises: whatever either raises."""
    torch.manual_seed(0)
    made = EVERY[name]()
    made.module.eval()
    return import_onnx(exported(made, exporter, opset), registry, opset).graph.view()


def pattern(name: str, cut: Cut, registry: OpRegistry) -> MinedPattern | None:
    """The skeleton of a whole graph; None if it is larger than generated graphs may be."""
    variant = generalised(cut, registry.get, random.Random(0))
    if variant is None:
        return None
    variant = _with_positions(cut, variant, registry)
    return MinedPattern(name, cut.start, cut.nodes, (variant,), skeleton=True).checked()


def _with_positions(cut: Cut, variant: MotifVariant, registry: OpRegistry) -> MotifVariant:
    """The variant with the inputs marked that operators look up."""
    looked_up = {
        name
        for node in cut.nodes
        for name, read in zip(node.inputs, registry.get(node.op).patterns(len(node.inputs)))
        if read.index
    }
    inputs = {
        name: replace(value, position=name in looked_up and not value.weight)
        for name, value in variant.inputs.items()
    }
    return replace(variant, inputs=inputs)


def patterns(registry: OpRegistry) -> Iterator[MinedPattern]:
    """The skeletons of all modules; those of both exporters where they differ."""
    for name in EVERY:
        forms: set[str] = set()
        for exporter, opset in EXPORTS:
            label = f"{name}_{exporter}"
            try:
                cut = whole(read(name, exporter, opset, registry))
            except Exception as error:
                print(f"{label}: {type(error).__name__}: {str(error).splitlines()[0][:80]}")
                continue
            found = cut and len(cut.nodes) >= LEAST and cut.form not in forms
            made = pattern(label, cut, registry) if cut and found else None
            if made is None:
                print(f"{label}: left out")
                continue
            forms.add(cut.form if cut else "")
            letters = made.variants[0].sizes
            print(f"{label}: {len(made.nodes)} nodes, {len(letters)} sizes are free")
            yield made


def usable(found: Sequence[MinedPattern]) -> list[MinedPattern]:
    """The skeletons that generation can plant, and finds inputs for, in most of the tries."""
    specs = OpRegistry.load().specs()
    config = admitted_by_schema(GenerateConfig(opset=opset_range("direct")[1]), specs)
    catalog = Catalog(specs, config)

    def works(skeleton: Motif, seed: int) -> bool:
        store = DecidedStore(random.Random(seed), config.sizes, True)
        grower = GraphGrower(catalog, config, store, [MotifTurn(skeleton)])
        try:
            return grower.plant() and isinstance(
                search(grower.finish(), random.Random(seed)), Found
            )
        except (ValueError, LookupError):  # an attribute that no graph may have
            return False

    return [p for p in found if sum(works(as_motif(p), i) for i in range(TRIES)) >= WORKING * TRIES]


def main(out: Annotated[Path, typer.Option(help="The library.")] = LIBRARY) -> None:
    warnings.simplefilter("ignore")
    found = usable(list(patterns(OpRegistry.load())))
    write_library(found, out)
    print(f"{len(found)} skeletons: {out}")


if __name__ == "__main__":
    typer.run(main)
