"""What changed between two releases of a compiler: regressions, and what was fixed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import release_of
from nnfuzz.base.reading import read
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.recorder import NO_CHANGE
from nnfuzz.store.store import Store

_META = "releases"


def keep_releases(store: Store, config: CampaignConfig, registry: BackendRegistry) -> None:
    """Notes in the store which release each backend of a campaign is. Raises: ReleaseError."""
    specs = config.backends
    told = {s.label: release_of(registry.get(s.name), s.release) for s in specs}
    store.set_meta(_META, told)


def changes(store: Store, findings: Iterable[FindingRow]) -> dict[str, Any]:
    """What summary.json says of them: both releases, the signatures of regressions (wrong in the
    newer one alone) and of what is fixed (in the older one alone), and how often one failed where
    the other one was not right.

    {} for a campaign that did not look for changes.
    """
    releases = read(dict[str, str], store.meta(_META, {}))
    try:
        older, newer = sorted(releases, key=lambda label: Version(releases[label]))
    except ValueError:  # none, or a stranger's
        return {}
    by_label: dict[str, list[str]] = {label: [] for label in releases}
    for row in findings:
        by_label.setdefault(row.backend, []).append(row.signature)
    return {
        "older": releases[older],
        "newer": releases[newer],
        "regressions": by_label[newer],
        "fixed": by_label[older],
        "unchanged": store.occurrences.buckets().get(NO_CHANGE, 0),
    }
