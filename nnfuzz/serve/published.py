"""A campaign whose parts publish segments, merged in a temporary folder as they appear."""

from __future__ import annotations

import time
from pathlib import Path

from nnfuzz.parts.depot import Depot
from nnfuzz.parts.merging import merge

LOOK_SECONDS = 15.0
"""Seconds between two looks at an address that may be slow."""


class Published:
    """source: folder or address of segments. folder: of the merged campaign."""

    def __init__(self, source: str, scratch: Path) -> None:
        self.folder = scratch / "whole"
        self._source = source
        self._depot = Depot(source)
        self._names: list[str] = []
        self._looked = -LOOK_SECONDS

    def fetch(self) -> None:
        """Merges all segments, if there is a new one. Raises: MergeError, Unreadable."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        names = self._depot.names("")
        if names != self._names or not self.folder.exists():
            merge([self._source], self.folder, lambda line: None).close()
            self._names = names
