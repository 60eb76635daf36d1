"""Defaults for options and settings from `nnfuzz.toml` in the working directory.

A table per command, keys as on the command line, which wins, without the dashes in front:

    [fuzz]
    backend = ["tvm"]
    time = "10m"
    full-check = 0.1
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from nnfuzz.base.untrusted import making_sense, read_text
from nnfuzz.cli.errors import UsageError
from nnfuzz.cli.options import settable, values_of

FILE = "nnfuzz.toml"


def read_defaults(group: object, file: Path = Path(FILE)) -> dict[str, object]:
    """The file as click's default map, checked: command -> parameter -> value; settings stand
    under "set", as on the command line.

    group: the click command that has the sub-commands. {} if there is no file. Raises: UsageError
    that names the file, the key and the likely option, Unreadable.
    """
    if not os.path.lexists(file):
        return {}
    text = read_text(file)
    with making_sense(file):
        tables = tomllib.loads(text)
    try:
        return _commands(group, tables, "")
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def _commands(command: object, table: Mapping[str, object], path: str) -> dict[str, object]:
    """The options of a command and the tables of its sub-commands. Raises: UsageError."""
    inner = getattr(command, "commands", {})
    settings = _settings(command)
    options: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name in settings:
            options.setdefault("set", []).append(_set(command, name, value, path))
        elif key not in inner:
            options |= _option(command, key, value, path)
        elif isinstance(value, dict):
            options[key] = _commands(inner[key], value, f"{path}.{key}".lstrip("."))
        else:
            raise UsageError(f"{key} is a command and needs a table: [{key}]")
    return options


def _option(command: Any, key: str, value: Any, path: str) -> dict[str, object]:
    """{parameter: value} of one key; click names the fault of a wrong value. Raises: UsageError."""
    known = {n: param for param in command.params for n in _names(param) if path and n != "set"}
    param = known.get(key.replace("_", "-"))
    if param is None:
        from nnfuzz.backend.contract import suggest

        place = f"[{path}] has no option" if path else "there is no command"
        inner = getattr(command, "commands", {})
        owners = [name for name, sub in inner.items() if key.replace("_", "-") in _options(sub)]
        if not path and owners:
            table = "fuzz" if "fuzz" in owners else owners[0]
            raise UsageError(f"{key!r} stands in no table: put it under [{table}]")
        raise UsageError(f"{place} {key!r}; {suggest(key, [*known, *inner, *_settings(command)])}")
    if param.multiple and not isinstance(value, list):
        value = [value]
    try:
        for item in value if param.multiple else [value]:
            if isinstance(item, list | dict):
                raise typer.BadParameter(f"{item!r} is not a single value.")
        context = typer.Context(command, resilient_parsing=True)  # nothing is done with it yet
        param.process_value(context, value)
    except typer.BadParameter as error:
        raise UsageError(f"[{path}] {key} = {value!r}: {error.message}") from error
    return {param.name: value}


def _set(command: object, name: str, value: Any, path: str) -> str:
    """NAME=VALUE of one key. Raises: UsageError."""
    items = value if isinstance(value, list) else [value]
    words = [str(item).lower() if isinstance(item, bool) else str(item) for item in items]
    text = f"{name}={','.join(words)}"
    try:
        values_of(command, [text])
    except UsageError as error:
        raise UsageError(f"[{path}] {name} = {value!r}: {error}") from error
    return text


def _settings(command: object) -> Mapping[str, object]:
    """The settings that stand in the table of a command with --set."""
    return settable(command) if "set" in _options(command) else {}


def _options(command: Any) -> set[str]:
    return {name for param in command.params for name in _names(param)}


def _names(param: Any) -> list[str]:
    """The long names of an option without dashes; none for arguments, --help and --version."""
    if param.param_type_name != "option" or param.is_eager:
        return []
    return [name.removeprefix("--") for name in param.opts if name.startswith("--")]


def from_file(context: typer.Context) -> set[str]:
    """The parameters of the running command whose values come from the file."""
    sources = ((name, context.get_parameter_source(name)) for name in context.params)
    return {name for name, source in sources if source and source.name == "DEFAULT_MAP"}
