"""How diverse models are: folders of ONNX models and campaigns, counted side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import as_far_as
from nnfuzz.ir.features import features
from nnfuzz.materialize.model_graph import model_graph
from nnfuzz.metrics.measures import (
    Counted,
    FolderComparison,
    Tally,
    of_onnx,
)
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.records.config import ConfigError
from nnfuzz.records.observer import Steps
from nnfuzz.store.store import FILE, Store


def compare_folders(
    folders: Sequence[Path], operators: Sequence[str], steps: Steps
) -> FolderComparison:
    """The measures of all folders, of ONNX models or of campaigns.

    operators: those that are counted; all if empty. Raises: ConfigError for a folder without
    models; Unreadable.
    """
    counts = [_counted(folder, operators, steps) for folder in folders]
    counted = [one for one, _ in counts]
    occur = {op for one in counted for op in one.tally.operators}
    vocabulary = set(operators) or occur.union(*(known for _, known in counts))
    return FolderComparison(counted, vocabulary)


def _counted(folder: Path, only: Sequence[str], steps: Steps) -> tuple[Counted, set[str]]:
    """The measures of a folder, and the operators that it could have."""
    if (folder / FILE).exists():
        with Store.open(folder, write=False) as store:
            return _of_campaign(folder, store, only)
    files = [folder] if folder.is_file() else sorted(filter(Path.is_file, folder.rglob("*.onnx")))
    if not files:
        raise ConfigError(f"{folder} holds no model: there is no file *.onnx in it, nor a campaign")
    return _of_models(folder, files, only, steps)


def _of_models(
    folder: Path, files: Sequence[Path], only: Sequence[str], steps: Steps
) -> tuple[Counted, set[str]]:
    tally, left_out = Tally(only), dict[str, str]()
    with steps("models", len(files)) as advance:
        for file in files:
            try:
                graph = model_graph(file)
                nodes = tuple(node for node in graph.nodes if node.op != "Constant")
                tally.add(features(replace(graph, nodes=nodes)))
            except (Unreadable, ValueError, TypeError) as error:
                left_out[str(file)] = str(error).splitlines()[0] if str(error) else repr(error)
            advance(f"{len(left_out)} left out" if left_out else "")
    return Counted(folder.resolve().name, tally, left_out), of_onnx()


def _of_campaign(folder: Path, store: Store, only: Sequence[str]) -> tuple[Counted, set[str]]:
    tally, missing = Tally(only), list[str]()
    for _, graph in as_far_as(store.tests.features(), "the graphs of tests", missing):
        tally.add(graph)
    known = {spec.name for spec in OpRegistry.load().specs()}
    return Counted(folder.resolve().name, tally, dict.fromkeys(missing, "damaged")), known
