"""How long work of the library shows how far it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Note = Callable[[str], None]
"""Shows a line to people."""
Advance = Callable[[str], None]
"""Counts one step; the text says how things stand."""
Steps = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a display of a number of steps, under a label."""


def ignore(line: str) -> None:
    """A `Note` or an `Advance` that nobody reads."""


def no_steps(label: str, total: int) -> AbstractContextManager[Advance]:
    """`Steps` that show nothing."""
    return nullcontext(ignore)
