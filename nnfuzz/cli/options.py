"""Options of commands under their headings; those of settings are derived from nnfuzz.records."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nnfuzz.base.setting import GROUPS, NAMES, Setting
from nnfuzz.cli.consent import remember
from nnfuzz.cli.errors import UsageError
from nnfuzz.records.settings import SETTINGS


@dataclass(frozen=True)
class Panel:
    """A heading under which --help lists options."""

    title: str

    def option(self, help: str, metavar: str = "", *names: str, **more: object) -> Any:
        """An option for an annotation. metavar: "" for a flag. more: arguments of typer.Option."""
        more |= {"help": help, "metavar": metavar or None, "rich_help_panel": self.title}
        declared: Any = typer.Option
        return declared(*names, **more)

    def flag(self, help: str, *names: str) -> object:
        """An option without a value. names: "--name", or "--name/--no-name" for both answers."""
        return self.option(help, "", *names, show_default=False)


PANELS = tuple(map(Panel, GROUPS))
"""All headings in the order of --help."""
TESTED, AMOUNT, CRITERION, MODELS, WRITTEN, REPORTED, SUPPORT, PROCESSES, OTHERS = PANELS


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
        annotation=Annotated[kind | None, option_of(name, parser=_parser(SETTINGS[name]))],
    )


def _parser(declared: Setting) -> Callable[[Any], Any]:
    def parse(text: Any) -> Any:
        """Raises: typer.BadParameter."""
        try:
            return declared.kind.read(str(text))
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


Levels = Annotated[list[str] | None, option_of("level")]


def _named(context: typer.Context, plugins: list[Path] | None) -> list[Path] | None:
    """Remembers a plug-in of the command line, if a command runs: completion only checks it."""
    return plugins if context.resilient_parsing else remember(plugins)


Plugins = Annotated[
    list[Path] | None,
    TESTED.option(
        "File (or importable module) with further backends, operators or motifs. It runs with "
        "your rights; once named here, findings and campaigns that name it may use it, too.",
        "FILE.py",
        "--plugin",
        callback=_named,
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
