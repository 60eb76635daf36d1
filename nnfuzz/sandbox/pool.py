"""Workers that carry out one order each, side by side: the one pool under all of nnfuzz's.

The owner of a pool calls `dispatch` to hand orders to idle workers, waits for events of
`sandboxes()`, and passes each of them to `feed`, which ends the order that it completes. Only
`wait` blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Self, TypeVar

from nnfuzz.sandbox.events import Event, Reply, Trouble
from nnfuzz.sandbox.sandbox import Sandbox, wait

Order = TypeVar("Order")
Result = TypeVar("Result")
AnyWorker = TypeVar("AnyWorker", bound="Worker[Any, Any]")
Ended = Reply[Any] | Trouble
"""The event that ends a job."""


class Worker(ABC, Generic[Order, Result]):
    """Carries out one order at a time, in one or several sandboxes. order: the one in hand."""

    order: Order | None = None

    @property
    @abstractmethod
    def sandboxes(self) -> Sequence[Sandbox]: ...

    @abstractmethod
    def begin(self, order: Order) -> None:
        """Starts work on an order, without blocking."""

    @abstractmethod
    def feed(self, event: Event) -> Result | None:
        """Takes an event of one of the sandboxes; returns the result once it is there."""

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.close()


class Pool(ABC, Generic[AnyWorker, Order, Result]):
    """Workers, and the orders that wait for one. A context manager.

    urgent: orders that go before those of the queue.
    """

    def __init__(self, workers: Iterable[AnyWorker] = ()) -> None:
        self.workers = [*workers]
        self.urgent: deque[Order] = deque()
        self.queue: deque[Order] = deque()

    def prepare(self, worker: AnyWorker) -> None:
        """Called for an idle worker before it gets an order; may give it one of the pool's own."""

    @abstractmethod
    def ended(self, worker: AnyWorker, order: Order, result: Result) -> None:
        """Called when an order has ended, and its worker is idle again."""

    def dispatch(self, more: Callable[[], Order | None] = lambda: None) -> None:
        """Hands orders to idle workers. more: asked where none waits; None if there is none."""
        for worker in self.workers:
            if worker.order is None:
                self.prepare(worker)
            if worker.order is None:
                waiting = self.urgent or self.queue
                if (order := waiting.popleft() if waiting else more()) is None:
                    return
                self.begin(worker, order)

    def begin(self, worker: AnyWorker, order: Order) -> None:
        worker.order = order
        worker.begin(order)

    def sandboxes(self) -> Iterator[Sandbox]:
        return (sandbox for worker in self.workers for sandbox in worker.sandboxes)

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was one of this pool."""
        worker = self.owner(sandbox)
        if worker is None:
            return False
        if worker.order is not None and (result := worker.feed(event)) is not None:
            order, worker.order = worker.order, None
            self.ended(worker, order, result)
        return True

    def owner(self, sandbox: Sandbox) -> AnyWorker | None:
        return next((worker for worker in self.workers if sandbox in worker.sandboxes), None)

    @property
    def busy(self) -> bool:
        return bool(self.urgent or self.queue) or any(w.order is not None for w in self.workers)

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until something happens in a worker, at most for `timeout` seconds."""
        for sandbox, event in wait(self.sandboxes(), timeout):
            self.feed(sandbox, event)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
