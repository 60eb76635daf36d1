"""How much of the disk a campaign takes, and what it does without once that is too much.

The oldest agreeing tests lose what only statistics need: the features of their graphs, motifs and
passes (but where guidance learns from these). Then their rows are packed (see tables/packed.py).
What a campaign needs to go on stays, and so does every finding; when there is nothing left to pack,
the campaign ends.
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
AT_ONCE_SECONDS = 2.0  # that making room may hold up a campaign, between two looks


class DiskBudget:
    """limit: bytes; 0 for none. guided: whether old tests are still learnt from on resume.
    epoch: tests in the longest one.
    """

    def __init__(
        self,
        store: Store,
        limit: int,
        note: Callable[[str], None],
        guided: bool = False,
        epoch: int = LONGEST,
    ) -> None:
        self.limit = limit
        self._store = store
        self._note = note
        self._guided = guided
        self._epoch = epoch
        self._looked = -LOOK_SECONDS
        self._full = False
        self._told: set[str] = set()

    def exceeded(self, recorded: int) -> bool:
        """Whether the campaign has to end; looks now and then, and makes room first.

        recorded: the index below which all tests are.
        """
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return self._full
        if log_bytes(self._store.folder) > LARGE_LOG:
            self._store.checkpoint()
        end = time.monotonic() + AT_ONCE_SECONDS
        findings = self._findings() if self.limit else 0
        while self.limit and time.monotonic() < end and not self._full:
            if (used := self._store.row_bytes() + findings) <= self.limit:
                break
            self._full = not self._make_room(recorded - 2 * self._epoch)
            if self._full:
                self._note(
                    f"--disk is reached: {used >> 20} MB of findings and of what a campaign needs "
                    "to go on; --resume with a higher one goes on"
                )
        self._looked = time.monotonic()
        return self._full

    def _make_room(self, below: int) -> bool:
        """Whether there was anything to do without. below: an index; epochs have learned from all
        tests that are older than two of them.
        """
        if self._guided:
            return False
        if self._store.thin(below, AT_A_TIME):
            self._tell("lose their statistics")
        elif self._store.pack(below):
            self._tell("are packed")
        else:
            return False
        return True

    def _tell(self, what: str) -> None:
        """Says it once."""
        if what not in self._told:
            self._told.add(what)
            self._note(f"--disk is reached: the oldest tests that agree {what}")

    def used(self) -> int:
        """Bytes of the rows and of the folders of findings."""
        return self._store.row_bytes() + self._findings()

    def _findings(self) -> int:
        """Bytes of the folders; making room does not change them."""
        files = (path for place in FOLDERS for path in _files(self._store.folder / place))
        return sum(map(_bytes, files))


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
