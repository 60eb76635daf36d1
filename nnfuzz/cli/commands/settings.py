"""`nnfuzz settings`: the settings that `nnfuzz fuzz --set NAME=VALUE` can change."""

from __future__ import annotations

import typer

from nnfuzz.cli.declared import PANELS, expert_settings


def settings(context: typer.Context) -> None:
    """List the settings that nnfuzz fuzz --set NAME=VALUE changes: types, meanings, defaults.

    \b
    nnfuzz fuzz -b tvm --set epoch=64 --set learn=no

    In nnfuzz.toml they stand under [fuzz], without "set", as options do.
    """
    group = context.parent.command if context.parent else None
    known = expert_settings(group.commands["fuzz"]) if group else {}  # type: ignore[attr-defined]
    formatter = context.make_formatter()
    for panel in PANELS:
        own = {name: p for name, p in known.items() if p.rich_help_panel == panel.title}
        rows = [(f"{name}={p.metavar or 'yes|no'}", p.help) for name, p in own.items()]
        if rows:
            with formatter.section(panel.title):
                formatter.write_dl(rows)
    typer.echo(formatter.getvalue().strip())
