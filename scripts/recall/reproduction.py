"""Runs entries in the environments of their releases, and says which reproduce."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.registry import RegistryError
from scripts.recall.entries import Entry
from scripts.recall.environments import python_of

PROGRAM = Path(__file__).with_name("program.py")


@dataclass(frozen=True)
class Outcome:
    """What an entry does on a release. outcome: as in program.py, or "absent" for a release that
    cannot be installed."""

    entry: Entry
    release: str
    outcome: str
    detail: str = ""

    @property
    def reproduces(self) -> bool:
        return self.outcome == self.entry.kind


def outcomes(chosen: Sequence[Entry], fixed: bool = False) -> Iterator[Outcome]:
    """The outcome of each entry on its broken release, or on the one that fixed it.

    Entries of one release share a process, in which each has a child of its own.
    """
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in chosen:
        if release := entry.fixed if fixed else entry.broken:
            groups[entry.system, release].append(entry)
    for (system, release), group in groups.items():
        yield from _run(system, release, group)


def _run(system: str, release: str, group: list[Entry]) -> Iterator[Outcome]:
    try:
        python = python_of(system, release)
    except RegistryError as error:
        yield from (Outcome(entry, release, "absent", str(error)) for entry in group)
        return
    command = [str(python), str(PROGRAM), *(str(entry.path) for entry in group)]
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=settings)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"entry"')]
    found = {result["entry"]: result for result in map(json.loads, lines)}
    for entry in group:
        result = found.get(entry.name, {"outcome": "absent", "detail": done.stderr[-300:]})
        yield Outcome(entry, release, result["outcome"], result["detail"])
