"""Merges the reduced findings of a campaign anew, by the rules of this nnfuzz."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnfuzz.campaign.reduction import facts, keys_of, renewed
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
    folders = {row.signature: row.folder for row in store.signatures()}
    before, renamed = len(store.findings()), {}
    reductions = store.reductions()
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
        if (found.hash, keys) != (row.refined, row.keys):
            renamed[row.refined] = found.hash
            store.add_reduction(replace(row, refined=found.hash, keys=keys))
    for row in reductions.values():
        if row.explained and row.refined in renamed:
            store.add_reduction(replace(row, refined=renamed[row.refined]))
    for signature, suspected in store.suspects().items():
        if suspected in renamed:
            store.suspect(signature, renamed[suspected])
    if renamed:
        note(f"{before} findings are {len(store.findings())} by today's rules of what is one cause")
    return len(renamed)


def renew_variants(store: Store) -> None:
    """Writes the tables of variants of all findings."""
    for row in store.findings():
        write_variants(store.folder, row.folder, row.variants)
