"""`nnfuzz fuzz`: options in, campaign out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nnfuzz.cli import options as opt
from nnfuzz.cli.ci import JUnit, SummaryMd
from nnfuzz.cli.defaults import from_file
from nnfuzz.cli.errors import FAULT, FINDINGS, OK, USAGE, UsageError, tell
from nnfuzz.cli.values import (
    chosen_dtypes,
    chosen_engine,
    duration,
    exporting,
    listed,
    seeded,
    size,
)
from nnfuzz.writing import as_json

if TYPE_CHECKING:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.session import Result
    from nnfuzz.campaign.store import Store
    from nnfuzz.campaign.summary import Summary
    from nnfuzz.execute.registry import BackendRegistry, BackendSpec


PR_TIME = "10m"
SETTINGS = {
    "time": "time_limit",
    "tests": "tests_limit",
    "level": "levels",
    "exporter": "exporters",
    "probe": "probe_seconds",
}
"""Options whose field of CampaignConfig has another name."""


@dataclass(frozen=True)
class _Asked:
    """What the command line says. given: fields of CampaignConfig and CaseConfig."""

    backends: list[str]
    plugins: list[Path]
    known: Path | None
    baseline: Path | None
    focus: tuple[str, ...]
    out: Path | None
    given: dict[str, Any]


def fuzz(
    context: typer.Context,
    backend: opt.Backends = None,
    level: opt.Levels = None,
    pipelines: opt.Pipelines = None,
    plugin: opt.Plugins = None,
    time: opt.Time = None,
    tests: opt.Tests = None,
    out: opt.Out = None,
    resume: opt.Resume = False,
    seed: opt.Seed = None,
    nodes: opt.Nodes = None,
    engine: opt.Engine = None,
    operators: opt.Operators = None,
    exclude: opt.Exclude = None,
    dtypes: opt.Dtypes = None,
    exclude_dtypes: opt.ExcludeDtypes = None,
    motifs: opt.Motifs = None,
    dynamic: opt.Dynamic = None,
    rewrites: opt.Rewrites = None,
    seed_models: opt.SeedModels = None,
    invalid: opt.Invalid = None,
    edges: opt.Edges = None,
    exporter: opt.Exporter = None,
    opset: opt.Opset = None,
    known: opt.Known = None,
    baseline: opt.Baseline = None,
    focus: opt.Focus = None,
    pr: opt.PullRequest = False,
    junit: JUnit = None,
    summary_md: SummaryMd = None,
    reduce: opt.Reduce = None,
    throttle: opt.Throttle = None,
    guidance: opt.Guidance = None,
    regressions: opt.Regressions = None,
    fresh: opt.Fresh = False,
    full_check: opt.FullCheck = None,
    quiet: opt.Quiet = False,
    probe: opt.ProbeTime = None,
    learn: opt.Learn = None,
    workers: opt.Workers = None,
    producers: opt.Producers = None,
    shard: opt.ShardOf = None,
    share: opt.Share = None,
    disk: opt.Disk = None,
    epoch: opt.Epoch = None,
    ray: opt.Ray = None,
) -> None:
    """Fuzz compilers with random valid models and collect findings.

    \b
    nnfuzz fuzz --backend tvm                                 one minute of Apache TVM
    nnfuzz fuzz -b onnxruntime --tests 1000 --exporter direct --seed 7
    nnfuzz fuzz -b tvm,timeout=20 -b onnxruntime --time 4h --out campaign
    nnfuzz fuzz --out campaign --resume --time 8h             go on up to eight hours in total
    nnfuzz fuzz -b onnxruntime --dtypes float32,int64         nothing but these dtypes
    nnfuzz fuzz -b mine --plugin my_backend.py
    nnfuzz fuzz -b openvino --invalid --tests 1000            models that must be refused
    nnfuzz fuzz -b tvm --seed 7 --tests 10000 --shard 2/8 --share /nfs/tvm --out part2
    nnfuzz fuzz -b tvm --time 8h --share s3://bucket/tvm --ray    on a cluster
    nnfuzz fuzz -b onnxruntime@1.20.1 -b onnxruntime --regressions   what changed since
    nnfuzz fuzz -b onnxruntime --pr --focus Conv,Gemm --baseline nightly/summary.json

    Ctrl-C ends the campaign with its summary; a second one kills it. Whatever has been recorded
    survives both, and --resume goes on. Exit codes: 0 nothing found, 1 findings, 2 wrong usage,
    3 a fault of nnfuzz itself. What was not confirmed is no finding: failures that did not repeat,
    and hangs that the campaign had no time for, are told, and --resume decides on hangs.
    """
    from nnfuzz.cli.campaign_reports import report_campaign

    if pr and not (baseline or focus):
        raise UsageError("--pr needs --baseline CAMPAIGN, --focus NAMES, or both: what is new?")
    if focus and (seed_models or resume):
        other = "--seed-models" if seed_models else "--resume"
        raise UsageError(f"--focus makes seed models for a new campaign: leave out {other}")
    if pr and time is None and tests is None:
        time = PR_TIME
    if shard and seed is None and not resume:
        raise UsageError("--shard needs --seed N, the same for all parts: they share the indexes")
    if share and not shard and not resume and ray is None:
        raise UsageError("--share is for the parts of a campaign: add --shard 1/2, or --ray")
    if shard and ray is not None:
        raise UsageError("--ray divides the campaign itself: leave out --shard")
    if seed_models or focus:
        exporter = exporter or "direct"
    given = {
        "time_limit": duration(time) if time is not None else None,
        "tests_limit": tests,
        "nodes": nodes,
        "engine": chosen_engine(engine),
        "motifs": motifs,
        "dynamic": dynamic,
        "rewrites": rewrites,
        "seed": seed,
        "workers": workers,
        "producers": producers,
        "shard": shard,
        "share": share,
        "epoch": epoch,
        "disk": size(disk, "--disk") if disk is not None else None,
        "levels": listed(level) or None,
        "pipelines": pipelines,
        "exporters": exporting(exporter, opset) if exporter else None,
        "opset": opset,
        "operators": listed(operators) or None,
        "exclude": listed(exclude) or None,
        "dtypes": chosen_dtypes(dtypes, exclude_dtypes) or None,
        **seeded(seed_models),
        "invalid": invalid or None,
        "edges": edges or None,
        "full_check": full_check,
        "probe_seconds": _probe_seconds(probe),
        "learn": learn,
        "reduce": reduce,
        "throttle": throttle,
        "guidance": guidance,
        "regressions": regressions,
    }
    given = {name: value for name, value in given.items() if value is not None}
    asked = _Asked(backend or [], plugin or [], known, baseline, listed(focus), out, given)
    asked = _without_defaults(asked, context) if resume else asked
    if ray is None:
        result, config = _fuzz(asked, resume, quiet, fresh)
    else:
        result, config = _fuzz_on_ray(asked, resume, quiet, ray)
    report_campaign(result, config, junit, summary_md)
    raise typer.Exit(exit_code(result.summary))


def _without_defaults(asked: _Asked, context: typer.Context) -> _Asked:
    """Only what the command line itself says: a campaign that goes on has settings of its opt."""
    unsaid = {SETTINGS.get(name, name) for name in from_file(context) - {"out"}}
    return replace(
        asked,
        backends=[] if "backend" in unsaid else asked.backends,
        known=None if "known" in unsaid else asked.known,
        baseline=None if "baseline" in unsaid else asked.baseline,
        given={name: value for name, value in asked.given.items() if name not in unsaid},
    )


def _fuzz(asked: _Asked, resume: bool, quiet: bool, fresh: bool) -> tuple[Result, CampaignConfig]:
    """Runs a session of a campaign and prints its summary."""
    from nnfuzz.campaign.config import ConfigError
    from nnfuzz.campaign.session import run_campaign
    from nnfuzz.campaign.support_cache import SupportCache
    from nnfuzz.cli.interrupt import Interrupt
    from nnfuzz.cli.progress import watcher
    from nnfuzz.cli.settings import cache_folder
    from nnfuzz.cli.summary import print_summary
    from nnfuzz.execute.runner import RunnerError

    store, config, registry = _resumed(asked) if resume else _created(asked)
    cache = SupportCache(cache_folder(), ignored=fresh)
    with store, Interrupt() as interrupt, watcher(quiet, config, store.folder) as observer:
        try:
            result = run_campaign(store, config, registry, observer, cache, interrupt.asked)
        except (ConfigError, RunnerError):
            if not resume:
                store.discard()
            raise
    print_summary(result, config)
    if part := _empty(result.summary):
        tell(f"{part} is empty: there is nothing to do")
    elif not result.summary.tests and not result.findings:
        typer.echo(f"error: {nothing_ran(result.summary, interrupt.asked())}", err=True)
    return result, config


def _fuzz_on_ray(
    asked: _Asked, resume: bool, quiet: bool, address: str
) -> tuple[Result, CampaignConfig]:
    """Runs a campaign on a cluster, puts it together and prints its summary."""
    from nnfuzz.cli.cluster import Work, fuzz_on_cluster
    from nnfuzz.cli.settings import default_folder
    from nnfuzz.cli.summary import print_summary

    if resume:
        work = Work.of(asked.out)
        config, registry = _going_on(work.config(), asked)
    else:
        config, registry = _new(asked)
        work = Work.of(asked.out or default_folder(config.backends))
    result, config = fuzz_on_cluster(config, registry, work, resume, quiet, address, asked.given)
    print_summary(result, config)
    return result, config


def exit_code(summary: Summary) -> int:
    """3 for faults of nnfuzz without any finding; 2 if there was something to test, and no test."""
    if summary.findings:
        return FINDINGS
    if summary.faults:
        return FAULT
    return OK if summary.tests or _empty(summary) else USAGE


def _empty(summary: Summary) -> str:
    """Which part of a campaign is empty: it has no index, or other parts have run all tests."""
    from nnfuzz.shard import Shard

    config = summary.config
    shard, tests = str(config.get("shard", "")), config.get("tests_limit")
    if not shard or not isinstance(tests, int):
        return ""
    if config.get("share"):
        empty = not summary.tests and not summary.not_run and not summary.faults
    else:
        empty = not Shard.parse(shard).of(tests)
    return f"part {shard} of --tests {tests}" if empty else ""


def nothing_ran(summary: Summary, interrupted: bool) -> str:
    """Why a campaign has not finished a single test, and what to do about it."""
    reasons = ", ".join(f"{stage} {count}" for stage, count in summary.not_run.items())
    if summary.faults:
        why = "nnfuzz itself failed; the table `events` of campaign.sqlite says how: please report"
    elif hangs := summary.unconfirmed_hangs:
        why = f"{len(hangs)} look like hangs: --resume confirms them"
    elif reasons:
        why = (
            f"no index gave a model ({reasons}): allow more operators, dtypes or nodes, or try "
            "--exporter direct"
        )
    elif interrupted:
        why = "it was interrupted before the first one ended: --resume goes on"
    else:
        why = "the time was over before the first one ended: give it more --time or --probe 0"
    return f"not a single test was run: {why}"


def _created(asked: _Asked) -> tuple[Store, CampaignConfig, BackendRegistry]:
    from nnfuzz.campaign.store import Store
    from nnfuzz.cli.settings import default_folder

    config, registry = _new(asked)
    folder = asked.out or default_folder(config.backends)
    return Store.create(folder, as_json(config)), config, registry


def _new(asked: _Asked) -> tuple[CampaignConfig, BackendRegistry]:
    """The settings of a new campaign."""
    from nnfuzz.cli.settings import chosen_backends, make_config
    from nnfuzz.execute.registry import BackendRegistry

    registry = BackendRegistry.discover(asked.plugins)
    specs = chosen_backends(registry, asked.backends)
    given = dict(asked.given)
    if asked.focus:
        given |= _focus(asked, registry, specs)
    config = make_config(registry, specs, asked.plugins, asked.known, given)
    return replace(config, known=_and_baseline(config.known, asked.baseline)), registry


def _and_baseline(known: tuple[str, ...], baseline: Path | None) -> tuple[str, ...]:
    """Raises: UsageError."""
    from nnfuzz.cli.settings import baseline_failures

    found = baseline_failures(baseline) if baseline is not None else ()
    return tuple(dict.fromkeys((*known, *found)))


def _focus(
    asked: _Asked, registry: BackendRegistry, specs: tuple[BackendSpec, ...]
) -> dict[str, Any]:
    """The settings by which every model touches what --focus names. Raises: UsageError."""
    from nnfuzz.cli.focus import focused
    from nnfuzz.cli.settings import cache_folder, make_config
    from nnfuzz.testcase.client import ProducerSettingsError

    settings = {**asked.given, "exporters": asked.given["exporters"][:1]}
    case = make_config(registry, specs, asked.plugins, None, settings).case
    case = replace(case, dynamic=0.0)
    try:
        return seeded(focused(asked.focus, registry, specs, case, cache_folder() / "focus"))
    except ProducerSettingsError as error:
        raise UsageError(str(error)) from error


def _resumed(asked: _Asked) -> tuple[Store, CampaignConfig, BackendRegistry]:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.sources import SOURCES
    from nnfuzz.campaign.store import Store

    if asked.out is None:
        raise UsageError("--resume needs --out DIR: which campaign shall go on?")
    store = Store.open(asked.out)
    try:
        if store.meta(SOURCES) is not None:
            raise UsageError(f"{asked.out} was put together by nnfuzz merge: go on with its parts")
        config, registry = _going_on(CampaignConfig.from_json(store.config()), asked)
        refuse_finished(store, config)
        store.set_meta("config", as_json(config))
    except BaseException:
        store.close()
        raise
    return store, config, registry


def _going_on(stored: CampaignConfig, asked: _Asked) -> tuple[CampaignConfig, BackendRegistry]:
    """The settings of a campaign with the limits that are given anew."""
    from nnfuzz.cli.consent import Consent
    from nnfuzz.cli.settings import known_failures
    from nnfuzz.execute.registry import BackendRegistry

    assert asked.out is not None
    given = dict(asked.given)
    Consent(asked.out, asked.plugins).require(stored.plugins)
    registry = BackendRegistry.discover(stored.plugins)
    if asked.backends:
        given["backends"] = tuple(registry.parse(text) for text in asked.backends)
    if asked.known or asked.baseline:
        lines = known_failures(asked.known) if asked.known else ()
        given["known"] = _and_baseline(lines, asked.baseline)
    return stored.resumed_with(given), registry


def refuse_finished(store: Store, config: CampaignConfig) -> None:
    """Raises: UsageError if there is nothing left to do within the limits."""
    limit = config.tests_limit
    tests = limit is not None and store.tests.count(0, limit) >= config.part.of(limit)
    seconds = store.sessions.seconds_before()
    if store.hangs.unconfirmed() or not _is_summarised(store):
        return  # hangs are decided, and what was killed at its end is ended, whatever limits say
    if tests or (config.time_limit is not None and seconds >= config.time_limit):
        raise UsageError(
            f"the campaign in {store.folder} has reached its limit ({store.tests.count()} tests, "
            f"{seconds:.0f} s): give it a higher --tests or --time (both count from its beginning)"
        )


def _is_summarised(store: Store) -> bool:
    """Whether the campaign has come to its end after its last test."""
    from nnfuzz.campaign.summary import read_summary
    from nnfuzz.reading import Unreadable

    try:
        summary = read_summary(store.folder)
    except Unreadable:
        return False
    return summary.tests + sum(summary.not_run.values()) >= store.tests.count()


def _probe_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    return 0.0 if text.strip().rstrip("s") == "0" else duration(text, "--probe")
