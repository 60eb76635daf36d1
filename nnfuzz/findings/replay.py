"""Runs a finding again: does it still fail, and in the same way?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from packaging.version import Version

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import write_atomically
from nnfuzz.base.untrusted import below, read_json
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.bisection import Bisection, BisectionStep, ReleaseAnswer, came, went
from nnfuzz.experiment.compilers import examine
from nnfuzz.experiment.result import Result
from nnfuzz.findings.folder import read_finding
from nnfuzz.findings.report import tracker_report
from nnfuzz.materialize.older import at_oldest_opset
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.triage.signature import Failure, export_failure, same_silent_death


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
    bench: ProducerClient,
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
    """Generates the test case of an exporter's finding and exports it"""
    made = producer.produce(finding.case.id)
    if isinstance(made, TestCase):
        return Replayed(ReplayResult.FIXED, ())
    party = finding.failure.backend
    failure = export_failure(party, made.error_type, made.message, made.traceback)
    same = made.stage == "export" and _same(failure, finding.failure)
    return Replayed(ReplayResult.REPRODUCED if same else ReplayResult.DIFFERENT, (failure,))


def _levels(finding: Finding, runner: BackendRunner) -> Sequence[str]:
    """The levels that were run, as far as the backend still has them."""
    failing = finding.failure.backend
    return runner.backend.having(o.level for o in finding.outcomes if o.backend == failing)


def _same(one: Failure, other: Failure) -> bool:
    """Whether the signatures are equal, but for the place of a death that says nothing else."""
    mine, theirs = one.signature, other.signature
    return mine.hash == theirs.hash or same_silent_death(mine.details, theirs.details)


def same_kind(one: Failure, other: Failure) -> bool:
    """Whether two failures agree in kind and stage, whatever their messages are."""
    return (one.kind, one.stage) == (other.kind, other.stage)


_ANSWERS = {
    ReplayResult.REPRODUCED: ReleaseAnswer.FAILS,
    ReplayResult.DIFFERENT: ReleaseAnswer.DIFFERENT,
    ReplayResult.FIXED: ReleaseAnswer.RIGHT,
}
_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc|\.post|\.dev)\d+)*")
"""Compilers report more than the release: 2025.3.0-19807-44526285f24."""


def release_in(text: str) -> str:
    """The release at the beginning of the version that a compiler gives; "" if there is none."""
    found = _RELEASE.match(text)
    return found.group() if found else ""


class NotReproduced(ValueError):
    """A finding that does not fail in its own release any more."""


@dataclass(frozen=True)
class Releases:
    """The releases of a finding's compiler; each runs in an environment of its own.

    listed: the releases of the package index, the oldest first. note: called with every step.
    """

    finding: Finding
    spec: BackendSpec
    registry: BackendRegistry
    bench: ProducerClient
    listed: Sequence[str]
    note: Callable[[BisectionStep], None]

    @property
    def own(self) -> str:
        """The release that the finding is about. Raises: ReleaseError if it names none."""
        release = release_in(self.spec.release or self.finding.failure.targets[0].release)
        if not release:
            raise ReleaseError("the finding does not say which release it is about")
        return release

    def bisect(self, oldest: str = "", newest: str = "") -> list[Bisection]:
        """Finds the release with which the failure came, and the one with which it went.

        oldest: where to begin to look for the first, newest: where to end with the second. Without
        either, the first is looked for, or, where the finding is known to be right in a newer
        release, the second. Raises: NotReproduced, RegistryError, RunnerError.
        """
        own, right = self.own, self.finding.origin.right_in
        if right and not (oldest or newest):
            oldest, newest = (right, "") if Version(right) < Version(own) else ("", right)
        here = self._reproduced()
        searches = []
        if oldest or not newest:
            asked = self._between(oldest or self.listed[0], own)
            searches.append(came(self.spec.name, asked, here.ask, oldest == right != ""))
        if newest:
            asked = self._between(own, newest)
            searches.append(went(self.spec.name, asked, here.ask, newest == right != ""))
        return searches

    def _between(self, oldest: str, newest: str) -> list[str]:
        """The ends and the releases between them. Raises: ReleaseError if they are swapped."""
        low, high = Version(oldest), Version(newest)
        if low > high:
            raise ReleaseError(f"{oldest} is newer than {newest}: nothing lies between")
        inside = [name for name in self.listed if low < Version(name) < high]
        return list(dict.fromkeys([oldest, *inside, newest]))

    def _reproduced(self) -> Releases:
        """Itself, with the model at its oldest opset if it fails there too: more releases read
        that. Raises: NotReproduced if it does not fail any more.
        """
        case = self.finding.case
        model = at_oldest_opset(case.model)
        tried = [model] if model == case.model else [model, case.model]
        for candidate in tried:
            finding = replace(self.finding, case=replace(case, model=candidate))
            releases = replace(self, finding=finding)
            if (step := releases.ask(self.own)).answer is ReleaseAnswer.FAILS:
                return releases
        raise NotReproduced(f"it does not fail in {self.own} as it did: {step.answer} {step.seen}")

    def ask(self, release: str) -> BisectionStep:
        """Replays the finding in a release."""
        step = self._asked(release)
        self.note(step)
        return step

    def _asked(self, release: str) -> BisectionStep:
        spec = replace(self.spec, release=release, label=self.finding.failure.backend)
        try:
            with BackendRunner(spec, self.registry) as runner:
                replayed = replay_finding(self.finding, runner, self.bench)
        except (ReleaseError, RunnerError) as error:
            return BisectionStep(release, ReleaseAnswer.SKIPPED, str(error).splitlines()[0])
        same = [f for f in replayed.failures if same_kind(f, self.finding.failure)]
        other = _ANSWERS.get(replayed.answer, ReleaseAnswer.UNSUPPORTED)
        answer = ReleaseAnswer.FAILS if same else other
        titles = [failure.signature.title for failure in same or replayed.failures]
        return BisectionStep(release, answer, "".join(titles[:1]).removeprefix(f"{spec.label}: "))


def write_bisection(folder: Path, bisections: Sequence[Bisection]) -> None:
    """Adds the results to finding.json, in place of earlier ones, and renders report.md again.

    Raises: Unreadable, OSError.
    """
    file = folder / "finding.json"
    data = read_json(below(folder, file.name))
    data["campaign"]["bisection"] = [as_json(bisection) for bisection in bisections]
    write_atomically(file, (json.dumps(data, indent=1) + "\n").encode())
    write_atomically(folder / "report.md", tracker_report(read_finding(folder)).encode())
