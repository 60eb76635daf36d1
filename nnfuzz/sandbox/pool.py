"""Workers that carry out one order each, side by side: the one pool under all of nnfuzz's.

Whoever owns a pool calls `dispatch` to hand orders to idle workers, waits for events of
`sandboxes()`, and passes each of them to `feed`, which ends the order that it completes. Nothing
blocks but `run`, for owners that have nothing else to do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from nnfuzz.sandbox.events import Event
from nnfuzz.sandbox.sandbox import Sandbox, wait

O = TypeVar("O")  # noqa: E741 (an order)
R = TypeVar("R")
W = TypeVar("W", bound="Worker[Any, Any]")


class Worker(ABC, Generic[O, R]):
    """Carries out one order at a time, in one or several sandboxes. order: the one in hand."""

    order: O | None = None

    @property
    @abstractmethod
    def sandboxes(self) -> Iterable[Sandbox]: ...

    @abstractmethod
    def begin(self, order: O) -> None:
        """Starts work on an order, without blocking."""

    @abstractmethod
    def feed(self, sandbox: Sandbox, event: Event) -> R | None:
        """Takes an event of one of the sandboxes; the result, once it is there."""

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.close()


class Pool(Generic[W, O, R]):
    """Workers, and the orders that wait for one. A context manager.

    Subclasses say which order is next, what happens before a worker gets one, and at its end.
    """

    def __init__(self, workers: Iterable[W] = ()) -> None:
        self.workers = [*workers]
        self.urgent: deque[O] = deque()
        self.queue: deque[O] = deque()

    def next_order(self) -> O | None:
        """Urgent orders come first. None: there is nothing to do at the moment."""
        queue = self.urgent or self.queue
        return queue.popleft() if queue else None

    def prepare(self, worker: W) -> None:
        """Called for an idle worker before it gets an order; may give it one of the pool's own."""

    def ended(self, worker: W, order: O, result: R) -> None:
        """Called when an order has ended, and its worker is idle again."""

    def dispatch(self) -> None:
        """Hands orders to idle workers."""
        for worker in self.workers:
            if worker.order is None:
                self.prepare(worker)
            if worker.order is None:
                if (order := self.next_order()) is None:
                    return
                self.begin(worker, order)

    def begin(self, worker: W, order: O) -> None:
        worker.order = order
        worker.begin(order)

    def sandboxes(self) -> Iterator[Sandbox]:
        return (sandbox for worker in self.workers for sandbox in worker.sandboxes)

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was one of this pool."""
        worker = next((w for w in self.workers if sandbox in w.sandboxes), None)
        if worker is None:
            return False
        if worker.order is not None and (result := worker.feed(sandbox, event)) is not None:
            order, worker.order = worker.order, None
            self.ended(worker, order, result)
        return True

    @property
    def busy(self) -> bool:
        return bool(self.urgent or self.queue) or any(w.order is not None for w in self.workers)

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until something has happened in a worker, at most `timeout` seconds."""
        for sandbox, event in wait(self.sandboxes(), timeout):
            self.feed(sandbox, event)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()
