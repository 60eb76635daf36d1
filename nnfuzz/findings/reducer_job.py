"""The job of a campaign's reducing worker (nnfuzz.findings.reducer_service)."""

from __future__ import annotations

from dataclasses import dataclass

from nnfuzz.backend.deviation import Deviation
from nnfuzz.records.rows import ReductionRow
from nnfuzz.sandbox.job import Job


@dataclass(frozen=True)
class ReduceFinding(Job[ReductionRow | None]):
    """Reduces the finding in a folder. A finding that cannot be reduced has a `reason` in its row;
    one that fails for the cause of one of the known findings is `explained`, and not reduced
    further.

    folder: an absolute path. budget: of candidates. seconds: None
    for any. known: folders of reduced findings of the same kind. habits: of the compiler, None if
    they have to be determined. only_known: whether to say only which known finding explains it;
    the answer is None where none does.
    """

    signature: str
    folder: str
    budget: int
    seconds: float | None = None
    known: tuple[str, ...] = ()
    habits: tuple[Deviation, ...] | None = None
    only_known: bool = False

    def accept(self, answer: ReductionRow | None) -> ReductionRow | None:
        if answer is None:
            if not self.only_known:
                raise ValueError("no answer")
        elif answer.graph.checked() and answer.signature != self.signature:
            raise ValueError(f"{answer.signature} instead of {self.signature}")
        return answer
