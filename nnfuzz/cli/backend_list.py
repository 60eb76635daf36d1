"""The output of `nnfuzz backends`: a line for each backend, or all about those that are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, fields
from typing import Any

from nnfuzz.backend.contract import Backend, BackendOptions
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, RegistryError
from nnfuzz.backend.releases import known_release
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.cli.errors import plain_message


@dataclass(frozen=True)
class _Row:
    """One backend that can be used. helper: whether it only rewrites models for a compiler."""

    helper: bool
    name: str
    release: str
    levels: str
    options: str


def overview(registry: BackendRegistry) -> Iterator[str]:
    """Lines on all backends, the installed ones first, without starting or importing a compiler."""
    rows, missing = [], []
    for name in registry.names():
        try:
            backend = registry.get(name)
            if reason := backend.missing():
                missing.append(f"    {name}: {reason}")
            else:
                rows.append(_row(backend, name))
        except RegistryError as error:
            missing.append(f"    {name}: {error}")
    compilers, helpers = ([r for r in rows if r.helper is helper] for helper in (False, True))
    for title, group in (
        ("installed (* levels that are compared by default)", compilers),
        ("installed exporters and model optimisers", helpers),
    ):
        yield from (f"{title}:", *_table(group)) if group else ()
    yield from ("not here:", *missing) if missing else ()
    yield "options of every backend:"
    yield from _options(fields(BackendOptions))
    yield "the meaning of other options: nnfuzz backends NAME"
    yield "whether a backend starts: nnfuzz backends --check NAME"


def _row(backend: type[Backend], name: str) -> _Row:
    options = " ".join(f"{option.name}={option.default}" for option in _own(backend))
    release = known_release(backend)
    return _Row(bool(backend.baseline), name, release, _levels(backend), options)


def _table(rows: list[_Row]) -> Iterator[str]:
    """The rows as lines with columns."""
    cells = [(row.name, row.release, row.levels, row.options) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for row in cells:
        yield "    " + "  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip()


def backend_lines(registry: BackendRegistry, spec: BackendSpec, check: bool) -> Iterator[str]:
    """Lines on one backend. check: whether it is started for them. Raises: RegistryError."""
    backend = registry.get(spec.name)
    yield f"{spec}: {_state(registry, spec, check)}"
    yield f"    {registry.source(spec.name)}"
    yield f"    levels: {_levels(backend)} (* compared by default)"
    if backend.steps:
        yield f"    {len(backend.steps)} passes and options that pipelines are drawn from"
    yield from _options(fields(backend.Options))


def _state(registry: BackendRegistry, spec: BackendSpec, check: bool) -> str:
    """The installed release by its metadata, or why there is none; for a check the versions that
    the compiler reports in a worker, or why it does not start.
    """
    backend = registry.get(spec.name)
    if not spec.release and (reason := backend.missing()):
        return f"missing: {reason}"
    if not check:
        return f"{spec.name} {spec.release or known_release(backend)}".rstrip()
    try:
        with BackendRunner(spec, registry) as runner:
            return ", ".join(f"{k} {v}" for k, v in runner.versions().items())
    except RunnerError as error:
        return f"does not start: {plain_message(error).splitlines()[0]}"


def _levels(backend: type[Backend]) -> str:
    default = backend.default_levels()
    return " ".join(f"{level}*" if level in default else level for level in backend.levels)


def _own(backend: type[Backend]) -> list[Field[object]]:
    """The options that not every backend has with this default."""
    common = {option.name: option.default for option in fields(BackendOptions)}
    return [o for o in fields(backend.Options) if common.get(o.name, o) != o.default]


def _options(options: tuple[Field[Any], ...]) -> Iterator[str]:
    for option in options:
        yield f"    {option.name}={option.default}: {option.metadata.get('help', '')}"
