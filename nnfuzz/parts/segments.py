"""Segments: one file for everything new in a campaign; its name is its hash, and it never changes.

A segment is a small campaign in an archive: the tests since the last segment, and findings that are
new or have changed, with their folders. Merging all segments of some nodes
(nnfuzz.parts.merging) gives their campaigns. A node may publish while it fuzzes. Once a segment
is written, the node's folder lists its content.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Container, Iterable
from dataclasses import replace
from pathlib import Path

from nnfuzz.base.files import copy_files, write_atomically
from nnfuzz.base.index_set import IndexSet
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import MAX_BYTES, below, making_sense, read_json
from nnfuzz.base.writing import as_json
from nnfuzz.parts.depot import Depot
from nnfuzz.parts.sources import SOURCES, figures_of, name_of
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.schema import FINDINGS, FOLDERS
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.union import (
    NOTHING,
    Taken,
    add_rows,
    digest_of_probes,
    digests_without_finding,
)
from nnfuzz.upkeep.rekeying import RULES

NOTE = "published.json"
"""Name of the file in a campaign's folder that lists which segments each depot has."""
META = ("config", "versions", "releases", "habits", "rules", "host")
_SUFFIX = ".segment.zip"


def publish(folder: Path, url: str) -> str | None:
    """Writes everything that a depot lacks of a campaign, which may be running.

    Returns the name of the segment; None if nothing is new. Raises: StoreError, Unreadable.
    """
    depot, published = Depot(url), _noted(folder)
    with Store.open(folder, write=False) as store, tempfile.TemporaryDirectory() as scratch:
        before = still_taken(store, published.get(url, NOTHING))
        made = Path(scratch) / "part"
        with Store.create(made, {}) as part:
            now = taken_of(store, before)
            add_rows(part, store, before)
            changed = _add_findings(part, store, before)
            for name in META:
                if (value := store.meta(name)) is not None:
                    part.set_meta(name, value)
            part.set_meta(SOURCES, as_json({name_of(store): figures_of(store, now.tests)}))
        if now.tests == before.tests and not changed:
            return None
        data = _packed(made)
    name = hashlib.sha256(data).hexdigest() + _SUFFIX
    depot.put(name, data)
    published[url] = replace(now, findings={**now.findings, **changed})
    text = json.dumps({place: vars(known) for place, known in published.items()}, indent=1)
    write_atomically(folder / NOTE, text.encode())
    return name


def publish_again(folder: Path) -> None:
    """Has the next segment hold all rows once more, since some published ones have changed."""
    (folder / NOTE).unlink(missing_ok=True)


def still_taken(store: Store, before: Taken) -> Taken:
    """The rows that need not be copied again: `before`, unless the campaign was keyed anew since,
    which renames its occurrences.
    """
    return before if before.rules == str(store.meta(RULES, "")) else NOTHING


def taken_of(store: Store, before: Taken) -> Taken:
    """All rows that a copy has, findings left out, once the rows that `before` lacks are added."""
    new = store.tests.done_from(before.below).difference(before.later)
    part = CampaignConfig.from_json(store.config()).part
    there = IndexSet({*new, *before.later}, part, before.below)
    whole = store.meta(SOURCES) is None
    return Taken(
        there.length,
        there.later,
        before.tests + len(new),
        store.events.last() if whole else 0,
        store.restraints.last() if whole else -1,
        digest_of_probes(store),
        str(store.meta(RULES, "")),
        {**before.findings, **digests_without_finding(store)},
    )


def unpack_segments(depot: Depot, scratch: Path, known: Container[str] = ()) -> dict[str, Path]:
    """Unpacks the segments of a depot below a folder, except those that are `known`.

    Returns the folder of each by the segment's name. Raises: Unreadable.
    """
    folders: dict[str, Path] = {}
    for name in segments_in(depot):
        if name not in known:
            data = depot.get(name) or b""
            if hashlib.sha256(data).hexdigest() + _SUFFIX != name:
                raise Unreadable(f"{depot.url}/{name} is damaged: its content has another name")
            folders[name] = scratch / name.removesuffix(_SUFFIX)
            if not folders[name].exists():
                with making_sense(f"{depot.url}/{name}"):
                    _unpack(data, folders[name])
    return folders


def segments_in(depot: Depot) -> list[str]:
    """Names of the segments in a depot."""
    return [name for name in depot.names("") if name.endswith(_SUFFIX)]


def _noted(folder: Path) -> dict[str, Taken]:
    path = folder / NOTE
    return read(dict[str, Taken], read_json(path)) if path.exists() else {}


def _add_findings(part: Store, store: Store, before: Taken) -> dict[str, str]:
    """Adds findings that are new or have changed; returns their digests by signature."""
    reductions, suspects, added = store.reductions.rows(), store.reductions.suspects(), {}
    for row in store.signatures.rows():
        reduction = reductions.get(row.signature)
        digest = _digest(row, reduction)
        place = f"{FINDINGS}/{Path(row.folder).name}"
        if before.findings.get(row.signature) == digest:
            continue
        try:
            copy_files(below(store.folder, row.folder), part.folder / place)
        except OSError:  # it is being moved: the next segment has it
            shutil.rmtree(part.folder / place, ignore_errors=True)
            continue
        moved = FindingRow(**{**vars(row), "folder": place})
        part.signatures.take(moved, reduction, suspects.get(row.signature, ""))
        added[row.signature] = digest
    return added


def _digest(row: FindingRow, reduction: ReductionRow | None) -> str:
    content = [str(row.test), row.place, row.title, as_json(reduction) if reduction else None]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _packed(folder: Path) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            archive.write(path, path.relative_to(folder).as_posix())
    return buffer.getvalue()


def _files(folder: Path) -> Iterable[Path]:
    yield folder / FILE
    for place in FOLDERS:
        yield from sorted(p for p in (folder / place).rglob("*") if p.is_file())


def _unpack(data: bytes, folder: Path) -> None:
    """Raises: Unreadable, and any error that a damaged archive causes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        if sum(member.file_size for member in members) > MAX_BYTES:
            raise Unreadable(f"it unpacks to more than {MAX_BYTES:,} bytes")
        for member in members:
            path = below(folder, member.filename)
            if member.filename != FILE and Path(member.filename).parts[0] not in FOLDERS:
                raise Unreadable(f"{member.filename!r} is in no segment")
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, path.open("xb") as file:
                shutil.copyfileobj(source, file)
