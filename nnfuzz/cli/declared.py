"""Options that are declared once: help, panel, `--set` name and a campaign's record follow.

A record of options is a dataclass whose fields are annotated as typer's parameters are. Next to
`option(...)` an annotation may hold `Recorded(...)`, which says where a campaign keeps the value.
`EXPERT` hides an option and makes it a setting for `--set NAME=VALUE`; `Setting(...)` is both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo


@dataclass(frozen=True)
class Panel:
    """A heading under which --help lists options."""

    title: str

    def option(self, help: str, metavar: str = "", *names: str, **more: object) -> Any:
        """An option for an annotation. metavar: "" for a flag. more: arguments of typer.Option."""
        more |= {"help": help, "metavar": metavar or None, "rich_help_panel": self.title}
        declared: Any = typer.Option
        return declared(*names, **more)

    def share(self, help: str) -> object:
        """An option for a number from 0 to 1."""
        return self.option(help, "SHARE", min=0, max=1)

    def flag(self, help: str, *names: str) -> object:
        """An option without a value. names: "--name", or "--name/--no-name" for both answers."""
        return self.option(help, "", *names, show_default=False)


PANELS = (
    TESTED := Panel("What is tested"),
    AMOUNT := Panel("How much, and where to"),
    CRITERION := Panel("What it is run on, and what is right"),
    MODELS := Panel("What models are made of"),
    WRITTEN := Panel("How models are written"),
    REPORTED := Panel("What is reported"),
    SUPPORT := Panel("What compilers do not support"),
    PROCESSES := Panel("Processes"),
    OTHERS := Panel("Options"),
)
"""All headings in the order of --help."""

EXPERT = "expert"
"""Marks an option that is hidden: `--set` sets it, and `nnfuzz settings` lists it."""


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Recorded:
    """Where a campaign keeps the value of an option.

    name: of the setting; "" for the name of the option. read: makes the setting from the text that
    was typed; it raises UsageError.
    """

    name: str = ""
    read: Callable[[Any], Any] = same


class Setting(Recorded):
    """Marks an option that a campaign keeps and that is hidden as `EXPERT` says."""


RECORDED, SETTING = Recorded(), Setting()
"""Marks of options that a campaign keeps as they were typed, under their own names."""


def recorded(options: Any) -> dict[str, object]:
    """The settings that a record of options asks for; those that were not given are left out."""
    values = (
        (name, where, getattr(options, name)) for name, where in recorded_places(type(options))
    )
    given = ((name, where, value) for name, where, value in values if value not in (None, []))
    return {where.name or name: where.read(value) for name, where, value in given}


def recorded_places(record: type) -> Iterator[tuple[str, Recorded]]:
    """The options that a campaign keeps, and where."""
    for name, annotation in get_type_hints(record, include_extras=True).items():
        for mark in get_args(annotation)[1:]:
            if isinstance(mark, Recorded):
                yield name, mark


def taking(record: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function of (context, options): its parameters are the record's fields.

    Fields that are marked as `EXPERT` or `Setting` become hidden options.
    """
    hints = get_type_hints(record, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_hidden_if_expert(hints[field.name]),
        )
        for field in fields(record)
    ]
    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        def command(context: typer.Context, **values: object) -> None:
            function(context, record(**values))

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__module__ = function.__module__
        command.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
        return command

    return decorated


def _hidden_if_expert(annotation: object) -> object:
    kind, *marks = get_args(annotation)
    option_info = next(mark for mark in marks if isinstance(mark, OptionInfo))
    if any(mark == EXPERT or isinstance(mark, Setting) for mark in marks):
        option_info = copy(option_info)
        option_info.hidden = True
    return Annotated[kind, option_info]


def expert_settings(command: Any) -> dict[str, Any]:
    """The hidden options of a click command, by their names for `--set`."""
    options = (p for p in command.params if p.param_type_name == "option" and p.hidden)
    return {param.opts[0].removeprefix("--"): param for param in options}


def with_settings(command: object, context: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The parsed options, with the values of `--set NAME=VALUE` under the names of their options.

    Notes on stderr that the old spelling of a setting, as an option, will go.
    Raises: typer.BadParameter.
    """
    known = expert_settings(command)
    for name, param in known.items():
        if param.name in given and not context.resilient_parsing:
            value = given[param.name]
            value = ",".join(value) if param.multiple else value
            value = ("yes" if value else "no") if isinstance(value, bool) else value
            typer.echo(
                f"note: --{name} is a setting now, --set {name}={value}; the option goes with the "
                "next release",
                err=True,
            )
    for text in given.get("set", ()):
        name, equals, value = text.partition("=")
        param = _setting(command, known, name, bool(equals))
        given[param.name] = _value(param, name, value, context)
    return given


def _setting(command: Any, known: Mapping[str, Any], name: str, complete: bool) -> Any:
    """Raises: typer.BadParameter, which names the fix, if it is no NAME=VALUE with a known name."""
    from nnfuzz.backend.contract import suggest

    if any(f"--{name}" in param.opts for param in command.params) and name not in known:
        raise typer.BadParameter(f"{name} is an option: --{name}", param_hint="--set")
    if name not in known:
        message = (
            f"there is no setting {name!r}; {suggest(name, known)} (nnfuzz settings lists them)"
        )
        raise typer.BadParameter(message, param_hint="--set")
    if not complete:
        raise typer.BadParameter(f"{name} needs a value: --set {name}=...", param_hint="--set")
    return known[name]


def _value(param: Any, name: str, text: str, context: Any) -> Any:
    """The text, checked as click checks the option. Raises: typer.BadParameter."""
    value = [text] if param.multiple else text
    try:
        param.process_value(typer.Context(context.command, resilient_parsing=True), value)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=f"--set {name}") from error
    return value
