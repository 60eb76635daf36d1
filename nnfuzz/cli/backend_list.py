"""The output of `nnfuzz backends`: a line for each backend, or all about those that are named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

from nnfuzz.backend.contract import Backend, BackendOptions
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, RegistryError
from nnfuzz.backend.releases import known_release
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.cli.errors import plain_message


def overview(registry: BackendRegistry) -> Iterator[str]:
    """Lines on all backends, the installed ones first, without starting or importing a compiler."""
    compilers: list[tuple[str, ...]] = []
    helpers: list[tuple[str, ...]] = []
    missing = []
    for name in registry.names():
        try:
            backend = registry.get(name)
            reason = backend.missing()
        except RegistryError as error:
            reason = str(error)
        if reason:
            missing.append(f"    {name}: {reason}")
        else:
            (helpers if backend.baseline else compilers).append(_cells(backend, name))
    for title, rows in (
        ("installed (* levels that are compared by default)", compilers),
        ("installed exporters and model optimisers", helpers),
    ):
        widths = [max(map(len, column)) for column in zip(*rows)]
        yield from [f"{title}:"] if rows else []
        for row in rows:
            yield "    " + "  ".join(cell.ljust(n) for cell, n in zip(row, widths)).rstrip()
    yield from ("not here:", *missing) if missing else ()
    yield "options of every backend:"
    yield from _options(fields(BackendOptions))
    yield "the meaning of other options: nnfuzz backends NAME"
    yield "whether a backend starts: nnfuzz backends --check NAME"


def _cells(backend: type[Backend], name: str) -> tuple[str, ...]:
    """Name, release, levels, and the options that not every backend has with this default."""
    common = {option.name: option.default for option in fields(BackendOptions)}
    own = [o for o in fields(backend.Options) if common.get(o.name, o) != o.default]
    options = " ".join(f"{option.name}={option.default}" for option in own)
    return name, known_release(backend), _levels(backend), options


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


def _options(options: tuple[Field[Any], ...]) -> Iterator[str]:
    for option in options:
        yield f"    {option.name}={option.default}: {option.metadata.get('help', '')}"
