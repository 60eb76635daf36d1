"""Coroutines without an event loop: values that are on their way, and tasks that await them.

The driver of an experiment (worker pools, the reducer's worker slots, or one process after the
other) hands out `Pending` values and completes them as answers come in.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Pending(Generic[T]):
    """A value that is completed once, and may be awaited before or afterwards."""

    def __init__(self) -> None:
        self.ready = False
        self._value: T
        self._then: Callable[[], None] = lambda: None

    @classmethod
    def of(cls, value: T) -> Pending[T]:
        """A value that is there already."""
        made = cls()
        made.complete(value)
        return made

    def complete(self, value: T) -> None:
        self._value, self.ready = value, True
        self._then()

    def then(self, resume: Callable[[], None]) -> None:
        """Has `resume` called once the value is there."""
        self._then = resume

    def map(self, make: Callable[[T], S]) -> Pending[S]:
        """Whether the value is there, on its way, or lost to an error."""
        made: Pending[S] = Pending()
        if self.ready:
            made.complete(make(self._value))
        else:
            self.then(lambda: made.complete(make(self._value)))
        return made

    def __await__(self) -> Generator[Pending[T], None, T]:
        if not self.ready:
            yield self
        return self._value


class Task(Generic[T]):
    """Runs a coroutine as far as it gets, and goes on whenever what it awaits is completed.

    done: called with its result. An error of the coroutine is raised where the value is completed.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], done: Callable[[T], None]) -> None:
        self._coroutine, self._done = coroutine, done
        self._advance()

    def _advance(self) -> None:
        try:
            pending = self._coroutine.send(None)
        except StopIteration as end:
            self._done(end.value)
        else:
            pending.then(self._advance)


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that awaits only values that are complete already."""
    results: list[T] = []
    Task(coroutine, results.append)
    (result,) = results
    return result
