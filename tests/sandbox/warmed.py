"""A service whose module counts what its factory was called with in this process or before it."""

from dataclasses import dataclass

from nnfuzz.sandbox.job import Job, Service, does

_TOTAL = [0]


@dataclass(frozen=True)
class AskTotal(Job[int]):
    pass


class _Counter(Service):
    @does(AskTotal)
    def total(self, job, report):
        return _TOTAL[0]


def service(by):
    _TOTAL[0] += by
    return _Counter()
