"""What is asked of a candidate of the reducer, and what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnfuzz.backend.deviation import Habits
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.compare.flip import NOBODY, Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import (
    FAILURES,
    OTHERS,
    SWITCHES,
    Failure,
    answering,
    corrupted,
    level_pattern,
)

_VARYING = frozenset({OTHERS, "about", "operators", SWITCHES})
"""Parts that follow from the message, and from what else it lists."""
_NUMBER = re.compile(r"\d+")
NUMBERS = frozenset({"value", "nonfinite"})


@dataclass(frozen=True)
class CandidateQuestion:
    """What is run, and how: the same for every candidate.

    levels: of the backend. isolates: run the direct form as well, to tell the exporter's faults.
    judged: whether values matter. without: passes of the optimiser to switch off. until, lazy: see
    BackendRunner.submit; they save what cannot be like the failure. habits: of the compiler.
    hurried: whether what takes many times as long as all that ended may count as a hang.
    silent: levels that do not take the whole case; they need not take a candidate either.
    """

    levels: tuple[str, ...]
    judged: bool
    isolates: bool = False
    without: tuple[str, ...] = ()
    until: Stage = Stage.EXECUTE
    lazy: bool = False
    habits: Habits = ()
    hurried: bool = False
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of a candidate. digest: "" if it was rejected before it ran, and why in `reason`.

    failing: (failure, failure key) of each way in which it failed. blames: by signature.
    """

    digest: str = ""
    reason: str = ""
    measure: tuple[int, ...] = ()
    case: TestCase | None = None
    outcomes: tuple[Outcome, ...] = ()
    verdict: Verdict | None = None
    blames: Mapping[str, Blame] = field(default_factory=dict)
    failing: tuple[tuple[Failure, str], ...] = ()

    def blame(self, failure: Failure) -> Blame:
        return self.blames.get(failure.signature.hash, NOBODY)


def with_failure_keys(tried: Tried, silent: Collection[str]) -> Tried:
    """What came of a candidate, with the failure keys for a question with these silent levels."""
    failures = {failure.signature.hash: failure for failure, _ in tried.failing}.values()
    return replace(tried, failing=tuple(with_keys(failures, tried.blame, tried.outcomes, silent)))


def with_keys(
    failures: Iterable[Failure],
    blame: Callable[[Failure], Blame],
    outcomes: Sequence[Outcome],
    silent: Collection[str] = (),
) -> list[tuple[Failure, str]]:
    """Each failure with each of its failure keys."""
    return [
        (failure, key)
        for failure in failures
        for key in failure_keys(failure, blame(failure), outcomes, silent)
    ]


def failure_keys(
    failure: Failure,
    blame: Blame = NOBODY,
    outcomes: Iterable[Outcome] = (),
    silent: Collection[str] = (),
) -> list[str]:
    """The failure key, and those that it would have with each other complaint of its message: a
    model that loses one of them has kept the failure.
    """
    outcomes, parts = list(outcomes), failure.signature.parts
    keys = [failure_key(failure, blame, outcomes, silent)]
    for message, location in parts.get(OTHERS, ()):
        changed = {**parts, "message": message, "location": location}
        other = replace(failure.signature, parts=changed)
        keys.append(failure_key(replace(failure, signature=other), blame, outcomes, silent))
    return keys


def failure_key(
    failure: Failure,
    blame: Blame = NOBODY,
    outcomes: Iterable[Outcome] = (),
    silent: Collection[str] = (),
) -> str:
    """What a reduction must keep: equal for failures that are the same for a maintainer.

    The signature without what changes with the model: for mismatches kind, levels and what is
    accused, for others the normalised error as well. A level that does not take a candidate counts
    too, unless it is silent, that is, did not take the whole case: a failure beside a level that
    works is worth more, and what keeps a level from saying anything is not part of the failure.
    """
    parts = {k: v for k, v in failure.signature.parts.items() if k not in _VARYING}
    if "frames" in parts:  # a function that is instantiated for the n-th node has n in its name
        parts["frames"] = [_NUMBER.sub("N", frame) for frame in parts["frames"]]
    if failure.kind is OutcomeKind.MISMATCH:
        parts["wrong"] = "number" if parts.get("wrong") in NUMBERS else parts.get("wrong")
        parts["accused"] = blame.coordinate.value
    outcomes = list(outcomes)
    if memory := corrupted(failure.signature.details):
        for name in ("signal", "message", "levels"):
            parts.pop(name, None)
    if outcomes and not memory:
        # A level that fails in another way is no witness for the optimiser's guilt.
        failing = {*failure.levels, *(o.level for o in outcomes if o.kind in FAILURES)}
        parts["levels"] = level_pattern(failing, answering(outcomes))
    if outcomes and outcomes[0].level in silent:
        # Nobody knows whether it takes optimisation, so that a candidate is free to tell.
        for name in ("levels", "accused"):
            parts.pop(name, None)
    refusing = {o.level for o in outcomes if o.kind is OutcomeKind.UNSUPPORTED}
    return json.dumps([parts, sorted(refusing.difference(silent))], sort_keys=True)
