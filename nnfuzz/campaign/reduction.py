"""The service inside of a campaign's reducing worker: finding folders in, reduced findings out.

The worker starts fork servers of its own for torch and for the compiler, and keeps them for the
next finding of the same backend; they end with it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nnfuzz.campaign.reduction_job import ReduceFinding
from nnfuzz.campaign.rows import ReductionRow
from nnfuzz.execute.backend import OptionError
from nnfuzz.execute.complaint import ComplaintKind
from nnfuzz.execute.job import Service, does
from nnfuzz.execute.outcome import Outcome, OutcomeKind
from nnfuzz.execute.plugin_files import namesake
from nnfuzz.execute.registry import BackendRegistry, RegistryError, plugin_name
from nnfuzz.execute.runner import RunnerError
from nnfuzz.execute.worker import Report
from nnfuzz.reduction.case import NotReduced, ReduceConfig, Unexplained
from nnfuzz.reduction.healing import CONSTANT
from nnfuzz.reduction.known import Cause, messages
from nnfuzz.reduction.servers import Servers
from nnfuzz.reduction.slots import WorkerError
from nnfuzz.report.finding import Finding
from nnfuzz.report.finding_folder import REDUCED, FindingError, read_finding
from nnfuzz.report.reduced import EXPLANATIONS, FOLLOWS, HEALS, KEYS, reduce_folder
from nnfuzz.testcase.client import ProducerError
from nnfuzz.triage.blame import RESULT
from nnfuzz.triage.facts import facts_of
from nnfuzz.triage.frames import innermost_line
from nnfuzz.triage.general import as_written, operator_types
from nnfuzz.triage.keys import Key, KeyKind, error_keys, unread_keys
from nnfuzz.triage.known import KnownFailures
from nnfuzz.triage.operands import largest_operand
from nnfuzz.triage.refine import TriageFacts, pattern_of, refined
from nnfuzz.triage.signature import Failure, Signature, failures, text_of

_REASONS = (
    NotReduced,
    FindingError,
    RegistryError,
    OptionError,
    RunnerError,
    WorkerError,
    ProducerError,
    OSError,
)


class ReductionService(Service):
    """plugins: files with further backends. folder: the campaign's working directory, which paths
    in finding folders are relative to; a worker starts in one of its own.
    """

    def __init__(self, plugins: Sequence[str] = (), folder: str = "") -> None:
        if folder:
            os.chdir(folder)
        self._registry = BackendRegistry.discover(plugins)
        self._trusted = namesake(map(plugin_name, plugins))
        self._servers: Servers | None = None
        self._for: tuple[str, ...] = ()
        self._causes: dict[str, Cause | None] = {}

    @does(ReduceFinding)
    def reduce(self, job: ReduceFinding, report: Report) -> ReductionRow | None:
        report("ask" if job.only_known else "reduce")
        config = ReduceConfig(
            job.workers,
            job.budget,
            math.inf if job.seconds is None else job.seconds,
            registry=self._registry,
            causes=[cause for path in job.known if (cause := self._cause(path))],
            only_known=job.only_known,
        )
        try:
            return self.reduced(job, config)
        except Unexplained:
            return None
        except _REASONS as error:
            return ReductionRow(job.signature, reason=f"{type(error).__name__}: {error}")

    def reduced(self, job: ReduceFinding, config: ReduceConfig) -> ReductionRow:
        """Reduces one finding. Raises: one of _REASONS, Unexplained."""
        folder = Path(job.folder)
        servers = self._shared(read_finding(folder, self._trusted))
        servers.habits = job.habits
        done, reduced = reduce_folder(
            folder, replace(config, servers=servers), trusted=self._trusted
        )
        graph = reduced.case.graph
        failure = renewed(reduced, self._registry)
        signature = refined(failure, graph, facts(reduced, self._registry))
        return ReductionRow(
            job.signature,
            refined=done.cause.finding if done.cause else identity(reduced, signature),
            title=reduced.signature.title,
            pattern=str(pattern_of(graph)),
            graph=graph,
            before=done.nodes[0],
            after=done.nodes[1],
            seconds=round(done.seconds, 3),
            explained=done.cause is not None,
            keys=tuple(sorted(map(str, keys_of(reduced, failure, signature)))),
            explanations=tuple(done.evidence.explanations),
        )

    def close(self) -> None:
        if self._servers is not None:
            self._servers.close()
        self._servers = None

    def _shared(self, finding: Finding) -> Servers:
        backend = finding.backend
        key = (backend.name if backend else "", *finding.config.get("plugins", ()))
        if self._servers is None or self._for != key:
            self.close()
            self._servers = Servers(backend, self._registry, finding.config)
            self._for = key
        return self._servers

    def _cause(self, folder: str) -> Cause | None:
        """The cause of a reduced finding, read once; None if its folder is gone."""
        if folder not in self._causes:
            try:
                self._causes[folder] = cause_of(read_finding(folder), self._registry)
            except (FindingError, RegistryError):
                self._causes[folder] = None
        return self._causes[folder]


def cause_of(reduced: Finding, registry: BackendRegistry) -> Cause:
    """What there is to recognise in a reduced finding. Raises: RegistryError."""
    told = facts(reduced, registry)
    graph, failure = reduced.case.graph, renewed(reduced, registry)
    return Cause(
        refined(failure, graph, told).hash,
        graph,
        told.passes,
        told.apart,
        failure.kind.value,
        failure.stage.value,
        tuple(reduced.campaign.get(EXPLANATIONS, ())),
        reduced.campaign.get(FOLLOWS, ""),
        messages(failure),
        failure.signature.parts.get("wrong", ""),
        told.constant,
        tuple(reduced.campaign.get(HEALS, ())),
    )


def identity(reduced: Finding, signature: Signature) -> str:
    """The refined signature that a reduced finding goes by: its own, unless it only follows from
    another failure.
    """
    return reduced.campaign.get(FOLLOWS) or signature.hash


def keys_of(reduced: Finding, failure: Failure, signature: Signature) -> set[Key]:
    """The keys of a reduced finding: see nnfuzz.triage.keys. signature: the refined one."""
    own = identity(reduced, signature)
    found = {Key(KeyKind.CAUSE, own), *Key.parse_all(reduced.campaign.get(KEYS, ()))}
    if "message" in signature.parts and own == signature.hash:
        said = [o.traceback for o in reduced.outcomes if o.target in failure.targets]
        line = innermost_line(said[0]) if said else ""
        found |= error_keys(failure, signature.parts, reduced.case.graph, line)
    elif RESULT in signature.parts and own == signature.hash:
        told, graph = facts_of(reduced.case, failure, reduced.verdict), reduced.case.graph
        if not told.branches:  # an If that an exporter added is blamed in its place
            found |= unread_keys(failure, signature.parts, as_written(graph, told.types))
    return found


def known_by(folder: Path, registry: BackendRegistry) -> KnownFailures:
    """What a finding's folder is known by: its signature as it was recorded and by today's rules,
    and of a reduced finding its keys by these. Nothing if it cannot be read.
    """
    try:
        finding = read_finding(folder)
    except FindingError:
        return KnownFailures()
    failure = renewed(finding, registry)
    hashes = frozenset({finding.failure.signature.hash, failure.signature.hash})
    try:
        signature = refined(failure, finding.case.graph, facts(finding, registry))
    except RegistryError:
        return KnownFailures(hashes)
    keys = [frozenset(keys_of(finding, failure, signature))] if folder.name == REDUCED else []
    return KnownFailures(hashes | {identity(finding, signature)}, keys=tuple(keys))


def renewed(finding: Finding, registry: BackendRegistry) -> Failure:
    """The failure of a finding with the parts that its outcomes have by today's rules."""
    failure = finding.failure
    outcomes = [reread(outcome, registry) for outcome in finding.outcomes]
    return next(
        (
            found
            for found in failures(outcomes, finding.verdict, finding.case.graph, finding.case.fault)
            if replace(found, signature=failure.signature) == failure
        ),
        failure,
    )


def reread(outcome: Outcome, registry: BackendRegistry) -> Outcome:
    """The outcome with what the adapter reads today in its compiler's words, if there is one."""
    if outcome.kind not in (OutcomeKind.EXCEPTION, OutcomeKind.CRASH):
        return outcome
    try:
        adapter = registry.get(outcome.target.compiler)
    except RegistryError:
        return outcome
    text = text_of(outcome)
    text = replace(text, message=text.message.removeprefix(f"{Outcome.MEMORY_LIMIT}: "))
    told = adapter.complaint(text)
    if text.error_type and told.kind is ComplaintKind.UNSUPPORTED:  # it was decided not to be
        told = told.of_kind(ComplaintKind.ERROR)
    return replace(outcome, complaint=told)


def facts(reduced: Finding, registry: BackendRegistry) -> TriageFacts:
    """What a reduced finding tells beside its failure and graph."""
    localised = reduced.localisation or {}
    passes = tuple(localised.get("passes", ()))
    found = facts_of(reduced.case, reduced.failure, reduced.verdict)
    return replace(
        found,
        passes=passes,
        apart=_apart(reduced, passes, registry),
        largest=largest_operand(reduced.case),
        constant=CONSTANT in reduced.campaign.get(HEALS, ()),
    )


def _apart(reduced: Finding, passes: Sequence[str], registry: BackendRegistry) -> tuple[str, ...]:
    """Operators that tell which rewrite of a collection is accused; none if no pass is one."""
    collections = registry.get(reduced.backend.name).collections if reduced.backend else {}
    common = [collections[name] for name in passes if name in collections]
    if not common:
        return ()
    found = set(operator_types(reduced.case.model)) - {op for ops in common for op in ops}
    return tuple(sorted(found))


def reduction_service(plugins: Sequence[str] = (), folder: str = "") -> ReductionService:
    """The factory that sandboxes name: "nnfuzz.campaign.reduction:reduction_service"."""
    return ReductionService(plugins, folder)
