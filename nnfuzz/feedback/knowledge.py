"""How the results of tests become what an epoch may generate.

    rows of tests -> Prober   -> refused  signatures that a backend does not support
    rows of tests -> Throttle -> avoided  signatures and edges that keep failing

`Learner.knowledge` is the one place that decides. It depends on the tests and probes of earlier
epochs alone, so a campaign generates the same tests for any number and speed of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.throttle import Throttle, by_operator
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import counted
from nnfuzz.records.rows import AvoidedRow, TestRow
from nnfuzz.testcase.case import CaseConfig

REPORTED_GROWTH = 1.2  # of the number of refused signatures until it is reported again


@dataclass(frozen=True)
class Knowledge:
    """What an epoch does not generate. refused: written signatures. reasons: of those that are
    new.
    """

    refused: tuple[str, ...] = ()
    avoided: tuple[AvoidedRow, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def applied(self, case: CaseConfig) -> CaseConfig:
        """The configuration of the test cases of the epoch."""
        return replace(case, refused=self.refused, avoid=tuple(row.item for row in self.avoided))


class Learner:
    """Decides what epochs may generate. refused: the signatures that are refused by now."""

    def __init__(
        self,
        config: CampaignConfig,
        prober: Prober,
        throttle: Throttle,
        note: Callable[[str], None],
    ) -> None:
        """note: receives one line for people about each change."""
        self.refused = set(map(SupportKey.parse, config.case.refused))
        self._config = config
        self._prober = prober
        self._throttle = throttle
        self._note = note
        self._avoided: list[AvoidedRow] = []
        self._reported = 0  # refused signatures when they were reported last

    def learn(self, tests: Iterable[TestRow]) -> None:
        """Learns from the tests of an epoch."""
        gone = self._prober.left(()) - self._prober.left(self.refused)
        self._report(self._throttle.learn(tests, gone | self.refused))

    def knowledge(self, epoch: int) -> Knowledge | None:
        """What the next epoch does not generate; None if that is as in the epoch before."""
        reasons, avoided = self._prober.refused(), self._throttle.avoided
        kept = {*reasons, *map(SupportKey.parse, self._config.case.refused)}
        if stale := self.refused - kept:
            self._note(f"{_some(sorted(stale))}: supported after all, and generated again")
        new = self._new(reasons)
        self.refused = self.refused - stale | new.keys()
        changed = bool(new or stale) or avoided != self._avoided or not epoch
        self._avoided = avoided
        if not changed:
            return None
        written = {str(key): why for key, why in new.items()}
        return Knowledge(tuple(map(str, sorted(self.refused))), tuple(avoided), written)

    def _new(self, reasons: Mapping[SupportKey, str]) -> dict[SupportKey, str]:
        """The newly refused items with the reasons; none if nothing would be left."""
        new = reasons.keys() - self.refused
        avoided = {SupportKey.parse(row.item) for row in self._throttle.avoided}
        if not new or not self._prober.left(self.refused | new) - avoided:
            return {}
        refused = self._prober.expanded(self.refused | new)
        count = len([key for key in refused if key.dtypes])
        if count > REPORTED_GROWTH * self._reported:
            self._reported = count
            self._note(
                f"{count} of {len(self._prober.keys)} operator signatures are refused for "
                f"generation by now, since they are not supported: {_some(sorted(new))} "
                "(all: nnfuzz ops --backend NAME)"
            )
        return {key: reasons[key] for key in sorted(new)}

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
