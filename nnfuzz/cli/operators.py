"""Shared by commands about operators: the registry with plug-ins, and a wide terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.cli.errors import UsageError, tell

if TYPE_CHECKING:
    from rich.console import Console

    from nnfuzz.operators.registry import OpRegistry

LOG_WIDTH = 180


def load_operators(plugins: Iterable[Path]) -> OpRegistry:
    """All operators, with those of plug-in files. Raises: UsageError."""
    from nnfuzz.backend.registry import import_plugin
    from nnfuzz.operators.registry import OpRegistry

    try:
        registry = OpRegistry.load(import_plugin(path) for path in plugins)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for note in registry.notes:
        tell(note)
    return registry


def terminal() -> Console:
    """A rich console of the terminal's width; LOG_WIDTH columns where stdout is no terminal."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, file=sys.__stdout__)
    return Console(highlight=False, width=LOG_WIDTH)
