"""Workers that carry out one order each, side by side.

The owner of a pool calls `dispatch` to hand orders to idle workers, and `wait`, which alone blocks
and ends the orders that are completed meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Self, TypeVar

from nnfuzz.sandbox.events import Event, Progress, Reply, Trouble
from nnfuzz.sandbox.sandbox import Sandbox, wait

Order = TypeVar("Order")
AnyWorker = TypeVar("AnyWorker", bound="Worker[Any]")
Ended = Reply[Any] | Trouble
"""The event that ends a job."""


class Worker(ABC, Generic[Order]):
    """Carries out one order at a time in a sandbox. order: the one in hand."""

    order: Order | None = None

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    @abstractmethod
    def begin(self, order: Order) -> None:
        """Starts work on an order, without blocking."""

    def progress(self, part: Any) -> None:
        """Takes a part of the answer that is sent ahead."""


class Pool(ABC, Generic[AnyWorker, Order]):
    """Workers, and the orders that they have in hand. A context manager."""

    def __init__(self, workers: Iterable[AnyWorker] = ()) -> None:
        self.workers = [*workers]

    def prepare(self, worker: AnyWorker) -> None:
        """Called for an idle worker before it gets an order; may give it one of the pool's own."""

    @abstractmethod
    def ended(self, worker: AnyWorker, order: Order, result: Ended) -> None:
        """Called when an order has ended, and its worker is idle again."""

    def dispatch(self, more: Callable[[AnyWorker], Order | None]) -> None:
        """Hands orders to idle workers. more: the next one for a worker; None if there is none."""
        for worker in self.workers:
            if worker.order is None:
                self.prepare(worker)
            if worker.order is None and (order := more(worker)) is not None:
                self.begin(worker, order)

    def begin(self, worker: AnyWorker, order: Order) -> None:
        worker.order = order
        worker.begin(order)

    def wait(self, timeout: float | None = None) -> None:
        """Blocks until something happens in a worker, at most for `timeout` seconds."""
        owners = {worker.sandbox: worker for worker in self.workers}
        for sandbox, event in wait(owners, timeout):
            self.feed(owners[sandbox], event)

    def feed(self, worker: AnyWorker, event: Event) -> None:
        """Takes an event of a worker."""
        order = worker.order
        if order is None:
            return
        if isinstance(event, Progress):
            worker.progress(event.value)
        else:
            worker.order = None
            self.ended(worker, order, event)

    def close(self) -> None:
        for worker in self.workers:
            worker.sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
