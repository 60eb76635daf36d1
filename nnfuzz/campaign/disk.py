"""How much of the disk a campaign takes, and what it does without once that is too much.

The oldest agreeing tests lose what only statistics need: the features of their graphs, motifs and
passes. What a campaign needs to go on stays, and so does every finding; when there is nothing left
to lose, the campaign ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nnfuzz.campaign.schedule import LONGEST
from nnfuzz.campaign.store import FILE, Store
from nnfuzz.campaign.tables.schema import FOLDERS

LOOK_SECONDS = 20.0
"""Between looks; a campaign writes some MB in that time."""
LARGE_LOG = 64 << 20
"""Bytes of the write-ahead log, beyond which a reader has kept it from being taken over."""
AT_A_TIME = 2000  # tests


class DiskBudget:
    """limit: bytes; 0 for none."""

    def __init__(self, store: Store, limit: int, note: Callable[[str], None]) -> None:
        self.limit = limit
        self._store = store
        self._note = note
        self._looked = -LOOK_SECONDS
        self._thinned = self._full = False

    def exceeded(self, recorded: int) -> bool:
        """Whether the campaign has to end; looks now and then, and makes room first.

        recorded: the index below which all tests are.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return self._full
        if log_bytes(self._store.folder) > LARGE_LOG:
            self._store.checkpoint()
        while self.limit and (used := self.used()) > self.limit and not self._full:
            # Epochs have learned from all tests that are older than two of them.
            gone = self._store.thin(recorded - 2 * LONGEST, AT_A_TIME)
            if gone and not self._thinned:
                self._note("--disk is reached: the oldest tests that agree lose their statistics")
            if not gone:
                self._note(
                    f"--disk is reached: {used >> 20} MB of findings and of what a campaign needs "
                    "to go on; --resume with a higher one goes on"
                )
            self._thinned, self._full = self._thinned or bool(gone), not gone
        self._looked = time.monotonic()
        return self._full

    def used(self) -> int:
        """Bytes of the rows and of the folders of findings."""
        files = (path for place in FOLDERS for path in _files(self._store.folder / place))
        return self._store.row_bytes() + sum(map(_bytes, files))


def log_bytes(folder: Path) -> int:
    """Of the write-ahead log."""
    return _bytes(str(folder / f"{FILE}-wal"))


def _files(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in names)


def _bytes(path: str) -> int:
    """On the disk; 0 if it is gone meanwhile."""
    try:
        return os.lstat(path).st_blocks * 512
    except OSError:
        return 0
