"""From a finding folder to the reduced finding inside of it, FINDING/reduced."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnfuzz.execute.outcome import OutcomeKind
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.execute.runner import limits_of
from nnfuzz.reduce.engine import BUDGET, Counter, Engine, Watch
from nnfuzz.reduce.lanes import Lanes, Question, Tried
from nnfuzz.report.finding import Finding, read_finding, write_finding
from nnfuzz.report.repro import program_of
from nnfuzz.triage.signature import Failure

REDUCED = "reduced"
SECONDS = 20.0
"""Limit for a candidate of a finding that is not about time."""
CONFIRMATIONS = 2


class NotReduced(ValueError):
    """Why a finding cannot be reduced."""


@dataclass(frozen=True)
class ReduceConfig:
    """workers: candidates at a time. budget: candidates that are run."""

    workers: int = 2
    budget: int = BUDGET


@dataclass(frozen=True, eq=False)
class Reduction:
    """What came of it.

    before, after: the measure (see nnfuzz.reduce.subject.Subject.measure), whose first entry is
    the number of nodes. run: candidates. confirmed: of CONFIRMATIONS runs in fresh processes.
    """

    finding: Finding
    before: tuple[int, ...]
    after: tuple[int, ...]
    run: int
    seconds: float
    confirmed: int
    counters: dict[str, Counter]

    def to_json(self) -> dict[str, Any]:
        return {
            "nodes": [self.before[0], self.after[0]],
            "elements": [self.before[5], self.after[5]],
            "candidates": self.run,
            "seconds": round(self.seconds, 2),
            "confirmed": [self.confirmed, CONFIRMATIONS],
            "passes": {n: c.to_json() for n, c in self.counters.items() if c.proposed},
        }


def reduce_folder(
    folder: str | Path,
    config: ReduceConfig | None = None,
    backend: BackendSpec | None = None,
    watch: Watch = lambda progress: None,
    registry: BackendRegistry | None = None,
) -> Reduction:
    """Reduces a finding and writes FINDING/reduced, replacing an earlier one.

    Raises: FindingError, NotReduced, and as `reduce_finding`.
    """
    folder = Path(folder)
    finding = read_finding(folder)
    done = reduce_finding(finding, config, backend, watch, registry)
    target = folder / REDUCED
    if target.exists():
        shutil.rmtree(target)
    spec = done.finding.backend
    program = program_of(spec, registry) if spec and done.finding.case.model else None
    write_finding(target, done.finding, program)
    return done


def reduce_finding(
    finding: Finding,
    config: ReduceConfig | None = None,
    backend: BackendSpec | None = None,
    watch: Watch = lambda progress: None,
    registry: BackendRegistry | None = None,
) -> Reduction:
    """The smallest finding of the same kind that the passes reach.

    backend: instead of the finding's own. A function of the finding, the configuration and the
    backend's behaviour; the number of workers changes the speed alone.
    Raises: NotReduced if there is no graph or the failure does not occur again; RegistryError,
    OptionError, RunnerError, WorkerError.
    """
    config = config or ReduceConfig()
    if not (finding.case.graph or {}).get("nodes"):
        raise NotReduced("the finding has no graph, only a model: nothing to reduce")
    start = time.perf_counter()
    spec = backend or finding.backend if finding.case.model else None
    with _lanes(finding, spec, config.workers, registry) as lanes:
        lanes.start()
        question = _question(finding, lanes)
        found = lanes.run(finding.case, (), question)
        wanted = _wanted(finding, found)
        engine = Engine(lanes, question, found, wanted, config.budget, watch)
        best = engine.reduce()
        confirmed = _confirmed(lanes, question, best, wanted)
    done = Reduction(
        finding,
        found.measure,
        best.measure,
        engine.progress.run,
        time.perf_counter() - start,
        confirmed,
        engine.progress.counters,
    )
    return replace(done, finding=_reduced(finding, spec, best, wanted, done))


def _lanes(
    finding: Finding,
    spec: BackendSpec | None,
    workers: int,
    registry: BackendRegistry | None,
) -> Lanes:
    limits = None
    if spec is not None:
        known = registry or BackendRegistry.discover(spec.plugins)
        limits = limits_of(known.get(spec.name).parse_options(spec.options))
        if finding.failure.kind is not OutcomeKind.TIMEOUT:
            limits = replace(limits, seconds=min(limits.seconds, SECONDS))
    return Lanes(finding.config, spec, workers, registry, limits)


def _question(finding: Finding, lanes: Lanes) -> Question:
    runner = lanes.lanes[0].runner
    if runner is None:
        return Question((), judged=False)
    failure = finding.failure
    ran = dict.fromkeys(o.level for o in finding.outcomes if o.backend == failure.backend)
    levels = [level for level in runner.backend.levels if level in ran]
    accused = ((finding.verdict or {}).get("attribution") or {}).get(failure.backend) or {}
    return Question(
        tuple(levels) or runner.backend.default_levels(),
        judged=failure.kind is OutcomeKind.MISMATCH,
        both=accused.get("party") == "exporter" and finding.case.exporter != "direct",
    )


def _wanted(finding: Finding, found: Tried) -> str:
    """The likeness of the failure as it occurs now. Raises: NotReduced if it does not."""
    failure = finding.failure
    if not found.digest or found.reason:
        raise NotReduced(f"the test case cannot be prepared: {found.reason}")
    alike = [(f, mark) for f, mark in found.failing if _alike(f, failure)]
    exact = [mark for f, mark in alike if f.signature.hash == failure.signature.hash]
    same = [mark for _, mark in alike]
    if not same:
        seen = ", ".join(f.signature.title for f, _ in found.failing) or "no failure"
        raise NotReduced(f"the failure does not reproduce: {seen}")
    return (exact or same)[0]


def _alike(one: Failure, other: Failure) -> bool:
    return (one.kind, one.stage) == (other.kind, other.stage)


def _confirmed(lanes: Lanes, question: Question, best: Tried, wanted: str) -> int:
    """How often the reduced case fails in fresh processes."""
    assert best.case is not None
    tries = [lanes.run_fresh(best.case, question) for _ in range(CONFIRMATIONS)]
    return sum(any(mark == wanted for _, mark in tried.failing) for tried in tries)


def _reduced(
    finding: Finding, spec: BackendSpec | None, best: Tried, wanted: str, done: Reduction
) -> Finding:
    assert best.case is not None
    failure = next(f for f, mark in best.failing if mark == wanted)
    origin = {"reduced_from": finding.signature.to_json(), "reduction": done.to_json()}
    return replace(
        finding,
        failure=failure,
        case=best.case,
        outcomes=best.outcomes,
        backend=spec,
        verdict=best.verdict,
        campaign={**finding.campaign, **origin},
    )
