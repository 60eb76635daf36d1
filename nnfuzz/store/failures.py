"""The failures of a campaign: their findings, occurrences, reductions and folders."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nnfuzz.base.files import remove_partial
from nnfuzz.base.writing import as_json
from nnfuzz.records.rows import FindingRow, FlakyRow, Occurrence, ReductionRow
from nnfuzz.store.database import (
    DUPLICATES,
    FINDINGS,
    SUSPECTS,
    Database,
    Table,
    dumps,
    loads,
)
from nnfuzz.testcase.identity import TestId, parse_id


class Occurrences(Table):
    """One row per signature and test."""

    def add(self, occurrence: Occurrence) -> None:
        """Keeps that a failure occurred in a test."""
        self._db.put("occurrences", occurrence, idx=occurrence.test.index)

    def rows(self) -> Iterator[tuple[str, TestId, str, str]]:
        """Yields signature, test, "BACKEND KIND STAGE" and levels ("O0,O3") of each occurrence."""
        query = "SELECT signature, test, kind, levels FROM occurrences ORDER BY test, signature"
        for signature, test, kind, levels in self._db.execute(query):
            yield signature, parse_id(test), kind, levels

    def flaky(self) -> list[FlakyRow]:
        """Returns the failures that did not repeat, the most frequent first."""
        query = """
            SELECT signature, max(title) AS title, count(*) AS occurrences,
                sum(repeated) AS repeated, sum(tried) AS tried
            FROM occurrences
            WHERE bucket = 'flaky' GROUP BY signature ORDER BY count(*) DESC, signature"""
        return list(self._db.records(FlakyRow, query))

    def confirmed_before(self, index: int) -> list[str]:
        """Returns the signatures that were confirmed in tests below an index, whether or not they
        are to be ignored.
        """
        query = "SELECT DISTINCT signature FROM occurrences WHERE bucket != 'flaky' AND idx < ?"
        return [signature for (signature,) in self._db.execute(query, index)]

    def counts_in(self, bucket: str) -> dict[str, int]:
        """Returns how often each signature occurred in a bucket."""
        query = "SELECT signature, count(*) FROM occurrences WHERE bucket = ? GROUP BY signature"
        return dict(self._db.execute(query, bucket).fetchall())

    def buckets(self) -> dict[str, int]:
        """Returns the number of occurrences by bucket."""
        query = "SELECT bucket, count(*) FROM occurrences GROUP BY bucket"
        return dict(self._db.execute(query).fetchall())

    def withdraw(self, row: FindingRow, bucket: str) -> None:
        """Moves the occurrences of a finding to another bucket."""
        query = """
            UPDATE occurrences SET bucket = ?, title = ?
            WHERE signature = ? AND bucket = 'finding'"""
        self._db.change(query, bucket, row.title, row.signature)


class ReductionTable(Table):
    """Reductions and suspicions: columns of the findings."""

    def add(self, row: ReductionRow) -> None:
        """Keeps the result of reducing a finding, in place of an earlier one."""
        self._set(row.signature, "reduction", dumps(as_json(row)))

    def rows(self) -> dict[str, ReductionRow]:
        """Returns the result of each reduction by signature, those of known failures included."""
        return {s: loads(ReductionRow, row) for s, row in self._get("reduction")}

    def suspect(self, signature: str, cause: str) -> None:
        """Notes that the model of a signature contains the pattern of a reduced finding."""
        self._set(signature, "suspected", cause)

    def acquit(self, signature: str) -> None:
        """Notes that a signature is suspected no longer."""
        self._set(signature, "suspected", None)

    def suspects(self) -> dict[str, str]:
        """Returns the cause that each suspect may have, by signature."""
        return dict(self._get("suspected"))

    def _get(self, name: str) -> list[tuple[str, str]]:
        query = f"SELECT signature, {name} FROM findings WHERE {name} NOT NULL ORDER BY signature"
        return self._db.execute(query).fetchall()

    def _set(self, signature: str, name: str, value: str | None) -> None:
        self._db.change(f"UPDATE findings SET {name} = ? WHERE signature = ?", value, signature)


class Signatures(Table):
    """One row per signature, reduced or not."""

    def __init__(self, db: Database, occurrences: Occurrences) -> None:
        super().__init__(db)
        self._occurrences = occurrences

    def add(self, finding: FindingRow) -> None:
        """Keeps a finding that is not reduced, in place of the one with its signature."""
        self._db.put("findings", finding, reduction=None, suspected=None, known=False)

    def rows(self) -> list[FindingRow]:
        """Returns one row per signature with its count, in order of discovery."""
        query = """
            SELECT f.signature, f.test, f.kind, f.stage, f.backend, f.level, f.title, f.folder,
                   f.found_at, f.party, count(o.test) AS occurrences, f.size, f.suspicion,
                   f.severity, f.compiler
            FROM findings f LEFT JOIN occurrences o
                ON o.signature = f.signature AND o.bucket = 'finding'
            WHERE NOT f.known GROUP BY f.signature ORDER BY f.found_at, f.signature"""
        return list(self._db.records(FindingRow, query))

    def items(self) -> dict[str, tuple[str, ...]]:
        """Returns for each signature the operator signatures and edges of the first model that
        showed it. Each text is one object: a set for each signature takes eight times the memory.
        """
        query, by_signature = "SELECT items FROM tests WHERE idx = ?", {}
        findings = "SELECT signature, test FROM findings WHERE NOT known"
        for signature, text in self._db.execute(findings):
            items = self._db.execute(query, parse_id(text).index).fetchone() or ("",)
            by_signature[signature] = tuple(map(sys.intern, items[0].splitlines()))
        return by_signature

    def known(self) -> list[str]:
        """Returns the signatures of findings that turned out to be known failures."""
        query = "SELECT signature FROM findings WHERE known ORDER BY signature"
        return [signature for (signature,) in self._db.execute(query)]

    def withdraw(self, row: FindingRow, bucket: str) -> None:
        """Moves the occurrences of a finding to another bucket, and lists it no more."""
        self._db.change("UPDATE findings SET known = 1 WHERE signature = ?", row.signature)
        self._occurrences.withdraw(row, bucket)

    def date(self, signature: str, found_at: float) -> None:
        """Notes that a finding was discovered at a time, unless it was earlier already."""
        query = "UPDATE findings SET found_at = min(found_at, ?) WHERE signature = ?"
        self._db.change(query, found_at, signature)


# -- folders ----------------------------------------------------------------------------------

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
    db: Database, rows: Mapping[str, FindingRow], findings: Iterable[FindingRow]
) -> dict[str, str]:
    """Moves each folder of a campaign to its place: findings, suspects or duplicates.

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
            source, target = db.folder / row.folder, db.folder / wanted
            target.parent.mkdir(exist_ok=True)
            if source.exists() and not target.exists():
                os.replace(source, target)
            db.change("UPDATE findings SET folder = ? WHERE signature = ?", wanted, signature)
            moved[signature] = wanted
    return moved
