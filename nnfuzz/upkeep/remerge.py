"""Merges the reduced findings of a campaign anew, by the rules of this nnfuzz."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.findings.folder import REDUCED, FindingError, read_finding
from nnfuzz.findings.keyed import keyed
from nnfuzz.findings.variants import write_variants
from nnfuzz.store.store import Store


def remerge(store: Store, registry: BackendRegistry, note: Callable[[str], None]) -> int:
    """Keys reduced findings anew; returns how many findings have other keys now.

    Those whose folder cannot be read stay as they are; findings that another one explains go with
    it. The folders of new duplicates move when a Recorder opens the store.
    """
    folders = {row.signature: row.folder for row in store.signatures.rows()}
    before, renamed = len(store.findings()), {}
    reductions = store.reductions.rows()
    for signature, row in reductions.items():
        if not row.refined or row.explained or signature not in folders:
            continue
        try:
            reduced = read_finding(store.folder / folders[signature] / REDUCED)
            rekeyed = keyed(reduced, registry)
        except (FindingError, RegistryError):
            continue
        keys = tuple(sorted(map(str, rekeyed.keys)))
        if (rekeyed.cause, keys) != (row.refined, row.keys):
            renamed[row.refined] = rekeyed.cause
            store.reductions.add(replace(row, refined=rekeyed.cause, keys=keys))
    causes = {f"cause:{old}": f"cause:{new}" for old, new in renamed.items()}
    for row in store.reductions.rows().values():
        # A finding that is one with another cause, or follows from it, goes with that cause.
        keys = tuple(sorted({causes.get(key, key) for key in row.keys}))
        moved = replace(row, refined=renamed.get(row.refined, row.refined), keys=keys)
        if moved != row:
            store.reductions.add(moved)
    for signature, suspected in store.reductions.suspects().items():
        if suspected in renamed:
            store.reductions.suspect(signature, renamed[suspected])
    if renamed:
        note(f"{before} findings are {len(store.findings())} by today's rules of what is one cause")
    return len(renamed)


def renew_variants(store: Store) -> None:
    """Writes the tables of variants of all findings."""
    for row in store.findings():
        write_variants(store.folder, row.folder, row.grouping.variants)
