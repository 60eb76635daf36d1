"""How the results of tests become what an epoch may generate.

    what compilers refuse     -> refused  signatures, known before the first test
    rows of tests -> Throttle -> avoided  signatures and edges that keep failing

`Learner.knowledge` is the one place that decides. It depends on the tests of earlier epochs alone,
so a campaign generates the same tests for any number and speed of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnfuzz.feedback.support import remaining, wider
from nnfuzz.feedback.throttle import Throttle, by_operator
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import counted
from nnfuzz.records.rows import AvoidedRow, TestRow
from nnfuzz.testcase.case import CaseConfig


@dataclass(frozen=True)
class Knowledge:
    """What an epoch does not generate. refused: written signatures. reasons: of the refusals, in
    the first epoch.
    """

    refused: tuple[str, ...] = ()
    avoided: tuple[AvoidedRow, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def applied(self, case: CaseConfig) -> CaseConfig:
        """The configuration of the test cases of the epoch."""
        return replace(case, refused=self.refused, avoid=tuple(row.item for row in self.avoided))


class Learner:
    """Decides what epochs may generate."""

    def __init__(
        self,
        config: CampaignConfig,
        keys: Sequence[SupportKey],
        reasons: Mapping[SupportKey, str],
        note: Callable[[str], None],
    ) -> None:
        """keys: every signature with every writer. reasons: the refused ones, which may stand for
        several, with why. note: receives one line for people about each change.
        """
        refused = {*reasons, *map(SupportKey.parse, config.case.refused)}
        written = {str(key): why for key, why in sorted(reasons.items())}
        self._first = Knowledge(tuple(map(str, sorted(refused))), reasons=written)
        self._config = config
        self._throttle = Throttle(config.throttle, every := remaining(keys))
        self._gone = refused | (every - remaining(keys, refused))
        self._note = note
        self._avoided: list[AvoidedRow] = []
        if reasons:
            count = len([key for key in keys if not refused.isdisjoint(wider(key))])
            note(
                f"{count} of {len(keys)} operator signatures are not generated, since they are not "
                f"supported: {_some(sorted(reasons))} (all: nnfuzz ops --backend NAME)"
            )

    def learn(self, tests: Iterable[TestRow]) -> None:
        """Learns from the tests of an epoch."""
        self._report(self._throttle.learn(tests, self._gone))

    def knowledge(self, epoch: int) -> Knowledge | None:
        """What the next epoch does not generate; None if that is as in the epoch before."""
        before, self._avoided = self._avoided, self._throttle.avoided
        if not epoch:
            return self._first
        if before == self._avoided:
            return None
        return replace(self._first, avoided=tuple(self._avoided), reasons={})

    def _report(self, new: Iterable[AvoidedRow]) -> None:
        """Reports in one line the items that generation avoids from now on."""
        rows = by_operator(new)
        if not rows:
            return
        patterns = [f"{name} ({row.why} [{row.signature}])" for name, row in rows.items()]
        self._note(
            f"generation keeps away from {_some(patterns)} from now on, but in "
            f"{self._config.case.unrestrained:.0%} of the tests "
            f"({counted(len(patterns), 'pattern')}; all: `avoided` in summary.json)"
        )


def _some(names: Sequence[object], count: int = 3) -> str:
    """The first of some names."""
    return ", ".join(map(str, names[:count])) + (", ..." if len(names) > count else "")
