"""`nnfuzz select MODELS... --out DIR`: of many models the few that matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.base.writing import as_json
from nnfuzz.cli.declared import AMOUNT, OTHERS
from nnfuzz.cli.errors import OK, UsageError, tell, writing
from nnfuzz.cli.options import Backends, Plugins
from nnfuzz.cli.values import duration, size, spoken

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry, BackendSpec
    from nnfuzz.corpus.pick import FindingTest, Selection, SourceTest
    from nnfuzz.corpus.selection import Budget


def select(
    out: Annotated[
        Path,
        AMOUNT.option("New folder for the models that are chosen.", "DIR", show_default=False),
    ],
    models: Annotated[
        list[Path] | None,
        typer.Argument(metavar="MODELS...", help="Folders of tests.", show_default=False),
    ] = None,
    from_findings: Annotated[
        list[Path] | None,
        OTHERS.option(
            "Take the reduced findings of a campaign as well, whatever they cover: tests that "
            "fail until the bug is fixed.",
            "CAMPAIGN",
        ),
    ] = None,
    count: Annotated[int | None, AMOUNT.option("Take at most so many models.", "N", min=1)] = None,
    max_bytes: Annotated[
        str | None, AMOUNT.option("At most so many bytes of files.", "20M")
    ] = None,
    max_time: Annotated[
        str | None,
        AMOUNT.option("At most this long in the compilers of --backend.", "2m"),
    ] = None,
    backend: Backends = None,
    plugin: Plugins = None,
) -> None:
    """Copy those models into a new folder that cover most, under a budget.

    \b
    nnfuzz select models --count 100 --out few
    nnfuzz select models --backend tvm --max-time 2m --out two-minutes-of-tvm
    nnfuzz select models --from-findings campaign --max-bytes 20M --out ours

    Counted are operators, their dtypes, ranks and attributes, which operator reads which, and the
    passes of the compilers of --backend that change something. These compilers run every model
    once; what none of them supports is left out.
    """
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.corpus.pick import check_unused, pick
    from nnfuzz.corpus.selection import Budget
    from nnfuzz.library.corpus import models_under_pytest
    from nnfuzz.library.settings import chosen_backends

    if not models and not from_findings:
        raise UsageError("of what? Name folders with models, or --from-findings CAMPAIGN")
    if max_time is not None and not backend:
        raise UsageError("--max-time is the time of a compiler: add --backend NAME")
    budget = Budget(
        count or math.inf,
        size(max_bytes) if max_bytes is not None else math.inf,
        duration(max_time, "--max-time") if max_time is not None else math.inf,
    )
    check_unused(out)  # before compilers measure every model
    registry = BackendRegistry.discover(plugin or [])
    findings = _findings(from_findings or [])
    specs = chosen_backends(registry, backend) if backend else ()
    sources = _sources(models or [], registry, specs)
    with writing(out):
        about = _about(models or [], from_findings or [])
        script = models_under_pytest(registry, specs, tell)
        found = pick(out, sources, findings, budget, about, script)
    _say(out, found, len(sources), len(findings), budget)
    raise typer.Exit(OK)


def _about(models: list[Path], campaigns: list[Path]) -> dict[str, object]:
    from nnfuzz.corpus.pick import provenance

    sources = [provenance(folder) for folder in models]
    return {"sources": [*sources, *({"findings": folder.name} for folder in campaigns)]}


def _findings(campaigns: list[Path]) -> list[FindingTest]:
    """Raises: Unreadable."""
    from nnfuzz.corpus.from_findings import reduced_findings, test_of_finding
    from nnfuzz.corpus.producers import Producers
    from nnfuzz.testcase.case import CaseConfig

    folders = [folder for campaign in campaigns for folder in reduced_findings(campaign)]
    found: dict[str, FindingTest] = {}
    if folders:
        with Producers(0, as_json(CaseConfig(exporter="direct")), 1) as producers:
            for folder in folders:
                made = test_of_finding(folder, producers)
                if isinstance(made, str):
                    tell(f"{folder} is left out: {made.splitlines()[0]}")
                else:
                    found.setdefault(made.name, made)
    return list(found.values())


def _sources(
    folders: list[Path], registry: BackendRegistry, specs: Sequence[BackendSpec]
) -> list[SourceTest]:
    """The tests with what they cover. Raises: UsageError, Unreadable, RunnerError."""
    from nnfuzz.backend.runner import BackendRunner
    from nnfuzz.cli.onnx_graph import model_graph
    from nnfuzz.cli.progress import steps
    from nnfuzz.corpus.layout import NotTensors, find_tests
    from nnfuzz.corpus.pick import SourceTest, names_for

    tests = [test for folder in folders for test in find_tests(folder)]
    if folders and not tests:
        raise UsageError(f"there is no test in {', '.join(map(str, folders))}")
    found, refused = [], 0
    with ExitStack() as stack, steps("models", len(tests)) as advance:
        runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
        for test, name in names_for(tests):
            source = None
            try:
                source = SourceTest.of(test, name, model_graph, runners)
            except NotTensors as error:
                tell(f"{test.name} is left out: {error}")
            found += [source] if source else []
            refused += source is None
            advance(f"{refused} left out" if refused else "")
    return found


def _say(out: Path, found: Selection, models: int, findings: int, budget: Budget) -> None:
    from nnfuzz.corpus.coverage import KINDS

    told = f"{len(found.tests)} of {models + findings} models in {out}, {found.size:,} bytes"
    took = f", {spoken(found.seconds)} of the compilers" if found.seconds else ""
    typer.echo(told + took + (f"; {findings} of them are findings" if findings else ""))
    for kind, (kept, whole) in found.coverage.items():
        typer.echo(f"{kept:>7} of {whole} ({kept / whole:.0%}) {KINDS[kind]}")
