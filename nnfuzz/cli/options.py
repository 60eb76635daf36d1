"""Options of commands under their headings, and their defaults from `nnfuzz.toml`.

Options of settings are derived from nnfuzz.records. The file lies in the working directory. It has
a table per command, with keys as on the command line, which wins, without the dashes in front:

    [fuzz]
    backend = ["tvm"]
    time = "10m"
    full-check = 0.1
"""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nnfuzz.base.setting import GROUPS, LARGEST, NAMES, Kind, Setting
from nnfuzz.base.shard import Shard
from nnfuzz.base.untrusted import making_sense, read_text
from nnfuzz.cli.errors import UsageError
from nnfuzz.records.settings import SETTINGS

FILE = "nnfuzz.toml"
_PROGRAMS = ("plugin", "python")  # not in the file, which a folder of somebody else may have


PART = Kind("K/N", "a part: write 2/8 for the second of eight parts", Shard.parse)


@dataclass(frozen=True)
class Panel:
    """A heading under which --help lists options."""

    title: str

    def option(self, help: str, metavar: str | Kind = "", *names: str, **more: object) -> Any:
        """An option for an annotation. metavar: "" for a flag; a kind reads the value as well.

        more: arguments of typer.Option.
        """
        if isinstance(metavar, Kind):
            more, metavar = {"parser": _parser(metavar), **more}, metavar.unit
        if "min" in more:
            more = {"max": LARGEST, **more}
        more |= {"help": help, "metavar": metavar or None, "rich_help_panel": self.title}
        declared: Any = typer.Option
        return declared(*names, **more)

    def flag(self, help: str, *names: str) -> object:
        """An option without a value. names: "--name", or "--name/--no-name" for both answers."""
        return self.option(help, "", *names, show_default=False)


PANELS = tuple(map(Panel, GROUPS))
"""All headings in the order of --help."""
TESTED, AMOUNT, FED, MODELS, WRITTEN, REPORTED, SUPPORT, PROCESSES, OTHERS = PANELS


def option_of(name: str, *spellings: str, **more: object) -> Any:
    """The typer option for a setting, to annotate a parameter. Its value is the text as typed."""
    declared = SETTINGS[name]
    panel = Panel(declared.group)
    return panel.option(declared.described, declared.kind.unit, *spellings, **more)


def taking(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the options of settings to a command. Its parameter `given` receives the values of the
    options that the user has typed, by the names of their fields.
    """

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name != "given"
        ]

        def command(**values: Any) -> None:
            given = {}
            for name in names:
                if (value := values.pop(_parameter(name))) not in (None, []):
                    joined = tuple(chain(*value)) if isinstance(value, list) else value
                    given[SETTINGS[name].field] = joined
            function(given=given, **values)

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__module__ = function.__module__
        parameters = [*own, *map(_option, names)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorated


def _parameter(name: str) -> str:
    return name.replace("-", "_")


def _option(name: str) -> inspect.Parameter:
    """The parameter of a setting, with its value; an option with names may be repeated."""
    kind = list[str] if SETTINGS[name].kind is NAMES else str
    return inspect.Parameter(
        _parameter(name),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, option_of(name, parser=_parser(SETTINGS[name].kind))],
    )


def _parser(kind: Kind) -> Callable[[Any], Any]:
    def parse(text: Any) -> Any:
        """Raises: typer.BadParameter."""
        try:
            return kind.read(str(text))
        except ValueError as error:
            raise typer.BadParameter(f"{error}.") from error

    return parse


def values_of(command: Any, texts: Iterable[str]) -> dict[str, Any]:
    """The values of NAME=VALUE by the names of fields. Raises: UsageError that names the fix.

    command: the click command, whose own options are no settings for --set.
    """
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        declared = named(command, name)
        if not equals:
            raise UsageError(f"--set {name} needs a value: --set {name}={declared.kind.unit}")
        try:
            values[declared.field] = declared.kind.read(value)
        except ValueError as error:
            raise UsageError(f"--set {name}: {error}") from error
    return values


def named(command: Any, name: str) -> Setting:
    """The setting for --set of a name. Raises: UsageError, which names the fix."""
    from nnfuzz.backend.contract import suggest

    if any(f"--{name}" in param.opts for param in command.params):
        raise UsageError(f"--set: {name} is an option: --{name}")
    known = settable(command)
    if name not in known:
        hint = f"{suggest(name, known)} (nnfuzz settings lists them)"
        raise UsageError(f"--set: there is no setting {name!r}; {hint}")
    return known[name]


def settable(command: Any) -> dict[str, Setting]:
    """The settings that are no options of a command, by name."""
    options = {name for param in command.params for name in param.opts}
    return {name: each for name, each in SETTINGS.items() if f"--{name}" not in options}


JUnit = Annotated[
    Path | None,
    REPORTED.option("Write the results as JUnit XML.", "FILE"),
]
SummaryMd = Annotated[
    Path | None,
    REPORTED.option(
        "Write them as Markdown, such as the summary of a job: $GITHUB_STEP_SUMMARY.",
        "FILE",
        "--summary-md",
    ),
]
Levels = Annotated[list[str] | None, option_of("level")]


Plugins = Annotated[
    list[Path] | None,
    TESTED.option(
        "File (or importable module) with further backends, operators or motifs. It runs with "
        "your rights; those that a finding or campaign names run only if they are given here.",
        "FILE.py",
        "--plugin",
    ),
]
Backends = Annotated[
    list[str] | None,
    TESTED.option(
        "Compiler under test, with options (nnfuzz backends lists both); repeat it to "
        "compare several. A release that is not installed gets an environment of its own.",
        "NAME[@RELEASE][,KEY=VALUE]",
        "--backend",
        "-b",
    ),
]
FindingFolder = Annotated[Path, typer.Argument(help="Folder of a finding.", show_default=False)]
CampaignFolder = Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)]
OwnBackend = Annotated[
    str,
    TESTED.option(
        "Run it on this backend [default: its own, with its options].",
        "NAME[@RELEASE][,KEY=VALUE]",
        "--backend",
        "-b",
    ),
]
Original = Annotated[
    bool,
    OTHERS.flag(
        "Take the model that was generated, where the finding has a reduced one as well.",
        "--original",
    ),
]


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
        return _tables(group, tables, "")
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def _tables(command: object, table: Mapping[str, object], path: str) -> dict[str, object]:
    """The options of a command and the tables of its sub-commands. Raises: UsageError."""
    inner = getattr(command, "commands", {})
    settings = _settings(command)
    options: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name in settings:
            options.setdefault("set", []).append(_set(command, name, value, path))
        elif key not in inner:
            options |= _default(command, key, value, path)
        elif isinstance(value, dict):
            options[key] = _tables(inner[key], value, f"{path}.{key}".lstrip("."))
        else:
            raise UsageError(f"{key} is a command and needs a table: [{key}]")
    return options


def _default(command: Any, key: str, value: Any, path: str) -> dict[str, object]:
    """{parameter: value} of one key; click names the fault of a wrong value. Raises: UsageError."""
    known = {n: param for param in command.params for n in _names(param) if path and n != "set"}
    param = known.get(key.replace("_", "-"))
    if param is None:
        from nnfuzz.backend.contract import suggest

        place = f"[{path}] has no option" if path else "there is no command"
        inner = getattr(command, "commands", {})
        owners = [
            name for name, sub in inner.items() if key.replace("_", "-") in _option_names(sub)
        ]
        if not path and owners:
            table = "fuzz" if "fuzz" in owners else owners[0]
            raise UsageError(f"{key!r} stands in no table: put it under [{table}]")
        raise UsageError(f"{place} {key!r}; {suggest(key, [*known, *inner, *_settings(command)])}")
    if param.name in _PROGRAMS:
        raise UsageError(f"[{path}] {key}: a program runs if the command names it: --{key} {value}")
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
    return settable(command) if "set" in _option_names(command) else {}


def _option_names(command: Any) -> set[str]:
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
