"""`nnfuzz settings`: the settings that `nnfuzz fuzz --set NAME=VALUE` can change."""

from __future__ import annotations

from typing import Any

import typer

from nnfuzz.base.setting import GROUPS
from nnfuzz.cli.declared import settable


def settings(context: typer.Context) -> None:
    """List the settings that nnfuzz fuzz --set NAME=VALUE changes: values, meanings, defaults.

    \b
    nnfuzz fuzz -b tvm --set epoch=64 --set learn=no

    In nnfuzz.toml they stand under [fuzz], without "set", as options do.
    """
    group: Any = context.parent and context.parent.command
    known = settable(group.commands["fuzz"])
    formatter = context.make_formatter()
    for title in GROUPS:
        own = [each for each in known.values() if each.group == title]
        if own:
            with formatter.section(title):
                formatter.write_dl([(f"{s.name}={s.kind.unit}", s.described) for s in own])
    typer.echo(formatter.getvalue().strip())
