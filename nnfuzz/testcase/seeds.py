"""Seed models: ONNX files that generation starts from instead of an empty graph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_bytes, read_model

if TYPE_CHECKING:
    from nnfuzz.ir.graph import Graph
    from nnfuzz.materialize.importing import ImportedModel
    from nnfuzz.operators.registry import OpRegistry
    from nnfuzz.testcase.case import CaseConfig


class SeedError(Unreadable):
    """Seed models that cannot be used; the message has the reason."""


@dataclass(frozen=True)
class SeedModels:
    """The starting graphs. notes: on files, for users, one line each."""

    graphs: tuple[Graph, ...] = ()
    notes: tuple[str, ...] = ()


def seed_files(folder: Path) -> list[Path]:
    """The models below a folder, or the one file, sorted. Raises: SeedError if there are none."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.onnx"))
    if not files:
        what = "holds no .onnx file" if folder.is_dir() else "does not exist"
        raise SeedError(f"seed-models: {folder} {what}")
    return [path.absolute() for path in files]


def digest(files: Sequence[str | Path]) -> str:
    """A digest of the contents, in order. Raises: Unreadable."""
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(read_bytes(file)).digest())
    return total.hexdigest()[:16]


class SeedLibrary:
    """Reads seed models, each set of them once."""

    def __init__(self, registry: OpRegistry) -> None:
        self._registry = registry
        self._read: dict[tuple[object, ...], SeedModels] = {}

    def load(self, config: CaseConfig) -> SeedModels:
        """The models of a configuration of one exporter, at its opset.

        Those that cannot be used are noted and left out. Raises: SeedError if they have changed
        since the campaign began, or if none can be used.
        """
        if not config.seed_models:
            return SeedModels()
        key = config.seed_models, config.seed_digest, config.opset, config.exporter
        if key not in self._read:
            self._read[key] = _load(config, self._registry)
        return self._read[key]


def _load(config: CaseConfig, registry: OpRegistry) -> SeedModels:
    """`SeedLibrary.load` without its cache."""
    files = config.seed_models
    if digest(files) != config.seed_digest:
        raise SeedError("the seed models have changed since the campaign began; start a new one")
    graphs, notes = [], []
    for file in files:
        graph, note = _start(file, config, registry)
        graphs += [graph] if graph is not None else []
        notes += [note] if note else []
    if not graphs:
        raise SeedError("no seed model can be read:\n  " + "\n  ".join(notes))
    return SeedModels(tuple(graphs), tuple(notes))


def _start(file: str, config: CaseConfig, registry: OpRegistry) -> tuple[Graph | None, str]:
    """The graph of a model, if it can be used, and notes on it for users."""
    from nnfuzz.materialize.importing import import_onnx, opaque_nodes
    from nnfuzz.materialize.static import OnnxImportError

    try:
        imported = import_onnx(read_model(file), registry, config.opset)
    except (OnnxImportError, Unreadable) as error:
        return None, f"seed model {file} is left out: {error}"
    except Exception as error:  # a broken file may lead to any error
        return None, f"seed model {file} is left out: {type(error).__name__}: {error}"
    opaque = opaque_nodes(imported.graph)
    if opaque and config.exporter != "direct":
        return None, f"seed model {file} is left out: {opaque[0]} needs --exporter direct"
    facts = [*_facts(imported), *_opaque(opaque, imported)]
    return imported.graph, f"seed model {file}: {'; '.join(facts)}" if facts else ""


def _facts(imported: ImportedModel) -> Iterator[str]:
    """Sizes that were chosen, and the parts of the model that the graph lacks."""
    if imported.sizes:
        yield ", ".join(f"{name} = {size}" for name, size in imported.sizes.items())
    if imported.lost:
        kinds = ", ".join(dict.fromkeys(str(kind) for kind, _ in imported.lost))
        yield f"{len(imported.lost)} nodes are left out ({kinds}): {imported.lost[0][1]}"


def _opaque(opaque: Sequence[str], imported: ImportedModel) -> Iterator[str]:
    if opaque:
        yield (
            f"{len(opaque)} of {imported.count} nodes have no spec "
            f"({', '.join(dict.fromkeys(opaque))}); what depends on them is run, but not compared"
        )
