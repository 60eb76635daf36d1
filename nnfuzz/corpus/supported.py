"""Leaves out the models that a compiler calls unsupported, for a corpus that is made for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.corpus.entry import Entry
from nnfuzz.report.inline import foreign
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered

UNSUPPORTED, BORDERS = "unsupported", "borders"
RARE = 4
"""One of so many indexes may have inputs or outputs of dtypes that NumPy itself lacks."""


def supported_only(
    made: Iterable[Entry | NotProduced], runners: Sequence[BackendRunner]
) -> Iterator[Entry | NotProduced]:
    """The same, with NotProduced for models that a compiler itself calls unsupported.

    Probes find what it lacks by operator and dtype; some of it depends on attributes and ranks.
    Each model runs once, at the least optimised level; any other failure there is one that the
    corpus is for. Models whose inputs and outputs have NumPy's own dtypes are preferred, since many
    compilers take no others from Python: with others, an index is passed over unless it is a
    multiple of `RARE`. Raises: RunnerError.
    """
    for entry in made:
        awkward = _awkward(entry) if runners else None
        yield awkward or next(filter(None, (_refused(entry, r) for r in runners)), entry)


def _awkward(entry: Entry | NotProduced) -> NotProduced | None:
    """Set where another index is preferred; a test that was asked for one by one is not."""
    if isinstance(entry, NotProduced) or not isinstance(entry.case.id, Numbered):
        return None
    if entry.case.id.index % RARE == 0 or not foreign(entry.case):
        return None
    return NotProduced(entry.case.id, BORDERS, "inputs or outputs of dtypes that NumPy lacks")


def _refused(entry: Entry | NotProduced, runner: BackendRunner) -> NotProduced | None:
    if isinstance(entry, NotProduced):
        return None
    case = entry.case
    (outcome,) = runner.run(case.source(runner.reads), case.inputs, runner.backend.levels[:1])
    if outcome.kind is not OutcomeKind.UNSUPPORTED:
        return None
    return NotProduced(case.id, UNSUPPORTED, f"{runner.name}: {outcome.message}")
