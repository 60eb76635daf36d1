"""Reads the table [watch] of nnfuzz.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import typer

from nnfuzz.backend.contract import suggest
from nnfuzz.base.reading import Json, JsonObject, Unreadable, read
from nnfuzz.base.untrusted import making_sense, read_text
from nnfuzz.cli.declared import recorded
from nnfuzz.cli.defaults import read_defaults
from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.fuzz_options import FuzzOptions
from nnfuzz.cli.values import duration
from nnfuzz.watch.settings import Channel, SystemSettings, WatchSettings

TIME = "1h"
"""The time of a campaign where the file gives neither time nor tests."""
_OF_A_TURN = ("tests_limit", "time_limit", "seed", "shard", "share")
T = TypeVar("T")


@dataclass(frozen=True)
class _WatchTable:
    """[watch] as it is typed; tests and time are those of systems that have none of their own."""

    ledger: str = "bugs"
    publish: str = ""
    address: str = ""
    announce: str = ""
    work: str = "nnfuzz-out/watch"
    pause: str = ""
    plugin: tuple[str, ...] = ()
    tests: int = 0
    time: str = ""


def read_watch(file: Path, group: object) -> WatchSettings:
    """The settings of a watch. group: the click command that has the sub-commands, for [fuzz].

    Raises: UsageError that names the file, the table and the fix; Unreadable.
    """
    text = read_text(file)
    with making_sense(file):
        tables = tomllib.loads(text)
    watch = tables.get("watch")
    if not isinstance(watch, dict):
        raise UsageError(f"{file} has no table [watch]; docs/WATCH.md has one to start from")
    own = {name: value for name, value in watch.items() if name != "systems"}
    table = _checked(_WatchTable, own, f"{file}: [watch]")
    listed = watch.get("systems", {})
    if not isinstance(listed, dict) or not all(isinstance(v, dict) for v in listed.values()):
        raise UsageError(f"{file}: a system is a table: [watch.systems.NAME]")
    try:
        return WatchSettings(
            systems={name: _system(file, name, data, table) for name, data in listed.items()},
            ledger=Path(table.ledger),
            publish=Path(table.publish) if table.publish else None,
            address=table.address,
            announce=table.announce,
            work=Path(table.work),
            pause=duration(table.pause, "pause") if table.pause else 0.0,
            plugins=tuple(map(Path, table.plugin)),
            fuzz=_fuzz_settings(file, group),
        )
    except ValueError as error:
        raise UsageError(f"{file}: {error}") from error


def _system(file: Path, name: str, data: JsonObject, table: _WatchTable) -> SystemSettings:
    """Raises: UsageError."""
    given = {"backend": name, **data}
    if "wheels" in given:
        given.setdefault("channel", Channel.WHEELS)
    if "tests" not in given and "time" not in given:
        given |= {"tests": table.tests, "time": table.time or ("" if table.tests else TIME)}
    time = given.pop("time", "")
    if not isinstance(time, str):
        raise UsageError(f"{file}: [watch.systems.{name}] time {time!r}: write 90s, 10m or 4h")
    given["time"] = duration(time, "time") if time else 0.0
    return _checked(SystemSettings, given, f"{file}: [watch.systems.{name}]")


def _checked(kind: type[T], data: Mapping[str, Json], place: str) -> T:
    """Raises: UsageError that begins with the place."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if unknown := [name for name in data if name not in names]:
        raise UsageError(f"{place} has no {unknown[0]!r}; {suggest(unknown[0], names)}")
    try:
        return read(kind, data)
    except Unreadable as error:
        problem = str(error).removeprefix("it: ").removeprefix(".")
        raise UsageError(f"{place} {problem}") from error


def _fuzz_settings(file: Path, group: Any) -> dict[str, object]:
    """The settings of [fuzz] in the same file, without limits. Raises: UsageError."""
    given = read_defaults(group, file).get("fuzz", {})
    command = group.commands["fuzz"]
    context = typer.Context(command, resilient_parsing=True)
    assert isinstance(given, dict)
    values: dict[str, Any] = {}
    hints = get_type_hints(FuzzOptions)
    for param in (p for p in command.params if p.name in given):
        value = param.process_value(context, given[param.name])
        is_path = Path in get_args(hints[param.name])
        values[param.name] = Path(value) if is_path else value
    found = recorded(replace(FuzzOptions(), **values))
    return {name: value for name, value in found.items() if name not in _OF_A_TURN}
