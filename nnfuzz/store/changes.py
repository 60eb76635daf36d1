"""The changes between two releases of a compiler: regressions, and failures that were fixed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import release_of
from nnfuzz.base.writing import fields_as_json
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.recorder import NO_CHANGE
from nnfuzz.store.store import Store

_META = "releases"


def keep_releases(store: Store, config: CampaignConfig, registry: BackendRegistry) -> None:
    """Notes in the store which release each backend of a campaign is. Raises: ReleaseError."""
    specs = config.backends
    releases = {s.label: release_of(registry.get(s.name), s.release) for s in specs}
    store.set_meta(_META, releases)


@dataclass(frozen=True)
class Changes:
    """The changes from the older release to the newer one. False without releases.

    regressions: signatures of failures of the newer one alone. fixed: of failures of the older one
    gets wrong. unchanged: how often one failed where the other one was not right.
    """

    older: str = ""
    newer: str = ""
    regressions: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    unchanged: int = 0

    def __bool__(self) -> bool:
        return bool(self.older)

    def to_json(self) -> dict[str, object]:
        return fields_as_json(self) if self else {}


def changes(store: Store, findings: Iterable[FindingRow]) -> Changes:
    """Returns the changes between the releases of a campaign, if it looked for changes."""
    releases = store.meta_as(dict[str, str], _META, {})
    try:
        older, newer = sorted(releases, key=lambda label: Version(releases[label]))
    except ValueError:  # none, or a stranger's
        return Changes()
    by_label: dict[str, list[str]] = {label: [] for label in releases}
    for row in findings:
        by_label.setdefault(row.backend, []).append(row.signature)
    unchanged = store.occurrences.buckets().get(NO_CHANGE, 0)
    regressions, fixed = tuple(by_label[newer]), tuple(by_label[older])
    return Changes(releases[older], releases[newer], regressions, fixed, unchanged)
