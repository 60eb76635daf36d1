"""Leaves out the models that a compiler calls unsupported, for a corpus that is made for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nnfuzz.corpus.entry import Entry
from nnfuzz.execute.outcome import OutcomeKind
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.testcase.case import NotProduced

UNSUPPORTED = "unsupported"


def taken(
    made: Iterable[Entry | NotProduced], runners: Sequence[BackendRunner]
) -> Iterator[Entry | NotProduced]:
    """The same, with NotProduced for what some compiler says it does not implement.

    Probes find what it lacks by operator and dtype; some of it depends on attributes and ranks.
    Each model runs once, at the least optimised level; whatever else goes wrong there is what the
    corpus is for. Raises: RunnerError.
    """
    for entry in made:
        yield next(filter(None, (_refused(entry, r) for r in runners)), entry)


def _refused(entry: Entry | NotProduced, runner: BackendRunner) -> NotProduced | None:
    if isinstance(entry, NotProduced):
        return None
    case = entry.case
    (outcome,) = runner.run(case.source(runner.reads), case.inputs, runner.backend.levels[:1])
    if outcome.kind is not OutcomeKind.UNSUPPORTED:
        return None
    return NotProduced(case.id, UNSUPPORTED, f"{runner.name}: {outcome.message}")
