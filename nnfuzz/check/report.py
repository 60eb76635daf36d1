"""The result of checking an operator spec, and its rendering."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

MOST_PROBLEMS = 20


@dataclass
class CheckReport:
    """Counts and problems of one operator; `problems` is empty for a conforming spec.

    forward, backward: solved instances that were checked. unsolved: drawn, but not solved.
    accepted: blind instances that PyTorch runs and ONNX defines. refused: the accepted ones that
    `requires` refuses. torch_only: further refused instances that PyTorch runs and ONNX rejects or
    understands differently. broken: instances with one broken condition. torch_rejects: broken
    ones that PyTorch rejects as well. needless: broken ones that both judges accept, so that the
    condition is too strict. unconfirmed: solved instances whose values no ONNX runtime can compute.
    empty: instances without elements that were checked.
    outside: solved instances that were not run, since no input within the domain was found. notes:
    how often a runtime could not run an instance or differed.
    """

    operator: str
    forward: int = 0
    backward: int = 0
    unsolved: int = 0
    accepted: int = 0
    refused: int = 0
    torch_only: int = 0
    broken: int = 0
    torch_rejects: int = 0
    needless: int = 0
    unconfirmed: int = 0
    outside: int = 0
    empty: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    example: str = ""

    @property
    def ok(self) -> bool:
        """Whether the operator has no problem."""
        return not self.problems

    @property
    def refused_share(self) -> float:
        """Share of the instances acceptable to both judges that `requires` refuses."""
        return self.refused / self.accepted if self.accepted else 0.0

    def problem(self, text: str) -> None:
        """Add a problem, up to MOST_PROBLEMS of them."""
        if len(self.problems) < MOST_PROBLEMS and text not in self.problems:
            self.problems.append(text)


COLUMNS = (
    "operator, forward, backward, unsolved, unconfirmed, accepted, refused, torch only, broken, "
    "torch rejects, needless, empty, problems"
).split(", ")


def report_table(reports: Iterable[CheckReport]) -> Table:
    """The reports as a table for rich, one operator a line."""
    from rich.table import Table

    result = Table()
    for i, column in enumerate(COLUMNS):
        result.add_column(column, justify="right" if i else "left")
    for r in reports:
        share = f"{r.refused} ({r.refused_share:.0%})" if r.refused else "0"
        counts = (r.forward, r.backward, r.unsolved, r.unconfirmed)
        tight = (r.accepted, share, r.torch_only)
        rest = (r.broken, r.torch_rejects, r.needless, r.empty, len(r.problems))
        result.add_row(r.operator, *map(str, (*counts, *tight, *rest)), style="" if r.ok else "red")
    return result


def listing(reports: Iterable[CheckReport]) -> list[str]:
    """Problems, examples of needless refusals and notes, one line each."""
    lines = []
    for r in reports:
        lines += [f"{r.operator}: {text}" for text in r.problems]
        lines += [f"{r.operator}: {r.example}"] if r.example else []
        lines += [f"{r.operator}: note: {text} ({n} times)" for text, n in sorted(r.notes.items())]
    return lines
