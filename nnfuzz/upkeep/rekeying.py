"""Keys a campaign anew that an nnfuzz with other rules of triage has keyed.

The rules are versioned by a digest of their sources, those of the compilers' adapters included,
which read complaints. An error's signature follows from the compiler's message, which the campaign
keeps for every test; that of a mismatch, a silent death or a probe from the folder of its finding,
so that all occurrences keep one signature. Reduced findings are merged anew by their reduced model.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from nnfuzz.backend.outcome import Brief, Outcome, OutcomeKind, Stage, marked
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.backend.target import Target
from nnfuzz.findings.clusters import complaint_of
from nnfuzz.findings.folder import FindingError, read_finding, rename_signature
from nnfuzz.findings.keyed import renewed, reread
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import ErrorText, TestRow
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered, TestId
from nnfuzz.triage.identity import wordless
from nnfuzz.triage.signature import Failure, export_failure, failures
from nnfuzz.upkeep.remerge import remerge, renew_variants

_RULES = (
    "nnfuzz.triage",
    *(
        f"nnfuzz.backend.{name}"
        for name in ("backtrace", "causes", "complaint", "normalise", "refusal", "slips")
    ),
)
"""Packages and modules that decide signatures and keys."""
RULES = "rules"

Keyed = Mapping[tuple[str, TestId], Failure]
"""Signature as stored and a test that showed it -> the failure by today's rules."""


def rules_version(registry: BackendRegistry, backends: Collection[str]) -> str:
    """The version of the rules: 16 hexadecimal digits. backends: by name; missing ones are left
    out.
    """
    files = {Path(file) for name in _RULES for file in _sources(name)}
    for name in backends:
        try:
            classes = inspect.getmro(registry.get(name))[:-1]
        except RegistryError:
            continue
        files |= {Path(inspect.getfile(cls)) for cls in classes}
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: (file.name, str(file))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _sources(name: str) -> Iterator[str]:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    folders = spec.submodule_search_locations
    yield from (str(f) for folder in folders or () for f in Path(folder).glob("*.py"))
    yield spec.origin


def rekey(
    store: Store,
    config: CampaignConfig,
    registry: BackendRegistry,
    note: Callable[[str], None],
) -> bool:
    """Keys everything by today's rules, unless it is; whether anything has another key now.

    Folders that cannot be read keep their signature. Interrupted, it is done again next time. Where
    models are invalid nothing is merged by its message, and keys stay.
    """
    rules = rules_version(registry, {spec.name for spec in config.backends})
    if store.meta(RULES) == rules or config.case.invalid:
        return False
    from_texts = _by_texts(store, {spec.label: spec.name for spec in config.backends}, registry)
    failures = {
        row.signature: from_texts.get((row.signature, row.test))
        or _by_folder(store, row.folder, registry)
        for row in store.signatures.rows()
    }
    keyed = {old: failure for old, failure in failures.items() if failure is not None}
    changed = _rename(store, from_texts, keyed, note)
    changed |= bool(remerge(store, registry, note))
    if changed:
        renew_variants(store)
    store.set_meta(RULES, rules)
    return changed


def _rename(
    store: Store,
    from_texts: Keyed,
    keyed: Mapping[str, Failure],
    note: Callable[[str], None],
) -> bool:
    """Gives occurrences and findings their new signatures; whether there are any."""
    signatures = {
        (old, test): (from_texts.get((old, test)) or keyed[old]).signature.hash
        for old, test, _, _ in store.occurrences.rows()
        if (old, test) in from_texts or old in keyed
    }
    moved = {place: new for place, new in signatures.items() if place[0] != new}
    if not moved:
        return False
    for row in store.signatures.rows():
        if row.signature in keyed:
            rename_signature(store.folder / row.folder, keyed[row.signature].signature)
    renamed = {
        old: (failure.signature.hash, failure.signature.title, complaint_of(failure))
        for old, failure in keyed.items()
    }
    for folder in store.signatures.rename(moved, renamed):
        shutil.rmtree(store.folder / folder, ignore_errors=True)
    left = {*store.occurrences.counts_in("finding")} - {
        row.signature for row in store.signatures.rows()
    }
    text = f"{len({old for old, _ in moved})} signatures have other keys by today's rules of triage"
    note(text + (f"; {len(left)} of them become findings when they occur again" if left else ""))
    return True


def _by_folder(store: Store, folder: str, registry: BackendRegistry) -> Failure | None:
    """The failure in a folder by today's rules; None if it cannot be read."""
    try:
        return renewed(read_finding(store.folder / folder), registry)
    except FindingError:
        return None


def _by_texts(store: Store, compilers: Mapping[str, str], registry: BackendRegistry) -> Keyed:
    """The errors of all tests. compilers: by label."""
    old: dict[TestId, list[tuple[str, str, str]]] = {}
    for signature, test, kind, levels in store.occurrences.rows():
        old.setdefault(test, []).append((signature, kind, levels))
    rows = {test.index: test for test in old if isinstance(test, Numbered)}
    by_occurrence: dict[tuple[str, TestId], Failure] = {}
    for row in store.tests.rows():
        if row.index in rows:
            test, texts = rows[row.index], store.tests.errors.of_test(row.index)
            now = _failures(row, texts, compilers, registry) if texts else []
            now = [failure for failure in now if not wordless(failure.signature.identity)]
            for signature, kind, levels in old[test]:
                failure = next((f for f in now if _is(f, kind, levels)), None)
                by_occurrence |= {(signature, test): failure} if failure else {}
    return by_occurrence


def _is(failure: Failure, kind: str, levels: str) -> bool:
    """Whether the failure was stored as "BACKEND KIND STAGE", failing at some levels."""
    kind_now = f"{failure.backend} {failure.kind.value} {failure.stage.value}"
    return kind == kind_now and {*levels.split(",")} <= {*failure.levels}


def _failures(
    row: TestRow,
    texts: Mapping[tuple[str, str], ErrorText],
    compilers: Mapping[str, str],
    registry: BackendRegistry,
) -> list[Failure]:
    """The errors of a recorded test; mismatches need a verdict, which is not kept."""
    words = {word for text in texts.values() for word in text.words}
    outcomes, of_exports = [], []
    for label, levels in row.outcomes.items():
        for level, brief in levels.items():
            text = texts.get((label, level))
            if label in compilers:
                target = Target(compilers[label], pipeline=level)
                outcomes.append(reread(_outcome(label, target, brief, text), registry))
            elif text and brief.kind != OutcomeKind.UNSUPPORTED:
                error = text.error
                parts = error.error_type, error.message, error.traceback
                of_exports.append(export_failure(label, *parts))
    keys = map(SupportKey.parse, row.items)
    operators = dict.fromkeys(key.operator for key in keys if not key.is_edge)
    nodes = tuple(map(NodeView, operators))
    graph = GraphView(tuple(ValueView(word, "") for word in sorted(words)), nodes)
    return of_exports + failures(outcomes, None, graph)


def _outcome(label: str, target: Target, brief: Brief, text: ErrorText | None) -> Outcome:
    """Makes an outcome of its short form and of the text of its error, if that was kept."""
    if text is None or not brief.stage:
        return Outcome(OutcomeKind(brief.kind), Stage.EXECUTE, target, label=label)
    error = text.error
    outcome = Outcome(
        OutcomeKind(brief.kind),
        Stage(brief.stage),
        target,
        error.error_type,
        error.message or brief.message,
        error.traceback,
        brief.signal,
        error.captured,
        label=label,
        over_memory_limit=brief.over_memory_limit,
    )
    return marked(outcome)
