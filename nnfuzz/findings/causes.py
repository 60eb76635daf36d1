"""The cause of a finding, and what a folder of findings is known by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.base.reading import Json
from nnfuzz.findings.folder import REDUCED, FindingError, read_finding, smallest
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.experiments import CONSTANT
from nnfuzz.triage.cause import Cause, Symptoms
from nnfuzz.triage.headline import innermost_line
from nnfuzz.triage.keys import Key, KeyKind, KnownFailures, error_keys, unread_keys
from nnfuzz.triage.mismatch import largest_operand
from nnfuzz.triage.pattern import RESULT, as_written, operator_types
from nnfuzz.triage.signature import EVERYWHERE, OPTIMISED, digest_of


def cause_of(finding: Finding, registry: BackendRegistry) -> Cause:
    """The cause of a reduced finding, with the keys by which it is merged with others.

    Raises: RegistryError if the pass that is accused can be read by the adapter alone, and the
    registry does not have it.
    """
    diagnosis, symptoms = finding.diagnosis, symptoms_of(finding, registry)
    cause = replace(
        Cause.of(finding.failure, finding.case.graph, symptoms),
        explanations=diagnosis.explanations,
        follows=diagnosis.follows,
        heals=diagnosis.heals,
    )
    return replace(cause, keys=keys_of(finding, cause, symptoms))


def symptoms_of(finding: Finding, registry: BackendRegistry) -> Symptoms:
    """The symptoms of a reduced finding. Raises: RegistryError, see cause_of."""
    passes = tuple((finding.localisation or {}).get("passes", ()))
    return replace(
        Symptoms.of(finding.case, finding.failure, finding.verdict),
        passes=passes,
        rewrites=_distinguishing_operators(finding, passes, registry),
        largest=largest_operand(finding.case),
        constant=CONSTANT in finding.diagnosis.heals,
    )


def keys_of(finding: Finding, cause: Cause, symptoms: Symptoms) -> frozenset[Key]:
    """The keys of a finding's cause."""
    keys = {Key(KeyKind.CAUSE, cause.hash), *finding.diagnosis.keys}
    if cause.hash != cause.own:
        return frozenset(keys)
    failure, parts, graph = finding.failure, cause.parts, cause.graph
    if "message" in parts:
        first = next((o for o in finding.outcomes if o.target in failure.targets), None)
        line = innermost_line(first.traceback) if first else ""
        keys |= error_keys(failure, parts, graph, line)
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


def known_by(folder: Path, registry: BackendRegistry) -> KnownFailures:
    """The known failures that a finding's folder stands for.

    They are its signature and, of a reduced finding, the cause and the keys. A folder that cannot
    be read stands for none.
    """
    try:
        finding = read_finding(folder)
    except FindingError:
        return KnownFailures()
    hashes = {finding.signature.hash}
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
