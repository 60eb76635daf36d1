"""Merges the parts of a campaign: rows and folders of findings, each once.

The order of the parts does not matter: which of two rows stays does not depend on which came first,
and an epoch is named by its content. Which findings have one cause is decided later, by the rules
that every campaign follows (nnfuzz.store.suspicions).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnfuzz.base.files import atomic_folder, copy_files
from nnfuzz.base.reading import Json, Unreadable
from nnfuzz.base.untrusted import below, making_sense
from nnfuzz.base.writing import as_json
from nnfuzz.records.config import LIMITS, CampaignConfig
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.database import FILE, FINDINGS, columns_of, dumps
from nnfuzz.store.failures import arrange
from nnfuzz.store.statistics import Statistics
from nnfuzz.store.store import Store
from nnfuzz.store.summary import summarise, write_summary

MERGED = "merged"
"""In the meta table: whether a campaign consists of parts, so that no session goes on with it."""
EPOCH_BYTES = 6
"""Bytes of the SHA-256 that names an epoch by its settings: SQLite's integers have eight."""


def merge(sources: Sequence[Path], out: Path) -> Store:
    """Merges campaigns into the new folder `out` and returns the result, open; all or nothing.

    Raises: Unreadable, StoreError.
    """
    # A campaign that is named twice is locked and read once.
    places = dict.fromkeys(folder.resolve() for folder in sources)
    if out.exists() and not any(out.iterdir()):
        out.rmdir()
    if out.exists():
        raise Unreadable(f"{out} exists already: choose another --out")
    with ExitStack() as stack:
        parts = [stack.enter_context(Store.open(place)) for place in places]
        _check_settings(parts)
        with atomic_folder(out) as made, Store.create(made, {}) as target:
            for part in parts:
                _add_rows(target, part)
                _add_findings(target, part)
            _finish(target, parts)
    return Store.open(out)


def _check_settings(parts: Sequence[Store]) -> None:
    """Raises: Unreadable if the settings of two parts differ."""
    first, *others = parts
    wanted = _settings(first)
    for other in others:
        differing = [name for name, value in _settings(other).items() if wanted[name] != value]
        if differing:
            raise Unreadable(
                f"{other.folder} and {first.folder} are no parts of one campaign: they differ in "
                + ", ".join(sorted(differing))
            )


def _settings(store: Store) -> dict[str, object]:
    left_out = {*LIMITS, "shard"}
    config = as_json(CampaignConfig.from_json(store.config()))
    return {name: value for name, value in config.items() if name not in left_out}


# -- adding a part --------------------------------------------------------------------------------


def _add_rows(target: Store, part: Store) -> None:
    """Adds everything of a part but its findings and settings. Raises: Unreadable."""
    target.execute("ATTACH DATABASE ? AS part", os.fsencode(part.folder / FILE))
    try:
        with target.transaction():
            _refuse_other_tests(target, part)
            _name_epochs(target, part)
            for table in ("occurrences", "hangs"):
                target.change(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM part.{table}")
            names = columns_of("tests")
            values = ", ".join("new" if name == "epoch" else name for name in names)
            target.change(
                f"INSERT OR IGNORE INTO main.tests SELECT {values} FROM part.tests "
                "JOIN temp.epoch_of ON old = epoch"
            )
            own = ", ".join(name for name in columns_of("events") if name != "id")
            target.change(f"INSERT INTO main.events ({own}) SELECT {own} FROM part.events")
            target.change("INSERT OR IGNORE INTO findings SELECT * FROM part.findings WHERE known")
    finally:
        target.flush()
        target.execute("DROP TABLE IF EXISTS temp.epoch_of")
        target.execute("DETACH DATABASE part")


def _refuse_other_tests(target: Store, part: Store) -> None:
    """Raises: Unreadable if a part has another test case of an index that is there already."""
    query = """
        SELECT idx FROM part.tests p JOIN main.tests m USING (idx)
        WHERE p.digest != m.digest ORDER BY idx"""
    if different := target.execute(query).fetchone():
        raise Unreadable(
            f"{part.folder} and another part have different test cases of index {different[0]}: "
            "parts of one campaign are made with --set shard=K/N"
        )


def _name_epochs(target: Store, part: Store) -> None:
    """Adds the settings of the part's epochs; the temporary table epoch_of has their names."""
    target.change("CREATE TEMP TABLE epoch_of (old INTEGER PRIMARY KEY, new INTEGER)")
    query = "SELECT epoch FROM part.tests UNION SELECT id FROM part.epochs"
    for (epoch,) in target.execute(query).fetchall():
        query = "SELECT refused, reasons, avoided FROM part.epochs WHERE id = ?"
        held = target.execute(query, part.restraints.row_of(epoch)).fetchone() or ("[]", "{}", "[]")
        digest = hashlib.sha256(dumps(held).encode()).digest()
        name = int.from_bytes(digest[:EPOCH_BYTES], "big")
        # The name stands for the content, so a row of this name is the same one.
        target.change("INSERT OR IGNORE INTO epochs VALUES (?, ?, ?, ?)", name, *held)
        target.change("INSERT INTO epoch_of VALUES (?, ?)", epoch, name)


def _add_findings(target: Store, part: Store) -> None:
    known = target.reductions.rows()
    mine = {row.signature: (row, known.get(row.signature)) for row in target.signatures.rows()}
    reductions = part.reductions.rows()
    for row in part.signatures.rows():
        reduction, before = reductions.get(row.signature), mine.get(row.signature)
        if before is not None and _order(*before) <= _order(row, reduction):
            target.signatures.date(row.signature, row.found_at)
            continue
        found_at = min(row.found_at, before[0].found_at) if before else row.found_at
        place = f"{FINDINGS}/{Path(row.folder).name}"
        if before is not None:
            shutil.rmtree(below(target.folder, before[0].folder), ignore_errors=True)
        source = below(part.folder, row.folder)
        if source.is_dir():
            with making_sense(source):
                copy_files(source, target.folder / place)
        query = "SELECT reduction, suspected FROM findings WHERE signature = ?"
        reduced, suspected = part.execute(query, row.signature).fetchone()
        whole = replace(row, folder=place, found_at=found_at)
        columns = {"reduction": reduced, "suspected": suspected, "known": False}
        target.put("findings", whole, **columns)
    target.flush()


def _order(row: FindingRow, reduction: ReductionRow | None) -> tuple[object, ...]:
    """Sort key: of two rows of a signature the lesser one stays. As in one campaign, that is a
    reduced one, else the one of the lowest index.
    """
    reduced = reduction is not None and not reduction.reason
    text = json.dumps(as_json(reduction), sort_keys=True) if reduction else ""
    return not reduced, row.index, str(row.test), row.title, row.party, text


# -- the whole campaign ---------------------------------------------------------------------------


def _finish(target: Store, parts: Sequence[Store]) -> None:
    """Writes settings, figures, the summary and the order of findings of the whole campaign."""
    target.set_meta("config", as_json(_merged_config(parts)))
    target.set_meta(MERGED, True)
    for name in ("versions", "releases"):
        target.set_meta(name, _versions([part.meta(name, {}) for part in parts]))
    target.set_meta("habits", _habits([part.meta("habits", {}) for part in parts]))
    sessions = {json.dumps(own) for part in parts for own in part.meta("sessions", ())}
    target.set_meta("sessions", sorted(map(json.loads, sessions), key=lambda s: s["started"]))
    arrange(target, {row.signature: row for row in target.signatures.rows()}, target.findings())
    figures = Statistics()
    for row in target.tests.rows():
        figures.add(row)
    config = CampaignConfig.from_json(target.config())
    write_summary(target.folder, summarise(target, config, figures))


def _merged_config(parts: Sequence[Store]) -> CampaignConfig:
    """The settings of the whole campaign, with limits that no part exceeds."""
    configs = [CampaignConfig.from_json(part.config()) for part in parts]
    times = [config.time_limit for config in configs]
    tests = [config.tests_limit for config in configs]
    return replace(
        configs[0],
        shard="",
        time_limit=None if None in times else max(t for t in times if t is not None),
        tests_limit=None if None in tests else max(n for n in tests if n is not None),
        workers=max(config.workers for config in configs),
        reduce=any(config.reduce for config in configs),
        known=tuple(sorted({line for config in configs for line in config.known})),
    )


def _versions(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Versions by name; if parts differ, all versions of a name."""
    by_name: dict[str, set[str]] = {}
    for versions in parts:
        for name, version in versions.items():
            by_name.setdefault(name, set()).update(version.split(" | "))
    return {name: " | ".join(sorted(versions)) for name, versions in sorted(by_name.items())}


def _habits(parts: Sequence[Mapping[str, Json]]) -> dict[str, list[Any]]:
    by_backend: dict[str, set[str]] = {}
    for habits in parts:
        for backend, own in habits.items():
            by_backend.setdefault(backend, set()).update(json.dumps(habit) for habit in own)
    return {
        name: [json.loads(text) for text in sorted(own)] for name, own in sorted(by_backend.items())
    }
