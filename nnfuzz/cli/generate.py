"""`nnfuzz generate`: a folder of regression models in ONNX's backend-test layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnfuzz.cli.errors import OK, UsageError, writing
from nnfuzz.cli.options import (
    Dtypes,
    Exclude,
    ExcludeDtypes,
    Exporter,
    Motifs,
    Nodes,
    Operators,
    Opset,
    Plugins,
    Seed,
    SeedModels,
)
from nnfuzz.cli.values import chosen_dtypes, listed, opsets_of, seeded

if TYPE_CHECKING:
    from nnfuzz.corpus.generate import Plan
    from nnfuzz.testcase.case import NotProduced

_LIBRARIES = ("nnfuzz", "torch", "onnx", "numpy", "z3-solver")


def generate(
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder of the corpus, made if need be.", show_default=False
        ),
    ],
    count: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Models to have in the folder in the end."),
    ] = 100,
    seed: Seed = None,
    nodes: Nodes = None,
    operators: Operators = None,
    exclude: Exclude = None,
    dtypes: Dtypes = None,
    exclude_dtypes: ExcludeDtypes = None,
    motifs: Motifs = None,
    seed_models: SeedModels = None,
    exporter: Exporter = None,
    opset: Opset = None,
    plugin: Plugins = None,
) -> None:
    """Write a folder of models with inputs and reference outputs, as ONNX's backend tests.

    \b
    nnfuzz generate --count 200 --out models
    nnfuzz generate --count 50 --nodes 5 --operators Conv,Relu,Add --exporter direct --out conv

    The folder may be there already: the same settings complete it, and a larger --count extends
    it. Nothing is ever half-written. Run it against a compiler with nnfuzz verify.
    """
    from nnfuzz.execute.registry import plugin_name
    from nnfuzz.testcase.case import CaseConfig

    given = {
        "nodes": nodes,
        "operators": listed(operators),
        "exclude": listed(exclude),
        "dtypes": chosen_dtypes(dtypes, exclude_dtypes),
        "plugins": tuple(plugin_name(path) for path in plugin or ()),
        **seeded(seed_models),
    }
    given = {name: value for name, value in given.items() if value}
    if motifs is not None:
        given["motifs"] = motifs
    opsets = opsets_of(exporter or ("direct" if seed_models else None), opset)
    config = CaseConfig(**given).written_by(opsets)
    _fill(out, _plan(count, seed or 0, config.to_json()))
    raise typer.Exit(OK)


def _plan(count: int, seed: int, config: dict[Any, Any]) -> Plan:
    from importlib.metadata import version
    from platform import python_version

    from nnfuzz.corpus.generate import Plan

    versions = {name: version(name) for name in _LIBRARIES}
    return Plan(count, seed, config, {**versions, "python": python_version()})


def _fill(out: Path, plan: Plan) -> None:
    """Writes the corpus and prints what became of it. Raises: UsageError."""
    from nnfuzz.cli.progress import steps
    from nnfuzz.corpus.generate import fill
    from nnfuzz.corpus.layout import CorpusError
    from nnfuzz.testcase.client import ProducerClient, ProducerSettingsError
    from nnfuzz.testcase.test_id import Numbered

    kept = 0
    skipped: list[NotProduced] = []
    try:
        with (
            writing(out),
            ProducerClient(plan.seed, plan.config) as producer,
            steps("models", plan.count) as advance,
        ):
            for written in fill(out, plan, lambda i: producer.produce(Numbered(plan.seed, i))):
                kept += written.resumed
                skipped += written.skipped
                advance(f"{len(skipped)} indexes skipped" if skipped else "")
    except (CorpusError, ProducerSettingsError) as error:
        raise UsageError(str(error)) from error
    there = f", {kept} of them were there" if kept else ""
    passed = f"; {len(skipped)} indexes gave no model and were passed over" if skipped else ""
    typer.echo(f"{plan.count} models in {out}{there}{passed}")
    faults = [failed for failed in skipped if failed.stage == "fault"]
    if faults:
        first = faults[0].message.strip().partition("\n")[0]
        typer.echo(
            f"{len(faults)} of them by a fault of nnfuzz, please report it: "
            f"{faults[0].id}: {first}",
            err=True,
        )
