"""The stages of a test case, from the graph to the comparison of results."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """Where an outcome arose."""

    EXPORT = "export"
    TRANSFORM = "transform"
    IMPORT = "import"
    COMPILE = "compile"
    EXECUTE = "execute"
    COMPARE = "compare"
