"""Replaces, moves and mends the folders of findings below a campaign's folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nnfuzz.base.files import remove_partial
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.database import DUPLICATES, FINDINGS, SUSPECTS
from nnfuzz.store.store import Store

_REPLACED = ".replaced-"


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Moves a folder aside while the block writes a new one; `mend` undoes an interruption."""
    old = folder.with_name(_REPLACED + folder.name)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(folder, old)
    yield folder
    shutil.rmtree(old, ignore_errors=True)


def mend(findings: Path) -> None:
    """Puts back folders that a killed campaign was replacing, and removes half-written ones."""
    for old in findings.glob(f"{_REPLACED}*"):
        folder = old.with_name(old.name.removeprefix(_REPLACED))
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(old, folder)
    remove_partial(findings)


def arrange(
    store: Store, rows: Mapping[str, FindingRow], findings: Iterable[FindingRow]
) -> dict[str, str]:
    """Moves each folder to its place: findings, suspects or duplicates.

    rows: signature -> row, for all signatures. findings: the same, merged. Returns signature -> new
    folder, for those that have moved. A later call completes a move that a kill has interrupted.
    """
    places: dict[str, str] = {}
    for row in findings:
        places |= dict.fromkeys(row.others, SUSPECTS)
        places |= dict.fromkeys(row.duplicates, DUPLICATES)
    moved = {}
    for signature, row in rows.items():
        place = places.get(signature, FINDINGS)
        wanted = f"{place}/{Path(row.folder).name}"
        if wanted != row.folder:
            source, target = store.folder / row.folder, store.folder / wanted
            target.parent.mkdir(exist_ok=True)
            if source.exists() and not target.exists():
                os.replace(source, target)
            store.signatures.move(signature, wanted)
            moved[signature] = wanted
    return moved
