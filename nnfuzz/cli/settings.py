"""From options to the settings of a new campaign, and the folders that nobody names."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnfuzz.backend.target import DIRECT, ONNX
from nnfuzz.cli.errors import UsageError, tell
from nnfuzz.cli.values import exporting

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry, BackendSpec
    from nnfuzz.records.config import CampaignConfig

DEFAULT_SECONDS = 60.0
OLDEST = "0"
"""Of a compiler that names no release of onnx: older than whatever came late to an opset."""
DEFAULT_DYNAMIC = 0.05
DEFAULT_PIPELINES = 0.5


def chosen_backends(registry: BackendRegistry, texts: list[str]) -> tuple[BackendSpec, ...]:
    """Parsed, installed backends. Raises: UsageError, RegistryError, OptionError."""
    from nnfuzz.backend.runner import RunnerError, usable

    if not texts:
        here = registry.usable(tell)
        raise UsageError(
            f"which compiler? Add --backend NAME; installed: {', '.join(here) or 'none'} "
            "(nnfuzz backends tells more)"
        )
    specs = tuple(registry.parse(text) for text in texts)
    for spec in specs:
        try:
            usable(registry.get(spec.name), spec)
        except RunnerError as error:
            raise UsageError(str(error)) from error
    return specs


def make_config(
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    plugins: list[Path],
    known: Path | None,
    given: dict[str, Any],
) -> CampaignConfig:
    """The configuration of a new campaign. given: fields of CampaignConfig and CaseConfig.

    "exporters" among them has names, "opset" is for all of them. Raises: UsageError, ConfigError,
    OptionError.
    """
    from nnfuzz.backend.registry import plugin_name
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.testcase.case import CaseConfig

    if given.get("invalid"):
        given = _for_invalid(registry, specs, given)
    rest = dict(given)
    opset = rest.pop("opset", None)
    # Where nobody reads ONNX, no model has to keep away from what an exporter cannot write.
    usual = None if any(_form(registry, spec) == ONNX for spec in specs) else DIRECT
    names = rest.pop("exporters", None) or exporting(usual, opset)
    case = {f.name: rest.pop(f.name) for f in fields(CaseConfig) if f.name in rest}
    case["plugins"] = tuple(plugin_name(path) for path in plugins)
    opsets = {name: choose_opset(registry, specs, opset, name) for name in names}
    case["onnx_release"] = onnx_release(registry, specs)
    if (case.get("rewrites") or case.get("edges")) and DIRECT in opsets:
        case["unrewritten"] = _unrewritten(registry, specs, opsets[DIRECT])
    _check_levels(registry, specs, rest.get("levels", ()))
    if "time_limit" not in rest and "tests_limit" not in rest:
        rest["time_limit"] = DEFAULT_SECONDS
    rest.setdefault("pipelines", 0.0 if rest.get("levels") else DEFAULT_PIPELINES)
    return CampaignConfig(
        backends=specs,
        case=CaseConfig(**{"dynamic": DEFAULT_DYNAMIC, **case}).written_by(opsets),
        known=known_failures(known) if known else (),
        **{"seed": _random_seed(), **default_processes(len(specs)), **rest},
    )


_ABOUT_VALID = (
    "exporters",
    "dynamic",
    "rewrites",
    "seed_models",
    "motifs",
    "pipelines",
    "regressions",
    "edges",
    "rewrites",
)
"""Settings that say how valid models are made and what becomes of their results."""


def _for_invalid(
    registry: BackendRegistry, specs: tuple[BackendSpec, ...], given: dict[str, Any]
) -> dict[str, Any]:
    """The settings of a campaign with models that must be refused. Raises: UsageError."""
    from nnfuzz.testcase.invalid import NODES, SIZES

    if other := [name for name in _ABOUT_VALID if given.get(name)]:
        option = {"exporters": "exporter"}.get(other[0], other[0]).replace("_", "-")
        raise UsageError(f"--invalid makes its models itself: leave out --{option}")
    if strange := [spec.label for spec in specs if _form(registry, spec) != ONNX]:
        raise UsageError(f"--invalid needs backends that read ONNX, {strange[0]} does not")
    settled: dict[str, Any] = {"probe_seconds": 0.0, "learn": False, "reduce": False, "throttle": 0}
    settled |= {"full_check": 0.0, "pipelines": 0.0, "exporters": (DIRECT,)}
    usual = {"nodes": NODES, "sizes": SIZES, "motifs": 0.0, "dynamic": 0.0}
    return {**usual, **given, **settled}


def onnx_release(registry: BackendRegistry, specs: tuple[BackendSpec, ...]) -> str:
    """The oldest release of onnx that a backend has; OLDEST if one does not name its own."""
    from packaging.version import Version

    named = [registry.get(spec.name).onnx_release or OLDEST for spec in specs]
    return min(named, key=Version)


def _form(registry: BackendRegistry, spec: BackendSpec) -> str:
    """What a backend reads. Raises: RegistryError, OptionError."""
    return registry.get(spec.name)(**spec.options).form


def _unrewritten(
    registry: BackendRegistry, specs: tuple[BackendSpec, ...], opset: int
) -> tuple[str, ...]:
    """What one of the backends does not take, and no rewrite may bring in. Raises: RunnerError."""
    from nnfuzz.backend.rewrite_support import not_taken
    from nnfuzz.backend.runner import BackendRunner

    found: dict[str, None] = {}
    for spec in specs:
        if _form(registry, spec) != ONNX:
            continue
        with BackendRunner(spec, registry) as runner:
            lacking = not_taken(runner, opset)
        if lacking:
            tell(f"{spec.label} takes no {' or '.join(lacking)}: rewrites leave that out")
        found |= dict.fromkeys(lacking)
    return tuple(found)


def choose_opset(
    registry: BackendRegistry,
    specs: tuple[BackendSpec, ...],
    given: int | None,
    exporter: str,
) -> int:
    """The opset asked for, or the newest that suits the exporter and all backends.

    Raises: UsageError.
    """
    from nnfuzz.materialize.opsets import default_opset

    newest = default_opset(exporter)
    wishes = [newest]
    for spec in specs:
        backend = registry.get(spec.name)
        option = backend.parse_options(spec.options).opset
        wish = given or option or backend.preferred_opset or newest
        most = _newest_taken(registry, spec, min(wish, backend.max_opset or wish))
        if wish > most:
            if given or option:
                raise UsageError(f"{spec.label} takes opsets up to {most}, not {wish}")
            wish = most
        wishes.append(wish)
    return given or min(wishes)


def _newest_taken(registry: BackendRegistry, spec: BackendSpec, newest: int) -> int:
    """The newest opset up to one that a backend takes; one of an older release is asked.

    Raises: UsageError, RunnerError.
    """
    if not spec.release:
        return newest
    from nnfuzz.backend.opsets import newest_opset
    from nnfuzz.backend.runner import BackendRunner
    from nnfuzz.materialize.opsets import OPSETS

    oldest = min(lowest for lowest, _ in OPSETS.values())
    with BackendRunner(spec, registry) as runner:
        found = newest_opset(runner, range(newest, oldest - 1, -1))
    if found is None:
        raise UsageError(f"{spec} takes no model of the opsets {oldest} to {newest}")
    return found


def _check_levels(
    registry: BackendRegistry, specs: tuple[BackendSpec, ...], levels: tuple[str, ...]
) -> None:
    for spec in specs:
        for level in levels:
            registry.get(spec.name).check_level(level)


def default_processes(backends: int) -> dict[str, int]:
    """For the cores of this machine, see nnfuzz.records.config.processes."""
    import os

    from nnfuzz.records.config import processes

    return processes(backends, len(os.sched_getaffinity(0)))


def known_failures(path: Path) -> tuple[str, ...]:
    """The lines of a file of known failures; of a folder, what names the findings in it by today's
    rules. Raises: UsageError.
    """
    from nnfuzz.base.reading import Unreadable
    from nnfuzz.triage.known import KnownError, KnownFailures

    if path.is_dir():
        return _known_in(path)
    try:
        return KnownFailures.load(path).lines()
    except KnownError as error:
        raise UsageError(f"--known {path}: {error}") from error
    except Unreadable as error:
        raise UsageError(
            f"--known {error}: name a finding's or campaign's folder, or a text file with a "
            "signature or a pattern such as backend=tvm operator=Pow in each line"
        ) from error


def baseline_failures(path: Path) -> tuple[str, ...]:
    """Lines of known failures for what an earlier campaign has found; none if it found nothing.

    path: its folder, or its summary.json, which knows less. Raises: UsageError, Unreadable.
    """
    from nnfuzz.base.reading import Unreadable, read
    from nnfuzz.base.untrusted import read_json
    from nnfuzz.triage.known import KnownFailures

    if path.is_dir():
        there = any(path.rglob("finding.json"))
        if not there and not (path / "summary.json").exists():
            raise UsageError(f"--baseline {path} is no campaign: there is no summary.json in it")
        return _known_in(path) if there else ()
    try:
        rows = read(dict[str, Any], read_json(path))["signatures"]
        told = [{row["signature"], row["refined"], *row["duplicates"]} for row in rows]
    except (Unreadable, KeyError, TypeError) as error:
        raise UsageError(f"--baseline {path} is no summary.json of a campaign: {error}") from error
    return KnownFailures.parse(sorted(set().union(*told) - {""}), str(path)).lines()


def _known_in(folder: Path) -> tuple[str, ...]:
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.findings.keyed import known_by
    from nnfuzz.triage.known import KnownFailures

    registry = BackendRegistry.discover()
    files = sorted(folder.rglob("finding.json"))
    found = KnownFailures.together(known_by(file.parent, registry) for file in files)
    if not found.hashes:
        raise UsageError(f"--known {folder} holds no finding: there is no finding.json in it")
    return found.lines()


def _random_seed() -> int:
    import secrets

    return secrets.randbelow(1 << 32)


def cache_folder() -> Path:
    """Where support tables are kept between campaigns."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("nnfuzz"))


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
