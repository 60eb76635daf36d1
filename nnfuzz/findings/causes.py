"""The signature and the cause of a finding by the rules of this nnfuzz, whichever one wrote it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.complaint import ComplaintKind
from nnfuzz.backend.outcome import MEMORY_LIMIT, Outcome, OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.base.reading import Json
from nnfuzz.findings.folder import REDUCED, FindingError, read_finding, smallest
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.healing import CONSTANT
from nnfuzz.triage.blame import RESULT
from nnfuzz.triage.cause import Cause, Symptoms
from nnfuzz.triage.headline import innermost_line
from nnfuzz.triage.keys import Key, KeyKind, error_keys, unread_keys
from nnfuzz.triage.known import KnownFailures
from nnfuzz.triage.mismatch import largest_operand
from nnfuzz.triage.pattern import as_written, operator_types
from nnfuzz.triage.signature import EVERYWHERE, OPTIMISED, Failure, digest_of, failures, text_of


def cause_of(finding: Finding, registry: BackendRegistry) -> Cause:
    """The cause of a reduced finding, with the keys by which it is merged with others.

    Raises: RegistryError if the pass that is accused can be read by the adapter alone, and the
    registry does not have it.
    """
    failure, diagnosis = renewed(finding, registry), finding.diagnosis
    symptoms = symptoms_of(finding, failure, registry)
    cause = replace(
        Cause.of(failure, finding.case.graph, symptoms),
        explanations=diagnosis.explanations,
        follows=diagnosis.follows,
        heals=diagnosis.heals,
    )
    return replace(cause, keys=keys_of(finding, failure, cause, symptoms))


def symptoms_of(finding: Finding, failure: Failure, registry: BackendRegistry) -> Symptoms:
    """The symptoms of a reduced finding. Raises: RegistryError, see cause_of."""
    passes = tuple((finding.localisation or {}).get("passes", ()))
    return replace(
        Symptoms.of(finding.case, failure, finding.verdict),
        passes=passes,
        rewrites=_distinguishing_operators(finding, passes, registry),
        largest=largest_operand(finding.case),
        constant=CONSTANT in finding.diagnosis.heals,
    )


def keys_of(finding: Finding, failure: Failure, cause: Cause, symptoms: Symptoms) -> frozenset[Key]:
    """The keys of a finding's cause. failure: the finding's, by today's rules."""
    keys = {Key(KeyKind.CAUSE, cause.hash), *finding.diagnosis.keys}
    if cause.hash != cause.own:
        return frozenset(keys)
    parts, graph = cause.parts, cause.graph
    if "message" in parts:
        keys |= error_keys(failure, parts, graph, _innermost_line(finding, failure))
    elif RESULT in parts and not symptoms.branches:
        # If an exporter added an If, that If is blamed instead.
        keys |= unread_keys(failure, parts, as_written(graph, symptoms.types))
    elif _spares_passes(finding, parts):
        keys.add(Key(KeyKind.CAUSE, digest_of({**parts, "levels": EVERYWHERE})))
    return frozenset(keys)


def _spares_passes(finding: Finding, parts: Mapping[str, Json]) -> bool:
    """Whether one operator returns wrong values at some levels and no pass of these is the cause:
    with a smaller model, the same kernel may be wrong at fewer levels.
    """
    localised = finding.localisation or {}
    tried = bool(localised.get("ablation")) and not localised.get("passes")
    return tried and "operator" in parts and parts.get("levels") == OPTIMISED


def _innermost_line(finding: Finding, failure: Failure) -> str:
    """The line of the compiler's source that raised at the first failing target."""
    first = next((o for o in finding.outcomes if o.target in failure.targets), None)
    return innermost_line(first.traceback) if first else ""


def known_by(folder: Path, registry: BackendRegistry) -> KnownFailures:
    """The known failures that a finding's folder stands for.

    They are the signature that was recorded, today's, the cause, and the keys of a reduced finding.
    Of one with a reduced finding inside, the cause is that one's. A folder that cannot be read
    stands for none.
    """
    try:
        finding = read_finding(folder)
    except FindingError:
        return KnownFailures()
    hashes = {finding.signature.hash, renewed(finding, registry).signature.hash}
    if smallest(folder) != folder:
        return KnownFailures(frozenset(hashes))
    try:
        cause = cause_of(finding, registry)
    except RegistryError:
        return KnownFailures(frozenset(hashes))
    hashes.add(cause.hash)
    if folder.name != REDUCED and not finding.origin.reduction:
        return KnownFailures(frozenset(hashes))
    keys = cause.keys | {Key(KeyKind.FAILURE, finding.failure.kind.value)}
    return KnownFailures(frozenset(hashes), keys=(keys,))


def renewed(finding: Finding, registry: BackendRegistry) -> Failure:
    """The failure of a finding with the signature that its outcomes have by today's rules; as it
    is if the outcomes show it no longer.
    """
    failure, case = finding.failure, finding.case
    outcomes = [reread(outcome, registry) for outcome in finding.outcomes]
    today = failures(outcomes, finding.verdict, case.graph, case.fault)
    same = (f for f in today if replace(f, signature=failure.signature) == failure)
    return next(same, failure)


def reread(outcome: Outcome, registry: BackendRegistry) -> Outcome:
    """The outcome with the complaint that the adapter reads from the error today.

    Outcomes without an error, and those of compilers that the registry does not have, stay.
    """
    if outcome.kind not in (OutcomeKind.EXCEPTION, OutcomeKind.CRASH):
        return outcome
    try:
        adapter = registry.get(outcome.target.compiler)
    except RegistryError:
        return outcome
    text = text_of(outcome)
    if outcome.over_memory_limit:
        text = replace(text, message=text.message.removeprefix(f"{MEMORY_LIMIT}: "))
    complaint = adapter.complaint(text)
    if text.error_type and complaint.kind is ComplaintKind.UNSUPPORTED:
        # When it ran, the adapter decided that this is no statement of a missing feature.
        complaint = complaint.of_kind(ComplaintKind.ERROR)
    return replace(outcome, complaint=complaint)


def _distinguishing_operators(
    finding: Finding, passes: Sequence[str], registry: BackendRegistry
) -> tuple[str, ...]:
    """The operators that show which rewrite of a pass is accused (Backend.collections), sorted;
    none if no accused pass is a collection of rewrites.
    """
    collections = registry.get(finding.backend.name).collections if finding.backend else {}
    common = [collections[name] for name in passes if name in collections]
    if not common:
        return ()
    operators = operator_types(finding.case.model) - {op for ops in common for op in ops}
    return tuple(sorted(operators))
