"""Runs a finding again: does it still fail, and in the same way?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.result import Result, Workbench
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.triage.identity import habits_of, same_silent_death
from nnfuzz.triage.signature import Failure, export_failure


class ReplayResult(StrEnum):
    """The result of a replay. `unsupported`: the backend now says it does not implement it. `not
    compared`: it runs, and no element of its outputs is comparable.
    """

    REPRODUCED = "reproduced"
    DIFFERENT = "fails differently"
    UNSUPPORTED = "unsupported"
    FIXED = "fixed"
    NOT_COMPARED = "not compared"


@dataclass(frozen=True, eq=False)
class Replayed:
    """failures: all that occurred; result: of the experiment, None for an exporter's finding."""

    answer: ReplayResult
    failures: tuple[Failure, ...]
    result: Result | None = None

    @property
    def fails(self) -> bool:
        return self.answer in (ReplayResult.REPRODUCED, ReplayResult.DIFFERENT)

    @property
    def compared(self) -> bool:
        return self.answer is not ReplayResult.NOT_COMPARED


def replay_finding(
    finding: Finding,
    runner: BackendRunner,
    bench: Workbench,
    thorough: bool = False,
) -> Replayed:
    """Runs the model on the backend of `runner` and compares the failures with the finding's.

    On the finding's own backend the levels are those of the finding and the signature decides; on
    another one its default levels, and kind and stage.
    thorough: see nnfuzz.experiment.compilers.examine.
    """
    own = runner.name == finding.failure.backend
    levels = _levels(finding, runner) if own else None
    result = examine(finding.case, runner, bench, levels, thorough=thorough)
    failures = tuple(f for f in result.failures if f.backend == runner.name)
    same = [f for f in failures if (_same if own else same_kind)(f, finding.failure)]
    if same:
        answer = ReplayResult.REPRODUCED
    elif failures:
        answer = ReplayResult.DIFFERENT
    elif all(o.ok or o.kind is OutcomeKind.REFUSED for o in result.outcomes):
        answer = ReplayResult.FIXED
    elif any(o.kind is OutcomeKind.NOT_COMPARED for o in result.outcomes):
        answer = ReplayResult.NOT_COMPARED
    else:
        answer = ReplayResult.UNSUPPORTED
    return Replayed(answer, failures, result)


def replay_export(finding: Finding, producer: ProducerClient) -> Replayed:
    """Generates the test case of an exporter's finding and exports it again."""
    made = producer.produce(finding.case.id)
    if isinstance(made, TestCase):
        return Replayed(ReplayResult.FIXED, ())
    party = finding.failure.backend
    failure = export_failure(party, made.error_type, made.message, made.traceback)
    same = made.stage == "export" and _same(failure, finding.failure)
    return Replayed(ReplayResult.REPRODUCED if same else ReplayResult.DIFFERENT, (failure,))


def regeneration(finding: Finding, made: TestCase | NotProduced) -> list[str]:
    """The parts in which the regenerated test case differs from the finding's; [] if in none."""
    if isinstance(made, NotProduced):
        return [] if not finding.case.model else [f"not generated ({made.stage}): {made.message}"]
    case = finding.case
    differences = [] if made.graph == case.graph else ["the graph differs"]
    if made.model != case.model:
        sizes = f"{len(made.model)} and {len(case.model)} bytes"
        differences.append(f"the model's bytes differ ({sizes})")
    for group in ("inputs", "weights", "expected"):
        ours, theirs = getattr(case, group), getattr(made, group)
        differing = [n for n in sorted({*ours, *theirs}) if not _equal(ours.get(n), theirs.get(n))]
        if differing:
            differences.append(f"{group} differ: {', '.join(differing)}")
    return differences


def _levels(finding: Finding, runner: BackendRunner) -> Sequence[str]:
    """The levels that were run, as far as the backend still has them."""
    failing = finding.failure.backend
    return runner.backend.having(o.level for o in finding.outcomes if o.backend == failing)


def _same(one: Failure, other: Failure) -> bool:
    """Whether the signatures agree, or one habit of a finding that older rules gave several, or
    deaths without a word of which not both are located.
    """
    mine, theirs = (failure.signature.identity for failure in (one, other))
    return (
        one.signature.hash == other.signature.hash
        or same_silent_death(mine, theirs)
        or not set(habits_of(mine)).isdisjoint(habits_of(theirs))
    )


def same_kind(one: Failure, other: Failure) -> bool:
    """Whether two failures agree in kind and stage, whatever their messages are."""
    return (one.kind, one.stage) == (other.kind, other.stage)


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return False
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )
