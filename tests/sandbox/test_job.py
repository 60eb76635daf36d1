"""Jobs say what answers them; services find the method for a job by its kind."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nnfuzz.sandbox.job import Job, Service, does
from nnfuzz.sandbox.wire import WireError


@dataclass(frozen=True)
class Count(Job[int]):
    text: str

    def accept(self, answer: int) -> int:
        if answer > len(self.text):
            raise ValueError("more words than characters")
        return answer


@dataclass(frozen=True)
class Split(Job[list[str]]):
    text: str


class CountTwice(Count):
    """Counts every word twice."""


class Counter(Service):
    @does(Count)
    def count(self, job, report):
        report("counting")
        return len(job.text.split())

    @does(CountTwice)
    def twice(self, job, report):
        return 2 * self.count(job, report)


class Liar(Counter):
    def count(self, job, report):
        return 1000


class Splitter(Counter):
    @does(Split)
    def split(self, job, report):
        return job.text.split()


def done(service: Service, job: Job):
    return job.read_answer(*service.handle(*job.to_frame(), lambda stage: None))


def test_a_job_is_done_by_the_method_that_is_marked_with_its_kind():
    assert done(Counter(), Count("one two")) == 2
    assert done(Counter(), CountTwice("one two")) == 4
    assert done(Splitter(), Split("one two")) == ["one", "two"]
    assert done(Splitter(), Count("one two")) == 2


def test_what_a_job_does_not_accept_is_refused():
    with pytest.raises(ValueError, match="more words than characters"):
        done(Liar(), Count("one"))


def test_a_job_that_a_service_does_not_do_is_named():
    with pytest.raises(ValueError, match="Counter does no job 'Split'"):
        done(Counter(), Split("one"))


def test_parts_have_to_be_announced():
    with pytest.raises(WireError, match="nobody asked for"):
        Count("one").read_part(0, {"value": 1}, {})


def test_people_are_told_the_kind_of_job():
    assert Count("one").about == "Count"
