"""How observations of tests become the configuration of an epoch.

    rows of tests     -> Prober   -> refused  signatures that a backend does not support
    TestRow, failures -> Throttle -> avoided  signatures and edges that keep failing
    refused, avoided               -> EpochConfig

`Learner.config` is the one place that decides. It depends on the tests and probes of earlier
epochs alone, so a campaign generates the same tests for any number and speed of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import INSTANCES
from nnfuzz.feedback.throttle import Throttle, by_operator
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import counted
from nnfuzz.records.rows import AvoidedRow, TestRow
from nnfuzz.testcase.identity import Probe, TestId

REPORTED_GROWTH = 1.2  # of the number of refused signatures until it is reported again


@dataclass(frozen=True)
class EpochConfig:
    """The items that generation avoids in an epoch. reasons: of newly refused signatures."""

    refused: tuple[str, ...]
    reasons: Mapping[str, str]
    avoided: tuple[AvoidedRow, ...]


class Learner:
    """Decides the configurations of epochs. refused: the signatures that are refused by now."""

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

    def learn(self, observations: Sequence[TestRow], following: int) -> None:
        """Learns from the tests of an epoch. following: the next epoch to be decided."""
        gone = self._prober.left(()) - self._prober.left(self.refused)
        self._report(self._throttle.learn(observations, following, gone | self.refused))
        for row in self._throttle.lift():
            self._note(f"{row.item} no longer fails and is generated again [{row.signature}]")

    @property
    def avoided(self) -> list[AvoidedRow]:
        """The reasons why generation avoids items, by item."""
        return self._throttle.avoided

    def avoid_failing(
        self, failures: Callable[[], Mapping[TestId, Mapping[str, str]]], following: int
    ) -> None:
        """Avoids the signatures whose single-operator models all fail.

        failures: returns, for each probe that failed, the kind of each of its failures by
        signature. following: the next epoch to be decided.
        """
        failing = sorted(self._prober.failing())
        if not failing:
            return
        by_probe, before = failures(), {*self._throttle.avoided}
        for key in failing:
            probes = [by_probe.get(Probe(key, number), {}) for number in range(INSTANCES)]
            if all(probes):
                tests = [
                    TestRow(-1, "run", 0, exporter=key.exporter, failures=found) for found in probes
                ]
                self._throttle.avoid(key, tests, "fails by itself", following)
        self._report(row for row in self._throttle.avoided if row not in before)

    def config(self, epoch: int) -> EpochConfig | None:
        """The configuration of the next epoch; None if it is that of the epoch before."""
        stale, reasons, avoided = self._stale(), self._new_refusals(), self._throttle.avoided
        self.refused = self.refused - stale | reasons.keys()
        changed = bool(reasons or stale) or avoided != self._avoided or not epoch
        self._avoided = avoided
        refused = tuple(map(str, sorted(self.refused)))
        written = {str(key): why for key, why in reasons.items()}
        return EpochConfig(refused, written, tuple(avoided)) if changed else None

    def _stale(self) -> set[SupportKey]:
        """The refused signatures that are supported after all, by answers since; reports them."""
        kept = {*self._prober.refused(), *map(SupportKey.parse, self._config.case.refused)}
        stale = {key for key in self.refused - kept if key.operator}
        if stale:
            self._note(f"{_some(sorted(stale))}: supported after all, and generated again")
        return stale

    def _new_refusals(self) -> dict[SupportKey, str]:
        """The newly unsupported signatures and opsets with the reasons; none if nothing would be
        left.
        """
        reasons = self._prober.refused()
        new = reasons.keys() - self.refused
        avoided = {SupportKey.parse(row.item) for row in self._throttle.avoided}
        if not new or not self._prober.left(self.refused | new) - avoided:
            return {}
        for key in sorted(key for key in new if not key.operator):
            self._note(f"{key.exporter} is no longer drawn: {reasons[key]}")
        refused = self._prober.expanded(self.refused | new)
        count = len([key for key in refused if key.operator and key.dtypes])
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
