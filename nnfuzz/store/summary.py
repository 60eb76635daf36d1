"""The summary of a campaign: made in one place for sessions, merged parts and reports."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import known_release
from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import read, read_fields
from nnfuzz.base.untrusted import read_json
from nnfuzz.base.writing import as_json, fields_as_json
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import AvoidedRow, FindingRow, FlakyRow, HangRow
from nnfuzz.store.recorder import DESIGN, NO_CHANGE
from nnfuzz.store.statistics import Statistics, refusals
from nnfuzz.store.store import Store

_META = "releases"


def keep_releases(store: Store, config: CampaignConfig, registry: BackendRegistry) -> None:
    """Notes in the store which release each backend of a campaign is; "" if nobody knows."""
    specs = config.backends
    releases = {s.label: s.release or known_release(registry.get(s.name)) for s in specs}
    store.set_meta(_META, releases)


@dataclass(frozen=True)
class Changes:
    """The changes from the older release to the newer one. False without releases.

    regressions: signatures of failures of the newer one alone. fixed: of failures of the older one
    alone. unchanged: how often one failed where the other one was not right.
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


SUMMARY = "summary.json"
_ONLY_IF_SET = ("refusals",)


@dataclass(frozen=True)
class VariationFigures:
    """The tests with a variation, the findings whose first test has it, and the mean milliseconds
    of these tests in all phases.
    """

    tests: int
    findings: int = 0
    ms: float = 0.0


@dataclass(frozen=True)
class Summary:
    """The content of summary.json.

    questions: calls whose outputs were compared, at every level. seconds: wall, of all sessions.
    phase_ms: median of each phase of a test. cpu_ms: see
    nnfuzz.campaign.scheduler.Scheduler.cpu_ms. sut_share: share of these in compilers;
    sut_shares: by backend. not_run: indexes without a test, by reason. avoided: items that
    generation avoids. refusals: answers to models that must be refused, in campaigns of such.
    """

    tests: int = 0
    questions: int = 0
    seconds: float = 0.0
    tests_per_second: float = 0.0
    phase_ms: Mapping[str, float] = field(default_factory=dict)
    cpu_ms: Mapping[str, float] = field(default_factory=dict)
    sut_share: float = 0.0
    sut_shares: Mapping[str, float] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    outcomes_by_backend: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    not_run: Mapping[str, int] = field(default_factory=dict)
    variations: Mapping[str, VariationFigures] = field(default_factory=dict)
    findings: int = 0
    occurrences: int = 0
    merged: int = 0
    signatures: tuple[Mapping[str, object], ...] = ()
    unreduced: int = 0
    not_reduced: Mapping[str, str] = field(default_factory=dict)
    regressions: Changes = field(default_factory=Changes)
    known: int = 0
    by_design: int = 0
    faults: int = 0
    flaky: int = 0
    flaky_failures: tuple[FlakyRow, ...] = ()
    hangs: Mapping[str, int] = field(default_factory=dict)
    unconfirmed_hangs: tuple[HangRow, ...] = ()
    habits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refused: int = 0
    avoided: tuple[AvoidedRow, ...] = ()
    refusals: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        written = fields_as_json(self)
        return {k: v for k, v in written.items() if v is not None or k not in _ONLY_IF_SET}

    @classmethod
    def of(
        cls,
        figures: Statistics,
        findings: Sequence[FindingRow],
        seconds: float,
        sut_shares: Mapping[str, float],
        **more: Any,
    ) -> Summary:
        """Makes a summary of the counts. more: further fields."""
        return cls(
            tests=figures.tests,
            questions=figures.questions,
            seconds=round(seconds, 3),
            tests_per_second=round(figures.tests / seconds, 3) if seconds else 0.0,
            phase_ms=figures.phase_ms(),
            sut_share=round(fmean(sut_shares.values() or [0.0]), 4),
            sut_shares={name: round(share, 4) for name, share in sut_shares.items()},
            outcomes=dict(figures.outcomes),
            outcomes_by_backend={k: dict(v) for k, v in figures.by_backend.items()},
            not_run=dict(figures.not_run),
            variations={
                name: VariationFigures(count, ms=figures.variation_ms(name))
                for name, count in sorted(figures.variations.items())
            },
            findings=len(findings),
            occurrences=sum(finding.occurrences for finding in findings),
            **more,
        )


def summarise(
    store: Store,
    config: CampaignConfig,
    figures: Statistics,
    **more: object,
) -> Summary:
    """Makes the summary of a campaign from its tables. more: fields."""
    buckets, hangs = store.occurrences.buckets(), store.hangs.rows()
    whole = Summary.of(
        figures,
        (),
        store.sessions.seconds_in_all(),
        store.sessions.sut_shares(),
        faults=store.events.counts().get("fault", 0),
        flaky=buckets.get("flaky", 0),
        flaky_failures=tuple(store.occurrences.flaky()),
        hangs=dict(Counter(row.status.value for row in hangs)),
        unconfirmed_hangs=tuple(store.hangs.unconfirmed()),
        by_design=buckets.get(DESIGN, 0),
        habits={s.label: tuple(map(str, store.habits(s.label) or ())) for s in config.backends},
        refused=len(store.restraints.reasons()),
        avoided=tuple(store.restraints.ever_avoided()),
        versions=store.meta_as(dict[str, str], "versions", {}),
        refusals=refusals(store.tests.rows()) if config.case.invalid else None,
        seed=config.seed,
        config=as_json(config),
        **more,
    )
    return with_findings(whole, store)


def with_findings(summary: Summary, store: Store) -> Summary:
    """Returns the summary with its part about findings made anew."""
    findings, reductions = store.findings(), store.reductions.rows()
    seen = Counter(name for row in findings for name in store.tests.variations(row.test.index))
    return replace(
        summary,
        findings=len(findings),
        variations={
            name: replace(figures, findings=seen[name])
            for name, figures in summary.variations.items()
        },
        merged=sum(len(row.duplicates) for row in findings),
        occurrences=sum(row.occurrences for row in findings),
        signatures=tuple(map(_listed, findings)),
        unreduced=sum(row.signature not in reductions for row in findings),
        not_reduced={s: row.reason for s, row in reductions.items() if row.reason},
        regressions=changes(store, findings),
        known=store.occurrences.buckets().get("known", 0),
    )


def read_summary(folder: Path) -> Summary:
    """Reads the summary of a campaign by any version of nnfuzz. Raises: Unreadable."""
    written = read(dict[str, object], read_json(folder / SUMMARY))
    return Summary(**read_fields(Summary, written, *(each.name for each in fields(Summary))))


def write_summary(folder: Path, summary: Summary) -> None:
    """Writes summary.json."""
    text = json.dumps(as_json(summary), indent=1) + "\n"
    write_atomically(folder / SUMMARY, text.encode())


def _listed(row: FindingRow) -> dict[str, object]:
    """A finding without the times of its discovery."""
    return {k: v for k, v in as_json(row).items() if k != "found_at"}
