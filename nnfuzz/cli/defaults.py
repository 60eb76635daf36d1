"""Defaults for options from `nnfuzz.toml` in the working directory; the command line wins.

A table per command, keys as on the command line without the dashes in front:

    [fuzz]
    backend = ["tvm"]
    time = "10m"
    full-check = 0.1
"""

from __future__ import annotations

import difflib
import inspect
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import typer

from nnfuzz.cli.errors import UsageError

FILE = "nnfuzz.toml"
_KINDS: Mapping[type, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (int, "a whole number"),
    float: ((int, float), "a number"),
    str: (str, "a text in quotes"),
}


def read_defaults(group: Any, file: Path = Path(FILE)) -> dict[str, Any]:
    """The file as click's default map, checked: command -> parameter -> value.

    group: the click command that has the sub-commands. {} if there is no file. Raises: UsageError
    that names the file, the key and the likely option.
    """
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error
    return _commands(group, data, file, "")


def _commands(group: Any, data: Mapping[str, Any], file: Path, prefix: str) -> dict[str, Any]:
    """The tables of a group's commands; its own options may stand between them."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        if key not in group.commands:
            found |= _option(group, key, value, file, prefix, group.commands)
        elif not isinstance(value, dict):
            raise UsageError(f"{file}: {key} is a command and needs a table: [{prefix}{key}]")
        elif hasattr(group.commands[key], "commands"):
            found[key] = _commands(group.commands[key], value, file, f"{prefix}{key}.")
        else:
            found[key] = _options(group.commands[key], value, file, f"{prefix}{key}.")
    return found


def _options(command: Any, table: Mapping[str, Any], file: Path, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= _option(command, key, value, file, prefix, ())
    return found


def _option(
    command: Any, key: str, value: Any, file: Path, prefix: str, others: Iterable[str]
) -> dict[str, Any]:
    """{parameter: value} of one key. others: names besides the options. Raises: UsageError."""
    known = {name: param.name for param in command.params for name in _names(param) if prefix}
    table = prefix.rstrip(".")
    name = known.get(key.replace("_", "-"))
    if name is None:
        place = f"[{table}] has no option" if prefix else "there is no command"
        names = [*known, *others]
        close = difflib.get_close_matches(key, names, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(names))}"
        raise UsageError(f"{file}: {place} {key!r}; {hint}")
    asked = get_type_hints(inspect.unwrap(command.callback), include_extras=True)[name]
    return {name: _checked(asked, value, f"{file}: [{table}] {key}")}


def _names(param: Any) -> list[str]:
    """The long names of an option without dashes; none for arguments, --help and --version."""
    if param.param_type_name != "option" or param.is_eager:
        return []
    return [name.removeprefix("--") for name in param.opts if name.startswith("--")]


def _checked(asked: Any, value: Any, where: str) -> Any:
    """The value as click's default map takes it. asked: Annotated[type, typer's option].

    Raises: UsageError for another type or a number out of range.
    """
    annotation, option = get_args(asked)
    kinds = {kind for kind in get_args(annotation) or (annotation,) if kind is not NoneType}
    lists = [kind for kind in kinds if get_origin(kind) is list]
    (kind,) = get_args(lists[0]) if lists else kinds
    values = value if lists and isinstance(value, list) else [value]
    accepted, called = _KINDS.get(kind, _KINDS[str])
    for item in values:
        if not isinstance(item, accepted) or (isinstance(item, bool) and kind is not bool):
            several = ", or a list of such" if lists else ""
            raise UsageError(f"{where} must be {called}{several}, not {value!r}")
        if option.min is not None and item < option.min:
            raise UsageError(f"{where} must be {option.min} or more, not {item}")
        if option.max is not None and item > option.max:
            raise UsageError(f"{where} must be {option.max} or less, not {item}")
    return values if lists else value


def from_file(context: typer.Context) -> set[str]:
    """The parameters of the running command whose values come from the file."""
    sources = ((name, context.get_parameter_source(name)) for name in context.params)
    return {name for name, source in sources if source and source.name == "DEFAULT_MAP"}
