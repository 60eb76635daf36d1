"""A campaign whose parts publish segments, put together in a temporary folder as they come."""

from __future__ import annotations

import time
from pathlib import Path

from nnfuzz.parts.depot import Depot
from nnfuzz.parts.merging import merge

LOOK_SECONDS = 15.0
"""Between looks at a place that may be far away."""


class Published:
    """source: folder or address where nnfuzz publish has written; folder: of the whole."""

    def __init__(self, source: str, scratch: Path) -> None:
        self.folder = scratch / "whole"
        self._source = source
        self._depot = Depot(source)
        self._names: list[str] = []
        self._looked = -LOOK_SECONDS

    def fetch(self) -> None:
        """Puts together what is there, if anything is new. Raises: MergeError, Unreadable."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        names = self._depot.names("")
        if names != self._names or not self.folder.exists():
            merge([self._source], self.folder, lambda line: None).close()
            self._names = names
