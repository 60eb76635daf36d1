"""`nnfuzz fuzz`: options in, campaign out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnfuzz.cli.errors import FAULT, FINDINGS, OK, UsageError
from nnfuzz.cli.options import (
    Dynamic,
    Exclude,
    Exporter,
    Levels,
    Motifs,
    Nodes,
    Operators,
    Plugins,
    SeedModels,
)
from nnfuzz.cli.values import duration, listed, newest_opset, seeded

if TYPE_CHECKING:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.store import Store
    from nnfuzz.execute.registry import BackendRegistry, BackendSpec

DEFAULT_SECONDS = 60.0
DEFAULT_DYNAMIC = 0.05
MOST_PRODUCERS = 16
ENGINES = ("symbolic",)
WHAT, HOW, WHERE = "What to test", "How the campaign runs", "Where it goes"


def fuzz(
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            "-b",
            metavar="NAME[,KEY=VALUE]",
            help="Compiler under test, with options; repeat it to compare several.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="4h", help="Stop after this long: 90s, 10m, 1h30m [default: 1m]."),
    ] = None,
    tests: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N test cases.")
    ] = None,
    nodes: Nodes = None,
    motifs: Motifs = None,
    dynamic: Dynamic = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="S", help="Same seed, same test cases [default: random]."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of the campaign [default: nnfuzz-out/BACKEND-TIME]."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the campaign in --out.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes per backend [default: by cores].")
    ] = None,
    producers: Annotated[
        int | None, typer.Option(min=1, help="Processes that make models [default: by cores].")
    ] = None,
    level: Levels = None,
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help="How models are made [default: symbolic].")
    ] = None,
    exporter: Exporter = None,
    opset: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="ONNX opset [default: the newest that the exporter writes and the backends take].",
        ),
    ] = None,
    operators: Operators = None,
    exclude: Exclude = None,
    seed_models: SeedModels = None,
    plugin: Plugins = None,
    known: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Signatures to count but not to report, one a line."),
    ] = None,
    full_check: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of agreeing tests that the full oracle checks as well [default: 0.02].",
        ),
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            metavar="10s",
            help="Time for single-operator probes before the start, 0 for none [default: 10s, "
            "at most a tenth of --time].",
        ),
    ] = None,
    learn: Annotated[
        bool | None,
        typer.Option(
            "--learn/--no-learn",
            help="Stop generating what a backend turns out not to support [default: learn].",
        ),
    ] = None,
    reduce: Annotated[
        bool | None,
        typer.Option(
            "--reduce/--no-reduce",
            help="Reduce findings on the way, in at most a fifth of the time, and for a while at "
            "the end; merge those that are the same [default: reduce].",
        ),
    ] = None,
    tame: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Keep away from the operators of a reduced finding once it has occurred N times, "
            "0 for never [default: 5].",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but the summary.")] = False,
) -> None:
    """Fuzz compilers with random valid models and collect findings.

    \b
    nnfuzz fuzz --backend tvm                                 one minute of Apache TVM
    nnfuzz fuzz -b onnxruntime --tests 1000 --exporter direct --seed 7
    nnfuzz fuzz -b tvm,timeout=20 -b onnxruntime --time 4h --out campaign
    nnfuzz fuzz --out campaign --resume --time 8h             go on up to eight hours in total
    nnfuzz fuzz -b mine --plugin my_backend.py

    Ctrl-C ends the campaign with its summary; a second one kills it. Whatever has been recorded
    survives both, and --resume goes on. Exit codes: 0 nothing found, 1 findings, 2 wrong usage,
    3 a fault of nnfuzz itself.
    """
    given = {
        "time_limit": duration(time) if time else None,
        "tests_limit": tests,
        "nodes": nodes,
        "motifs": motifs,
        "dynamic": dynamic,
        "seed": seed,
        "workers": workers,
        "producers": producers,
        "levels": listed(level) or None,
        "engine": engine,
        "exporter": exporter,
        "opset": opset,
        "operators": listed(operators) or None,
        "exclude": listed(exclude) or None,
        **seeded(seed_models, exporter),
        "full_check": full_check,
        "probe_seconds": _probe_seconds(probe),
        "learn": learn,
        "reduce": reduce,
        "tame": tame,
    }
    given = {name: value for name, value in given.items() if value is not None}
    _fuzz(backend or [], plugin or [], known, out, resume, quiet, given)


def _fuzz(
    backends: list[str],
    plugins: list[Path],
    known: Path | None,
    out: Path | None,
    resume: bool,
    quiet: bool,
    given: dict[str, Any],
) -> None:
    from nnfuzz.campaign.config import ConfigError
    from nnfuzz.campaign.session import run_campaign
    from nnfuzz.campaign.support import SupportCache
    from nnfuzz.cli.interrupt import Interrupt
    from nnfuzz.cli.progress import watcher
    from nnfuzz.cli.summary import print_summary
    from nnfuzz.execute.runner import RunnerError

    open_ = _resumed if resume else _created
    store, config, registry = open_(backends, plugins, known, out, given)
    cache = SupportCache(cache_folder())
    with store, Interrupt() as interrupt, watcher(quiet, config, store.folder) as observer:
        try:
            result = run_campaign(store, config, registry, observer, cache, interrupt.asked)
        except (ConfigError, RunnerError):
            if not resume:
                store.discard()
            raise
    print_summary(result, config)
    raise typer.Exit(_exit_code(result.summary))


def cache_folder() -> Path:
    """Where support tables are kept between campaigns."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("nnfuzz"))


def _exit_code(summary: dict[str, Any]) -> int:
    if summary["findings"]:
        return FINDINGS
    return FAULT if summary["faults"] else OK


def _created(
    backends: list[str],
    plugins: list[Path],
    known: Path | None,
    out: Path | None,
    given: dict[str, Any],
) -> tuple[Store, CampaignConfig, BackendRegistry]:
    from nnfuzz.campaign.store import Store
    from nnfuzz.execute.registry import BackendRegistry

    registry = BackendRegistry.discover(plugins)
    specs = chosen_backends(registry, backends)
    config = make_config(registry, specs, plugins, known, given)
    folder = out or default_folder(specs)
    return Store.create(folder, config.to_json()), config, registry


def _resumed(
    backends: list[str],
    plugins: list[Path],
    known: Path | None,
    out: Path | None,
    given: dict[str, Any],
) -> tuple[Store, CampaignConfig, BackendRegistry]:
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.campaign.store import Store
    from nnfuzz.execute.registry import BackendRegistry

    if out is None:
        raise UsageError("--resume needs --out DIR: which campaign shall go on?")
    store = Store.open(out)
    try:
        stored = CampaignConfig.from_json(store.config())
        registry = BackendRegistry.discover([*stored.backends[0].plugins])
        if backends:
            given["backends"] = tuple(registry.parse(text) for text in backends)
        if known:
            given["known"] = known_hashes(known)
        config = stored.resumed_with(given)
        _refuse_finished(store, config)
        store.set_meta("config", config.to_json())
    except BaseException:
        store.close()
        raise
    return store, config, registry


def _refuse_finished(store: Store, config: CampaignConfig) -> None:
    limit = config.tests_limit
    tests = limit is not None and len([i for i in store.done() if i < limit]) >= limit
    seconds = store.seconds_before()
    if tests or (config.time_limit is not None and seconds >= config.time_limit):
        raise UsageError(
            f"the campaign in {store.folder} has reached its limit ({len(store.done())} tests, "
            f"{seconds:.0f} s): give it a higher --tests or --time (both count from its beginning)"
        )


def chosen_backends(registry: BackendRegistry, texts: list[str]) -> tuple[BackendSpec, ...]:
    """Parsed, installed backends. Raises: UsageError, RegistryError, OptionError."""
    if not texts:
        here = [name for name in registry.names() if registry.get(name).missing() is None]
        raise UsageError(
            f"which compiler? Add --backend NAME; installed: {', '.join(here) or 'none'} "
            "(nnfuzz backends tells more)"
        )
    specs = tuple(registry.parse(text) for text in texts)
    for spec in specs:
        reason = registry.get(spec.name).missing()
        if reason:
            raise UsageError(f"backend {spec.name} cannot be used: {reason}")
    return specs


def make_config(
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    plugins: list[Path],
    known: Path | None,
    given: dict[str, Any],
) -> CampaignConfig:
    """The configuration of a new campaign. Raises: UsageError, ConfigError, OptionError."""
    from nnfuzz.campaign.config import CampaignConfig
    from nnfuzz.testcase.case import CaseConfig

    case_fields = (
        *("nodes", "motifs", "dynamic", "engine", "exporter", "operators", "exclude"),
        *("seed_models", "seed_digest"),
    )
    case: dict[str, Any] = {"dynamic": DEFAULT_DYNAMIC}
    case |= {name: given[name] for name in case_fields if name in given}
    case["plugins"] = tuple(str(path.resolve()) for path in plugins)
    if case.get("engine", ENGINES[0]) not in ENGINES:
        raise UsageError(f"there is no engine {case['engine']!r}; there is {', '.join(ENGINES)}")
    exporter = case.get("exporter", CaseConfig.exporter)
    case["opset"] = choose_opset(registry, specs, given.get("opset"), exporter)
    _check_levels(registry, specs, given.get("levels", ()))
    rest = {name: given[name] for name in given if name not in (*case_fields, "opset")}
    if "time_limit" not in rest and "tests_limit" not in rest:
        rest["time_limit"] = DEFAULT_SECONDS
    return CampaignConfig(
        backends=specs,
        case=CaseConfig(**case),
        known=known_hashes(known) if known else (),
        **{"seed": _random_seed(), **default_processes(len(specs)), **rest},
    )


def choose_opset(
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    given: int | None,
    exporter: str = "torchscript",
) -> int:
    """The opset asked for, or the newest that suits the exporter and all backends.

    Raises: UsageError.
    """
    newest = newest_opset(exporter)
    wishes = [newest]
    for spec in specs:
        backend = registry.get(spec.name)
        option = backend.parse_options(spec.options).opset
        wish = given or option or backend.preferred_opset or newest
        if backend.max_opset and wish > backend.max_opset:
            if given or option:
                raise UsageError(f"{spec.name} takes opsets up to {backend.max_opset}, not {wish}")
            wish = backend.max_opset
        wishes.append(wish)
    return given or min(wishes)


def _check_levels(
    registry: BackendRegistry, specs: tuple[BackendSpec, ...], levels: tuple[str, ...]
) -> None:
    for spec in specs:
        known = registry.get(spec.name).levels
        for level in levels:
            if level not in known:
                raise UsageError(
                    f"backend {spec.name} has no level {level!r}; it has {', '.join(known)}"
                )


def default_processes(backends: int) -> dict[str, int]:
    """Workers per backend and producers for the cores of this machine.

    Either kind may be the bottleneck; the other then idles, which costs nothing.
    """
    import os

    cores = len(os.sched_getaffinity(0))
    return {
        "producers": max(1, min(MOST_PRODUCERS, cores)),
        "workers": max(1, (cores - 1) // backends),
    }


def default_folder(specs: tuple[BackendSpec, ...], prefix: str = "") -> Path:
    """A folder that does not exist yet, named after the backends and the time."""
    from datetime import datetime

    names = "+".join(spec.name for spec in specs)
    stem = Path("nnfuzz-out") / f"{prefix}{names}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder


def known_hashes(path: Path) -> tuple[str, ...]:
    """The signatures in a file of known failures. Raises: UsageError."""
    from nnfuzz.triage.known import KnownError, KnownFailures

    try:
        return KnownFailures.load(path).hashes()
    except (OSError, KnownError) as error:
        raise UsageError(f"--known {path}: {error}") from error


def _probe_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    return 0.0 if text.strip().rstrip("s") == "0" else duration(text)


def _random_seed() -> int:
    import secrets

    return secrets.randbelow(1 << 32)
