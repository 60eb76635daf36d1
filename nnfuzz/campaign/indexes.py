"""The indexes of a campaign that are still to be tested."""

from __future__ import annotations

from collections.abc import Callable

from nnfuzz.base.shard import Shard


class Indexes:
    """The indexes of a campaign, or of one of its parts, from the lowest on.

    limit: of the indexes; None: no end. done: whether an earlier session has run one. part: beyond
    which there are none. next: the first one that was neither handed out nor done earlier.
    """

    def __init__(
        self,
        limit: int | None,
        done: Callable[[int], bool],
        part: Shard = Shard(),  # noqa: B008
    ) -> None:
        self._limit = limit
        self._done = done
        self._part = part
        self.next = -1
        self.take()

    @property
    def left(self) -> bool:
        """Whether there is a further index."""
        return self._limit is None or self.next < self._limit

    def take(self) -> int:
        """Hands out the next index, which there has to be."""
        taken = self.next
        self.next += 1
        while self._done(self.next) or not self._part.owns(self.next):
            self.next += 1
        return taken
