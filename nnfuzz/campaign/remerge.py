"""Merges the reduced findings of a campaign anew, by the rules of this nnfuzz."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnfuzz.campaign.reduction import facts, identity, keys_of, renewed
from nnfuzz.campaign.store import Store
from nnfuzz.execute.registry import BackendRegistry, RegistryError
from nnfuzz.report.finding_folder import REDUCED, FindingError, read_finding
from nnfuzz.report.variants import write_variants
from nnfuzz.triage.refine import refined


def remerge(store: Store, registry: BackendRegistry, note: Callable[[str], None]) -> int:
    """Keys what is reduced again; how many findings have other keys now.

    Those whose folder cannot be read stay as they are; what another one explains goes with it. The
    folders of what turns out to be a duplicate move when a Recorder opens the store.
    """
    folders = {row.signature: row.folder for row in store.signatures.rows()}
    before, renamed = len(store.findings()), {}
    reductions = store.reductions.rows()
    for signature, row in reductions.items():
        if not row.refined or row.explained or signature not in folders:
            continue
        try:
            reduced = read_finding(store.folder / folders[signature] / REDUCED)
            failure = renewed(reduced, registry)
            found = refined(failure, reduced.case.graph, facts(reduced, registry))
        except (FindingError, RegistryError):
            continue
        keys = tuple(sorted(map(str, keys_of(reduced, failure, found))))
        known = identity(reduced, found)
        if (known, keys) != (row.refined, row.keys):
            renamed[row.refined] = known
            store.reductions.add(replace(row, refined=known, keys=keys))
    causes = {f"cause:{old}": f"cause:{new}" for old, new in renamed.items()}
    for row in store.reductions.rows().values():
        # What was found to be one with another cause, or to follow from it, goes with that.
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
        write_variants(store.folder, row.folder, row.variants)
