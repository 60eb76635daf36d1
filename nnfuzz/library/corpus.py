"""Corpora, folders of regression models: written, chosen from others, run on a compiler."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry, plugin_name
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import cache_folder
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_probes
from nnfuzz.corpus.generate import CorpusPlan, check_unused, fill, supported_only
from nnfuzz.corpus.layout import LICENSE, CorpusError, Entry, TestFolder
from nnfuzz.corpus.producers import Producers
from nnfuzz.corpus.pytest_file import models_under_pytest
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.domains import chosen_domains
from nnfuzz.library.experiment import Experiment, save_finding
from nnfuzz.library.settings import (
    Specs,
    case_settings,
    check_quantised,
    choose_opset,
    chosen_backends,
    default_workers,
    exporter_names,
    onnx_release,
)
from nnfuzz.materialize.opsets import opsets_up_to
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import Note, Observer, Steps, ignore
from nnfuzz.records.settings import FIRST_SECONDS
from nnfuzz.records.versions import library_versions
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig, ModelError, NotProduced, TestCase
from nnfuzz.testcase.client import ProducerError, ProducerSettingsError
from nnfuzz.testcase.identity import TestId

DEFAULT_COUNT = 100
FLAKY = "it does not fail in the same way every time"
NOT_AGAIN = "nnfuzz's own reference, or a second run, finds nothing wrong with the outputs"
Watcher = Callable[[CampaignConfig, Path, str], AbstractContextManager[Observer]]
"""Opens a display of a campaign in a folder; the text says what it does."""


@dataclass(frozen=True, kw_only=True)
class CorpusRequest:
    """The request for a corpus.

    count: the number of models that the folder has in the end; None for DEFAULT_COUNT, or with
    `singles` for every model that there is. singles: whether each model has one operator, and all
    of them together show every dtype and attribute. max_bytes: the largest size of a model with its
    data; 0 for no limit. settings: see `case_settings`; their opset holds for all exporters.
    watcher: displays the probing campaign. note, steps: display messages and progress.
    """

    out: Path
    watcher: Watcher
    count: int | None = None
    singles: bool = False
    max_bytes: int = 0
    processes: int | None = None
    seed: int = 0
    opset: int | None = None
    backends: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    steps: Steps
    note: Note = ignore


@dataclass(frozen=True)
class Filled:
    """The result of a corpus. models: in the folder."""

    models: int
    skipped: tuple[NotProduced, ...]


def generate(request: CorpusRequest) -> Filled:
    """Writes a corpus.

    Raises: ConfigError, CorpusError, RegistryError, OptionError, RunnerError, OSError.
    """
    check_unused(request.out)
    registry = BackendRegistry.discover(request.plugins)
    texts = request.backends
    specs = chosen_backends(registry, texts, request.note) if texts else ()
    plan = _plan(request, registry, specs)
    processes = request.processes or default_workers()
    try:
        with ExitStack() as stack:
            runners = [stack.enter_context(BackendRunner(spec, registry)) for spec in specs]
            pool = Producers(plan.seed, plan.config, processes, cache_folder())
            producers = stack.enter_context(pool)
            if request.singles:
                plan = _of_singles(plan, producers, request.steps)
            return _filled(request, plan, producers, runners)
    except ProducerSettingsError as error:
        raise CorpusError(str(error)) from error


def _plan(request: CorpusRequest, registry: BackendRegistry, specs: Specs) -> CorpusPlan:
    """Raises: ConfigError, RunnerError."""
    given = case_settings({"exporter": "direct" if request.singles else None, **request.settings})
    exporters = given.pop("exporters", None) or exporter_names(None, request.opset)
    given["plugins"] = tuple(map(plugin_name, request.plugins))
    check_quantised(given)
    opsets = {n: choose_opset(registry, specs, request.opset, n) for n in exporters}
    if not request.opset and not given.get("seed_models"):
        given["opsets"] = opsets_up_to(opsets)
    taken = {spec.label: registry.get(spec.name).domains for spec in specs}
    given["domains"] = chosen_domains(taken, given, usual=False)
    config = CaseConfig(**given).written_by(opsets)
    versions: dict[str, str] = {}
    if specs:
        config = replace(config, onnx_release=onnx_release(registry, specs))
        refused, versions = unsupported(registry, specs, config, request.watcher)
        config = replace(config, refused=refused)
    every = sys.maxsize if request.singles else DEFAULT_COUNT
    foreign = " AND LicenseRef-seed-models" if config.seed_models else ""
    return CorpusPlan(
        request.count or every,
        request.seed,
        as_json(config),
        {**library_versions(), **versions},
        request.max_bytes,
        extra={"singles": True} if request.singles else {},
        license=f"{LICENSE}{foreign}",
        script=models_under_pytest(registry, specs, request.note),
    )


def _of_singles(plan: CorpusPlan, producers: Producers, steps: Steps) -> CorpusPlan:
    """The plan with the models of one operator that show everything."""
    tests: list[TestId] = []
    keys = producers.signatures()
    with steps("signatures", len(keys)) as advance:
        for instances in producers.instances(keys):
            tests += instances
            advance(f"{len(tests)} models")
    return replace(plan, tests=tuple(tests))


def _filled(
    request: CorpusRequest, plan: CorpusPlan, producers: Producers, runners: Sequence[BackendRunner]
) -> Filled:
    def produce(tests: Iterable[TestId]) -> Iterator[Entry | NotProduced]:
        return supported_only(producers.entries(tests), runners)

    models, skipped = 0, list[NotProduced]()
    most = min(plan.count, len(plan.tests) or plan.count)
    with request.steps("models", most) as advance:
        for made in fill(request.out, plan, produce):
            if isinstance(made, NotProduced):
                skipped.append(made)
            else:
                models += 1
                advance(f"{len(skipped)} passed over" if skipped else "")
    return Filled(models, tuple(skipped))


def unsupported(
    registry: BackendRegistry, specs: Specs, case: CaseConfig, watcher: Watcher
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The signatures of a configuration that some backend calls unsupported, and all versions.

    They are probed at every level for FIRST_SECONDS at most; answers are kept between runs, so that
    the next one goes on. Raises: RunnerError, ConfigError, PoolError.
    """
    case = replace(case, seed_models=(), seed_digest="")
    config = CampaignConfig(tuple(specs), case, reduce=False, workers=default_workers())
    what = f"for at most {FIRST_SECONDS:.0f} s probing"
    with tempfile.TemporaryDirectory(prefix="nnfuzz-probes-") as name:
        folder, cache = Path(name) / "campaign", SupportCache(cache_folder())
        with (
            Store.create(folder, as_json(config)) as store,
            watcher(config, folder, what) as observer,
        ):
            result, _ = run_probes(store, config, registry, observer, cache, seconds=FIRST_SECONDS)
    return tuple(sorted(result.refused)), dict(result.summary.versions)


def save_failures(
    out: Path,
    tests: Sequence[TestFolder],
    backend: str,
    levels: Sequence[str],
    plugins: Iterable[Path],
    steps: Steps,
) -> Iterator[tuple[TestFolder, list[Path], str]]:
    """Runs the tests once more, and writes a folder into `out` for each way in which one fails.

    Yields each test with its folders, and why there are none. The folders are named by signature,
    so that tests that fail in the same way share one. Raises: RegistryError, OptionError, OSError.
    """
    targets = [f"{backend}/{level}" for level in levels] or [backend]
    with Experiment(targets, plugins) as run, steps("findings", len(tests)) as advance:
        for test in tests:
            try:
                results = [run(case) for case in _cases(test)]
            except (ModelError, ProducerError, RunnerError, Unreadable) as error:
                yield test, [], str(error)
            else:
                found = [finding for result in results for finding in run.findings(result)]
                saved = sorted({save_finding(finding, out) for finding in found})
                flaky = any(result.flaky for result in results)
                yield test, saved, "" if saved else FLAKY if flaky else NOT_AGAIN
            advance("")


def _cases(test: TestFolder) -> Iterator[TestCase]:
    """The test case of each data set. Raises: ModelError, Unreadable."""
    own = list(test.cases())
    yield from own
    for data in () if own else test.data_sets():
        yield case_from_onnx(test.model(), data.inputs)
