"""The commands on folders of regression models: generate, verify, and select."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nnfuzz.backend.registry import BackendRegistry, plugin_name
from nnfuzz.backend.releases import known_release
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import cache_folder
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.setting import DURATION
from nnfuzz.base.shard import Shard
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.configuration import (
    Specs,
    chosen_backends,
    corpus_config,
    default_workers,
    library_versions,
)
from nnfuzz.cli.errors import (
    FINDINGS,
    NOT_COMPARED,
    OK,
    listed,
    tell,
    write_json,
    writing,
)
from nnfuzz.cli.options import (
    AMOUNT,
    OTHERS,
    PART,
    REPORTED,
    TESTED,
    Backends,
    JUnit,
    Levels,
    Plugins,
    SummaryMd,
    taking,
)
from nnfuzz.cli.progress import steps
from nnfuzz.cli.reports import write_reports
from nnfuzz.corpus.generate import (
    CorpusPlan,
    check_unused,
    fill,
    models_under_pytest,
    supported_only,
)
from nnfuzz.corpus.layout import LICENSE, Entry, TestFolder, tests_in
from nnfuzz.corpus.producers import Producers
from nnfuzz.corpus.results import LevelResult, excused, to_json
from nnfuzz.corpus.results import baseline as read_baseline
from nnfuzz.corpus.select import KINDS, Selection
from nnfuzz.corpus.select import select as select_models
from nnfuzz.corpus.verify import verify as run_corpus
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.result import Result
from nnfuzz.feedback.tables import claims_of, refused_here
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import findings_of, save_finding
from nnfuzz.records.settings import SETTINGS
from nnfuzz.testcase.case import ModelError, NotProduced
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.testcase.identity import TestId

# -- generate --------------------------------------------------------------------------------

DEFAULT_COUNT = 100
WHOLE = Shard()


@taking(
    *"seed nodes domains operators exclude dtypes exclude-dtypes motifs quantize sizes".split(),
    *"engine seed-models exporter opset".split(),
)
def generate(
    out: Annotated[Path, AMOUNT.option("New folder for the corpus.", "DIR", show_default=False)],
    given: dict[str, Any],
    count: Annotated[
        int | None,
        AMOUNT.option("Models to write [default: 100].", "N", min=1),
    ] = None,
    backend: Backends = None,
    plugin: Plugins = None,
) -> None:
    """Write a folder of models with inputs and reference outputs, as ONNX's backend tests.

    \b
    nnfuzz generate --count 200 --out models
    nnfuzz generate --backend tvm --out for-tvm       nothing that TVM calls unsupported

    The same settings and versions give the same bytes. With --backend they also depend on what the
    compiler refused when it was asked on this machine; the manifest lists it. Models whose outputs
    a correct compiler may choose are passed over, so that data.json can say how far an output may
    be off. Run it against a compiler with nnfuzz verify, or any runner of ONNX's backend tests.
    """
    check_unused(out)
    plugins = plugin or []
    registry = BackendRegistry.discover(plugins)
    specs = chosen_backends(registry, backend, tell) if backend else ()
    own = {"plugins": tuple(map(plugin_name, plugins)), "refused": known_refusals(registry, specs)}
    own |= {"calls": SETTINGS["calls"].usual}
    seed = given.pop("seed", 0)
    config = corpus_config({**own, **given}, registry, specs)
    foreign = " AND LicenseRef-seed-models" if config.seed_models else ""
    plan = CorpusPlan(
        count or DEFAULT_COUNT,
        seed,
        as_json(config),
        {},
        license=f"{LICENSE}{foreign}",
        script=models_under_pytest(registry, next(iter(specs), None), tell),
    )
    with writing(out), ExitStack() as stack:
        runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
        versions = {k: v for runner in runners for k, v in runner.versions().items()}
        pool = Producers(seed, plan.config, default_workers(), cache_folder())
        producers = stack.enter_context(pool)
        plan = replace(plan, versions={**library_versions(), **versions})
        models, skipped = _filled(out, plan, producers, runners)
    _report_corpus(out, models, skipped)


def _report_corpus(out: Path, models: int, skipped: Sequence[NotProduced]) -> None:
    reasons = Counter(failed.stage for failed in skipped)
    stages = ", ".join(f"{stage} {count}" for stage, count in reasons.items())
    passed = f"; {len(skipped)} indexes passed over ({stages})" if skipped else ""
    typer.echo(f"{models} models in {out}{passed}")
    faults = [failed for failed in skipped if failed.stage == "fault"]
    if faults:
        first = faults[0].message.strip().partition("\n")[0]
        typer.echo(
            f"{len(faults)} of them by a fault of nnfuzz, please report it: "
            f"{faults[0].id}: {first}",
            err=True,
        )


def _filled(
    out: Path, plan: CorpusPlan, producers: Producers, runners: Sequence[BackendRunner]
) -> tuple[int, list[NotProduced]]:
    def produce(tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
        return supported_only(producers.entries(tests), runners)

    models, skipped = 0, list[NotProduced]()
    with steps("models", plan.count) as advance:
        for made in fill(out, plan, produce):
            if isinstance(made, NotProduced):
                skipped.append(made)
            else:
                models += 1
                advance(f"{len(skipped)} passed over" if skipped else "")
    return models, skipped


def known_refusals(registry: BackendRegistry, specs: Specs) -> tuple[str, ...]:
    """The signatures that some backend does not support, by the table of its adapter and by what
    the backend has refused when it was asked on this machine.
    """
    refused = set[SupportKey]()
    for spec in specs:
        backend = registry.get(spec.name)
        release = spec.release or known_release(backend)
        refused |= claims_of(backend, {spec.name: release}).keys()
        refused |= refused_here(cache_folder(), spec.name, release).keys()
    return tuple(sorted(map(str, refused)))


# -- verify --------------------------------------------------------------------------------

FLAKY = "it does not fail in the same way every time"
NOT_WRONG = "nnfuzz's own reference finds nothing wrong with the outputs"

MOST_SKIPPED = 10
_JUDGED = ("passed", "not compared")
_SHOWN = 400  # characters of a message


def verify(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder with ONNX backend tests.", show_default=False),
    ],
    backend: Annotated[
        str,
        TESTED.option(
            "Compiler to run, with options (nnfuzz backends lists both).",
            "NAME[,KEY=VALUE]",
            "--backend",
            "-b",
            show_default=False,
        ),
    ],
    level: Levels = None,
    plugin: Plugins = None,
    baseline: Annotated[
        Path | None,
        REPORTED.option("An earlier file of --results: failures in it do not count.", "FILE"),
    ] = None,
    results: Annotated[Path | None, REPORTED.option("Write the results as JSON.", "FILE")] = None,
    findings: Annotated[
        Path | None,
        OTHERS.option(
            "Write each failure as a folder into OUT, for nnfuzz reduce and nnfuzz replay.", "OUT"
        ),
    ] = None,
    junit: JUnit = None,
    summary_md: SummaryMd = None,
    part: Annotated[
        Shard,
        AMOUNT.option(
            "Run the K-th of N parts of the models.", PART, "--shard", show_default=False
        ),
    ] = WHOLE,
    time: Annotated[
        float | None,
        AMOUNT.option("Begin no further model after this long; skip the rest.", DURATION),
    ] = None,
) -> None:
    """Run a folder of models against a compiler. Exit code 1 if any fails.

    \b
    nnfuzz verify models --backend tvm
    nnfuzz verify models -b tvm --findings found && nnfuzz reduce found/FINDING

    Models that nnfuzz generate has written are judged by the error envelope of their graph, others
    by the tolerances of their data.json or usual ones. A model that the compiler itself calls
    unsupported is skipped. Exit codes: 0 nothing fails but what failed in the baseline, 1 a model
    fails or could not be run, 2 wrong usage, 3 a fault of nnfuzz itself, 4 nothing that ran could
    be compared.
    """
    earlier = read_baseline(baseline) if baseline is not None else {}
    spec = BackendRegistry.discover(plugin or []).parse(backend)
    tests = [test for index, test in enumerate(tests_in(folder)) if part.owns(index)]
    verified = run_corpus(
        tests,
        spec,
        listed(level),
        partial(excused, earlier),
        time or math.inf,
        _show,
        steps,
        partial(save_failures, findings) if findings else None,
    )
    if results is not None:
        about = {"backend": str(spec), "folder": folder.resolve().name}
        write_json(results, to_json(verified, about))
    title = f"{folder.resolve().name}: {spec}" + ("" if part.whole else f", part {part}")
    write_reports(verified, title, title, (), junit, summary_md)
    _summary(verified)
    raise typer.Exit(_exit_code(verified))


def _exit_code(results: Sequence[LevelResult]) -> int:
    """The exit code; prints as the last line how much was not compared."""
    statuses = Counter(result.status.value for result in results)
    lost = statuses["not compared"]
    if lost:
        counted = f"{lost} of {len(results)} results are neither right nor wrong"
        typer.echo(f"not compared: {counted}, since nothing of them is comparable")
    if statuses["failed"] or statuses["error"]:
        return FINDINGS
    return NOT_COMPARED if lost and not (statuses["passed"] or statuses["known"]) else OK


def _show(results: Sequence[LevelResult]) -> None:
    for result in results:
        where = f"{result.test} {result.backend} {result.level}"
        typer.echo(f"{result.status.upper()} {where}: {_brief(result.message)}")


def _brief(message: str) -> str:
    """The beginning of a message, in one line."""
    return " ".join(message.split())[:_SHOWN]


def _summary(results: Sequence[LevelResult]) -> None:
    by_level: dict[str, dict[str, int]] = {}
    for result in results:
        counts = by_level.setdefault(f"{result.backend} {result.level}", {})
        counts[result.status.value] = counts.get(result.status.value, 0) + 1
    for level, counts in by_level.items():
        typer.echo(f"{level}: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    partly = {r.test: r.message for r in results if r.message and r.status in _JUDGED}
    for test, message in list(partly.items())[:MOST_SKIPPED]:
        typer.echo(f"{test}: {_brief(message)}")
    skipped = Counter(_brief(r.message) for r in results if r.status == "skipped")
    for message, count in skipped.most_common(MOST_SKIPPED):
        typer.echo(f"skipped {count}x: {message}")
    if (more := len(skipped) - MOST_SKIPPED) > 0:
        typer.echo(f"... and for {more} more reasons (--results has them all)")


def save_failures(
    out: Path,
    test: TestFolder,
    results: Sequence[Result],
    runner: BackendRunner,
    bench: ProducerClient,
    levels: Sequence[str],
) -> None:
    """Writes a folder into `out` for each way in which a test fails, and prints its path, or why
    there is none. The folders are named by signature, so that tests that fail in the same way share
    one. results: of its experiments, with failures confirmed; a test of others is run once more.
    Raises: UsageError.
    """
    try:
        if not results:
            cases = [case_from_onnx(test.model(), data.inputs) for data in test.data_sets()]
            results = [
                examine(case, runner, bench, levels, thorough=True, confirms=True) for case in cases
            ]
        found = [finding for result in results for finding in findings_of(result, runner)]
    except (ModelError, ProducerError, RunnerError, Unreadable) as error:
        tell(f"{test.name} gives no finding: {error}")
        return
    with writing(out):
        for folder in sorted({save_finding(finding, out) for finding in found}):
            typer.echo(f"finding of {test.name}: {folder}")
    if not found:
        flaky = any(result.flaky for result in results)
        tell(f"{test.name} gives no finding: {FLAKY if flaky else NOT_WRONG}")


# -- select --------------------------------------------------------------------------------


def select(
    out: Annotated[
        Path,
        AMOUNT.option("New folder for the models that are chosen.", "DIR", show_default=False),
    ],
    models: Annotated[
        list[Path],
        typer.Argument(metavar="MODELS...", help="Folders of tests.", show_default=False),
    ],
    count: Annotated[int, AMOUNT.option("Take at most so many models.", "N", min=1)] = 100,
) -> None:
    """Copy those models into a new folder that cover most.

    \b
    nnfuzz select models more-models --count 100 --out few

    Counted are operators, their dtypes, ranks and attributes, and which operator reads which.
    """
    script = models_under_pytest(BackendRegistry.discover(), None, tell)
    with writing(out):
        selection = select_models(out, models, count, script, tell, steps)
    _report(out, selection)


def _report(out: Path, selection: Selection) -> None:
    kept = f"{len(selection.tests)} of {selection.sources} models in {out}"
    typer.echo(kept)
    for kind, (some, whole) in selection.coverage.items():
        typer.echo(f"{some:>7} of {whole} ({some / whole:.0%}) {KINDS[kind]}")
