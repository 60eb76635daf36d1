"""`nnfuzz generate`: a folder of regression models in ONNX's backend-test layout."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnfuzz.base.writing import as_json
from nnfuzz.cli.declared import AMOUNT, MODELS, PROCESSES
from nnfuzz.cli.errors import OK, UsageError, writing
from nnfuzz.cli.options import (
    Backends,
    Dtypes,
    Engine,
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
from nnfuzz.cli.pytest_file import models_under_pytest
from nnfuzz.cli.values import listed, size

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry, BackendSpec
    from nnfuzz.backend.runner import BackendRunner
    from nnfuzz.corpus.entry import Entry
    from nnfuzz.corpus.generate import CorpusPlan, Produce
    from nnfuzz.corpus.producers import Producers
    from nnfuzz.testcase.case import CaseConfig, NotProduced
    from nnfuzz.testcase.identity import TestId

DEFAULT_COUNT = 100
_LIBRARIES = ("nnfuzz", "torch", "onnx", "numpy", "z3-solver")


def generate(
    out: Annotated[
        Path,
        AMOUNT.option("Folder of the corpus, made if need be.", "DIR", show_default=False),
    ],
    count: Annotated[
        int | None,
        AMOUNT.option("Models to have in the folder in the end [default: 100].", "N", min=1),
    ] = None,
    backend: Backends = None,
    singles: Annotated[
        bool,
        MODELS.option(
            "Models of one operator: every operator, dtype and value of an attribute once; "
            "as many as that takes, unless --count says how many at most.",
            "",
            "--singles",
        ),
    ] = False,
    data_sets: Annotated[
        int, AMOUNT.option("Inputs with outputs per model.", "N", min=1, max=100)
    ] = 1,
    max_bytes: Annotated[
        str | None,
        AMOUNT.option(
            "Pass over models that take more with their data: 64k, 1M [default: any].", "SIZE"
        ),
    ] = None,
    processes: Annotated[
        int | None,
        PROCESSES.option("Processes that make models [default: by cores].", "N", min=1, max=64),
    ] = None,
    seed: Seed = None,
    nodes: Nodes = None,
    operators: Operators = None,
    exclude: Exclude = None,
    dtypes: Dtypes = None,
    exclude_dtypes: ExcludeDtypes = None,
    motifs: Motifs = None,
    engine: Engine = None,
    seed_models: SeedModels = None,
    exporter: Exporter = None,
    opset: Opset = None,
    plugin: Plugins = None,
) -> None:
    """Write a folder of models with inputs and reference outputs, as ONNX's backend tests.

    \b
    nnfuzz generate --count 200 --out models
    nnfuzz generate --count 50 --nodes 5 --operators Conv,Relu,Add --exporter direct --out conv
    nnfuzz generate --backend tvm --out for-tvm       nothing that TVM calls unsupported
    nnfuzz generate --singles --ops Pad --out pads    one operator each, every mode and dtype

    The folder may be there already: the same settings complete it, and a larger --count extends
    it. Nothing is ever half-written. Models whose outputs a correct compiler may choose are passed
    over, so that data.json can say how far an output may be off. Run it against a compiler with
    nnfuzz verify, or any runner of ONNX's backend tests.
    """
    from nnfuzz.backend.registry import plugin_name
    from nnfuzz.backend.runner import BackendRunner
    from nnfuzz.corpus.generate import CorpusPlan, check_place
    from nnfuzz.corpus.layout import LICENSE
    from nnfuzz.library.settings import case_settings, exporter_names

    given: dict[str, Any] = {
        "nodes": nodes,
        "operators": listed(operators),
        "exclude": listed(exclude),
        "dtypes": listed(dtypes),
        "exclude_dtypes": listed(exclude_dtypes),
        "engine": engine,
        "plugins": tuple(plugin_name(path) for path in plugin or ()),
        "seed_models": seed_models,
        "exporter": exporter or ("direct" if singles else None),
    }
    given = {name: value for name, value in given.items() if value}
    given |= {} if motifs is None else {"motifs": motifs}
    given = case_settings(given, opset)
    exporters = given.pop("exporters", None) or exporter_names(None, opset)
    check_place(out)
    registry, specs = _compilers(backend or [], plugin or [])
    config, versions = _suiting(registry, specs, given, exporters, opset)
    most = size(max_bytes) if max_bytes is not None else 0
    wanted = DEFAULT_COUNT if count is None and not singles else count or sys.maxsize
    plan = CorpusPlan(
        wanted,
        seed or 0,
        as_json(config),
        {**_libraries(), **versions},
        data_sets,
        most,
        extra={"singles": True} if singles else {},
        license=f"{LICENSE} AND LicenseRef-seed-models" if seed_models else LICENSE,
        script=models_under_pytest(registry, specs),
    )
    _fill(out, plan, processes, singles, [BackendRunner(spec, registry) for spec in specs])
    raise typer.Exit(OK)


def _compilers(
    backends: list[str], plugins: list[Path]
) -> tuple[BackendRegistry, tuple[BackendSpec, ...]]:
    """Those that the corpus is for. Raises: UsageError, RegistryError, OptionError."""
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.library.settings import chosen_backends

    registry = BackendRegistry.discover(plugins)
    return registry, chosen_backends(registry, backends) if backends else ()


def _suiting(
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    given: dict[str, Any],
    exporters: Sequence[str],
    opset: int | None,
) -> tuple[CaseConfig, dict[str, str]]:
    """The settings of test cases that suit the backends, and the versions of these.

    given: fields of CaseConfig. Raises: UsageError, RunnerError.
    """
    from nnfuzz.cli.support import unsupported
    from nnfuzz.library.settings import choose_opset, onnx_release
    from nnfuzz.testcase.case import CaseConfig

    opsets = {name: choose_opset(registry, specs, opset, name) for name in exporters}
    config = CaseConfig(**given).written_by(opsets)
    if not specs:
        return config, {}
    config = replace(config, onnx_release=onnx_release(registry, specs))
    refused, versions = unsupported(registry, specs, config)
    return replace(config, refused=refused), versions


def _libraries() -> dict[str, str]:
    from importlib.metadata import version
    from platform import python_version

    return {**{name: version(name) for name in _LIBRARIES}, "python": python_version()}


def _fill(
    out: Path,
    plan: CorpusPlan,
    processes: int | None,
    singles: bool,
    runners: Sequence[BackendRunner],
) -> None:
    """Writes the corpus and prints what became of it. Raises: UsageError, RunnerError."""
    from nnfuzz.corpus.generate import check_corpus
    from nnfuzz.corpus.layout import CorpusError
    from nnfuzz.corpus.producers import Producers
    from nnfuzz.corpus.supported import supported_only
    from nnfuzz.library.settings import default_processes
    from nnfuzz.testcase.client import ProducerSettingsError

    processes = processes or default_processes(1)["producers"]
    try:
        check_corpus(out, plan)
        with ExitStack() as stack:
            stack.enter_context(writing(out))
            for runner in runners:
                stack.enter_context(runner)
            producers = stack.enter_context(Producers(plan.seed, plan.config, processes, plan.sets))
            if singles:
                plan = _of_singles(plan, producers)

            def produce(tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
                return supported_only(producers.entries(tests), runners)

            _say(out, *_written(out, plan, produce))
    except (CorpusError, ProducerSettingsError) as error:
        raise UsageError(str(error)) from error


def _of_singles(plan: CorpusPlan, producers: Producers) -> CorpusPlan:
    """The plan with the models of one operator that show everything."""
    from nnfuzz.cli.progress import steps

    tests: list[TestId] = []
    keys = producers.signatures()
    with steps("signatures", len(keys)) as advance:
        for found in producers.instances(keys):
            tests += found
            advance(f"{len(tests)} models")
    return replace(plan, tests=tuple(tests))


def _written(out: Path, plan: CorpusPlan, produce: Produce) -> tuple[int, int, list[NotProduced]]:
    """How many models there are, how many of them were there before, and what was passed over."""
    from nnfuzz.cli.progress import steps
    from nnfuzz.corpus.generate import fill

    models, kept = 0, 0
    skipped: list[NotProduced] = []
    most = min(plan.count, len(plan.tests) or plan.count)
    with steps("models", most) as advance:
        for written in fill(out, plan, produce):
            models += bool(written.name)
            kept += written.resumed
            skipped += written.skipped
            advance(f"{len(skipped)} passed over" if skipped else "")
    return models, kept, skipped


def _say(out: Path, models: int, kept: int, skipped: list[NotProduced]) -> None:
    there = f", {kept} of them were there" if kept else ""
    reasons = Counter(failed.stage for failed in skipped)
    told = ", ".join(f"{stage} {count}" for stage, count in reasons.items())
    passed = f"; {len(skipped)} indexes passed over ({told})" if skipped else ""
    typer.echo(f"{models} models in {out}{there}{passed}")
    faults = [failed for failed in skipped if failed.stage == "fault"]
    if faults:
        first = faults[0].message.strip().partition("\n")[0]
        typer.echo(
            f"{len(faults)} of them by a fault of nnfuzz, please report it: "
            f"{faults[0].id}: {first}",
            err=True,
        )
