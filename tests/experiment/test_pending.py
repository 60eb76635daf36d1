"""Tasks that wait for values."""

from __future__ import annotations

from nnfuzz.experiment.pending import Pending, Task, finished


def test_a_task_goes_on_as_values_are_completed():
    first, second, results = Pending(), Pending(), []

    async def sum_of_both():
        return await first + await second.map(lambda n: 10 * n)

    Task(sum_of_both(), results.append)
    second.complete(2)
    assert results == []
    first.complete(1)
    assert results == [21]


def test_what_is_there_already_needs_nobody_to_drive():
    async def product():
        return await Pending.of(3) * await Pending.of(4)

    assert finished(product()) == 12
