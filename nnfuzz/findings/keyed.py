"""The signature, cause and keys of a finding by the rules of this nnfuzz, whichever one wrote it.

`keyed` is the one way from a finding to its signature, its cause and its keys: campaigns use it
when a reduction ends, when they resume under other rules, and for the failures that are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from nnfuzz.backend.complaint import ComplaintKind
from nnfuzz.backend.outcome import MEMORY_LIMIT, Outcome, OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.findings.folder import REDUCED, FindingError, read_finding, smallest
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.healing import CONSTANT
from nnfuzz.reduction.known import Cause, messages
from nnfuzz.triage.blame import RESULT
from nnfuzz.triage.facts import facts_of
from nnfuzz.triage.frames import innermost_line
from nnfuzz.triage.general import as_written, operator_types
from nnfuzz.triage.identity import EVERYWHERE, OPTIMISED, digest_of, wrong_of
from nnfuzz.triage.keys import Key, KeyKind, error_keys, unread_keys
from nnfuzz.triage.known import KnownFailures
from nnfuzz.triage.operands import largest_operand
from nnfuzz.triage.refine import TriageFacts, refined
from nnfuzz.triage.signature import Failure, Signature, failures, text_of


@dataclass(frozen=True, eq=False)
class KeyedFinding:
    """A finding with its identity.

    failure: the finding's, with the signature that its outcomes have today. facts: the other
    evidence of its cause. refined: the signature that all failures with this cause share.
    """

    finding: Finding
    failure: Failure
    facts: TriageFacts
    refined: Signature

    @property
    def cause(self) -> str:
        """The refined signature of the finding's cause: its own, or that of the failure which it
        only follows from.
        """
        return self.finding.diagnosis.follows or self.refined.hash

    @cached_property
    def keys(self) -> frozenset[Key]:
        """The keys by which reduced findings are merged (nnfuzz.triage.keys)."""
        keys = {Key(KeyKind.CAUSE, self.cause), *self.finding.diagnosis.keys}
        if self.cause != self.refined.hash:
            return frozenset(keys)
        parts, graph = self.refined.parts, self.finding.case.graph
        if "message" in parts:
            keys |= error_keys(self.failure, parts, graph, self._innermost_line())
        elif RESULT in parts and not self.facts.branches:
            # If an exporter added an If, that If is blamed instead.
            keys |= unread_keys(self.failure, parts, as_written(graph, self.facts.types))
        elif self._spares_passes():
            keys.add(Key(KeyKind.CAUSE, digest_of({**parts, "levels": EVERYWHERE})))
        return frozenset(keys)

    def _spares_passes(self) -> bool:
        """Whether one operator returns wrong values at some levels and no pass of these is the
        cause: with a smaller model, the same kernel may be wrong at fewer levels.
        """
        localised, parts = self.finding.localisation or {}, self.refined.parts
        tried = bool(localised.get("ablation")) and not localised.get("passes")
        return tried and "operator" in parts and parts.get("levels") == OPTIMISED

    def _innermost_line(self) -> str:
        """The line of the compiler's source that raised at the first failing target."""
        outcomes = (o for o in self.finding.outcomes if o.target in self.failure.targets)
        first = next(outcomes, None)
        return innermost_line(first.traceback) if first else ""

    def as_cause(self) -> Cause:
        """The cause that later reductions compare their candidates with."""
        diagnosis, failure = self.finding.diagnosis, self.failure
        return Cause(
            self.refined.hash,
            self.finding.case.graph,
            self.facts.passes,
            self.facts.apart,
            failure.kind.value,
            failure.stage.value,
            diagnosis.explanations,
            diagnosis.follows,
            messages(failure),
            wrong_of(failure.signature.identity),
            self.facts.constant,
            diagnosis.heals,
        )


def keyed(finding: Finding, registry: BackendRegistry) -> KeyedFinding:
    """The finding with its identity.

    Raises: RegistryError if the pass that is accused can be read by the adapter alone, and the
    registry does not have it.
    """
    failure = renewed(finding, registry)
    facts = _facts(finding, failure, registry)
    return KeyedFinding(finding, failure, facts, refined(failure, finding.case.graph, facts))


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
        identity = keyed(finding, registry)
    except RegistryError:
        return KnownFailures(frozenset(hashes))
    hashes.add(identity.cause)
    if folder.name != REDUCED and not finding.origin.reduction:
        return KnownFailures(frozenset(hashes))
    keys = identity.keys | {Key(KeyKind.FAILURE, finding.failure.kind.value)}
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


def _facts(finding: Finding, failure: Failure, registry: BackendRegistry) -> TriageFacts:
    passes = tuple((finding.localisation or {}).get("passes", ()))
    return replace(
        facts_of(finding.case, failure, finding.verdict),
        passes=passes,
        apart=_distinguishing_operators(finding, passes, registry),
        largest=largest_operand(finding.case),
        constant=CONSTANT in finding.diagnosis.heals,
    )


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
