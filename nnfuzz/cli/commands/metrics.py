"""`nnfuzz metrics DIR|CAMPAIGN [DIR2]`: how diverse models are, whoever made them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli import completion
from nnfuzz.cli.declared import MODELS, OTHERS
from nnfuzz.cli.errors import OK, UsageError, tell, writing
from nnfuzz.cli.options import Backends, Plugins
from nnfuzz.cli.values import listed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nnfuzz.backend.runner import BackendRunner
    from nnfuzz.ir.view import GraphView
    from nnfuzz.metrics.comparison import Counted, FolderComparison
    from nnfuzz.metrics.tally import Tally
    from nnfuzz.metrics.vocabulary import OperatorVocabulary
    from nnfuzz.store.store import Store

MOST_SHOWN = 5
"""Files that are left out by name; of more of them, how many."""
WIDTH = 24
"""Characters of the name of a folder above its column."""


def metrics(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR|CAMPAIGN...",
            help="Folders of ONNX models, or of campaigns, to be told side by side.",
            show_default=False,
        ),
    ],
    operators: Annotated[
        list[str] | None,
        MODELS.option(
            "Count these operators alone [default: all, against those that ONNX has].",
            "A,B",
            autocompletion=completion.complete_operators,
        ),
    ] = None,
    json: Annotated[
        Path | None, OTHERS.option("Everything, in a JSON file.", "FILE.json", "--json")
    ] = None,
    html: Annotated[
        Path | None,
        OTHERS.option("Everything, as one HTML page.", "FILE.html", "--html"),
    ] = None,
    backend: Backends = None,
    plugin: Plugins = None,
) -> None:
    """Count how diverse models are, whoever made them: two folders side by side.

    \b
    nnfuzz metrics models
    nnfuzz metrics ours theirs --operators Add,Conv,Relu --html both.html
    nnfuzz metrics models --backend onnxruntime --json metrics.json

    Counted are the eleven measures of Isra, vertices and edges (GenCoG), dtypes, shapes and pairs
    of operators (HirGen), attributes with their values, and with --backend the passes of a compiler
    that change the models. docs/METRICS.md has the definitions. What cannot be read is named and
    left out.
    """
    from nnfuzz.metrics.comparison import FolderComparison

    only = listed(operators)
    runners = _Runners(backend or [], plugin or [])
    with runners:
        found = [_counted(folder, only, runners.all) for folder in folders]
    vocabulary = _vocabulary([known for _, known in found], [one for one, _ in found], only)
    comparison = FolderComparison([one for one, _ in found], vocabulary)
    _say_left_out(comparison.counted)
    if json:
        from json import dumps

        _write(json, dumps(comparison.to_json(), indent=1) + "\n")
    if html:
        _write(html, comparison.page())
    _show(comparison)
    raise typer.Exit(OK)


class _Runners:
    """The compilers of --backend, as long as the block lasts."""

    def __init__(self, backends: list[str], plugins: list[Path]) -> None:
        self._backends, self._plugins = backends, plugins
        self.all: list[BackendRunner] = []

    def __enter__(self) -> _Runners:
        if self._backends:
            from nnfuzz.backend.registry import BackendRegistry
            from nnfuzz.backend.runner import BackendRunner
            from nnfuzz.library.settings import chosen_backends

            registry = BackendRegistry.discover(self._plugins)
            specs = chosen_backends(registry, self._backends)
            silent = [str(s) for s in specs if not registry.get(s.name).watches()]
            if silent:
                raise UsageError(f"{', '.join(silent)} does not tell what its passes change")
            self.all = [BackendRunner(spec, registry) for spec in specs]
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self.all:
            runner.close()


def _counted(
    folder: Path, only: Sequence[str], runners: Sequence[BackendRunner]
) -> tuple[Counted, OperatorVocabulary]:
    """What is in a folder, and the operators that it could have. Raises: UsageError, Unreadable."""
    from nnfuzz.store.store import FILE, Store

    if (folder / FILE).exists():
        if runners:
            raise UsageError(f"{folder} is a campaign, which has told of passes itself")
        with Store.open(folder, write=False) as store:
            return _of_campaign(folder, store, only)
    files = [folder] if folder.is_file() else _models(folder)
    if not files:
        raise UsageError(f"{folder} holds no model: there is no file *.onnx in it, nor a campaign")
    return _of_models(folder, files, only, runners)


def _models(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.onnx") if path.is_file())


def _of_models(
    folder: Path, files: list[Path], only: Sequence[str], runners: Sequence[BackendRunner]
) -> tuple[Counted, OperatorVocabulary]:
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.cli.onnx_graph import model_graph
    from nnfuzz.cli.progress import steps
    from nnfuzz.metrics.comparison import Counted
    from nnfuzz.metrics.tally import Tally
    from nnfuzz.metrics.vocabulary import of_onnx

    tally, left_out = Tally(only), dict[str, str]()
    with steps("models", len(files)) as advance:
        for file in files:
            try:
                _add(tally, model_graph(file), _passes(runners, file))
            except (UsageError, Unreadable, ValueError, TypeError) as error:
                left_out[str(file)] = str(error).splitlines()[0] if str(error) else repr(error)
            advance(f"{len(left_out)} left out" if left_out else "")
    return Counted(_name(folder), tally, left_out), of_onnx()


def _add(tally: Tally, graph: GraphView, passes: Mapping[str, Sequence[str]]) -> None:
    from dataclasses import replace

    from nnfuzz.ir.features import features

    nodes = tuple(node for node in graph.nodes if node.op != "Constant")
    tally.add(features(replace(graph, nodes=nodes)), passes)


def _passes(runners: Sequence[BackendRunner], file: Path) -> dict[str, list[str]]:
    """What compilers tell of the passes that change the model; none if they do not take it."""
    from nnfuzz.base.untrusted import read_bytes

    data = read_bytes(file) if runners else b""
    told = {r.name: r.told_passes(data, r.backend.default_levels()[-1]) for r in runners}
    return {name: found for name, found in told.items() if found is not None}


def _of_campaign(
    folder: Path, store: Store, only: Sequence[str]
) -> tuple[Counted, OperatorVocabulary]:
    from nnfuzz.base.untrusted import as_far_as
    from nnfuzz.metrics.comparison import Counted
    from nnfuzz.metrics.tally import Tally
    from nnfuzz.metrics.vocabulary import of_specs
    from nnfuzz.operators.registry import OpRegistry

    tally, missing = Tally(only), list[str]()
    passes = store.tests.passes.rows()
    for index, graph in as_far_as(store.tests.features(), "the graphs of tests", missing):
        tally.add(graph, passes.get(index, {}))
    known = of_specs(OpRegistry.load().specs())
    return Counted(_name(folder), tally, dict.fromkeys(missing, "damaged")), known


def _name(folder: Path) -> str:
    return folder.resolve().name


def _vocabulary(
    known: Sequence[OperatorVocabulary], counted: Sequence[Counted], only: Sequence[str]
) -> OperatorVocabulary:
    """The operators that all folders are measured against: those of ONNX, and what else occurs."""
    from nnfuzz.metrics.vocabulary import OperatorVocabulary

    every: dict[str, int] = {}
    for vocabulary in known:
        every |= dict(vocabulary.degrees)
    whole = OperatorVocabulary(every).with_({op for one in counted for op in one.tally.operators})
    return whole.only(only) if only else whole


def _say_left_out(counted: Sequence[Counted]) -> None:
    for one in counted:
        for number, (file, why) in enumerate(one.left_out.items()):
            if number == MOST_SHOWN:
                tell(f"{one.name}: {len(one.left_out) - number} more are left out")
                break
            tell(f"{file} is left out: {why}")


def _write(path: Path, text: str) -> None:
    from nnfuzz.base.files import write_atomically

    with writing(path):
        write_atomically(path, text.encode("utf-8", errors="replace"))
    tell(f"written: {path}")


def _show(comparison: FolderComparison) -> None:
    """The measures as a table, then which attributes are mostly at a boundary."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False, emoji=False)
    table = Table(box=None, pad_edge=False)
    for column in ("", "measure"):
        table.add_column(column, no_wrap=True)
    for one in comparison.counted:
        table.add_column(one.name[:WIDTH], justify="right")
    table.add_column("")
    group = ""
    for row in comparison.rows():
        measure = row.measure
        shown = measure.group if measure.group != group else ""
        group = measure.group
        table.add_row(shown, measure.name, *(value or "" for value in row.shown), measure.text)
    console.print(table)
    missing = comparison.missing()
    if missing and len(missing) < len(comparison.vocabulary):
        few = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        console.print(
            f"{len(missing)} of {len(comparison.vocabulary)} operators do not occur: {few}"
        )
