"""What a node of a cluster and the coordinator that lends it ranges of indexes tell each other.

Both messages say how things stand and not what has changed, so either may be lost or come twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Lease:
    """A range of indexes, of one epoch, from `first` up to `end`, which is excluded.

    ran: whether its holder has recorded all tests and told what they have shown.
    """

    first: int
    end: int
    ran: bool = False

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Report:
    """From a node. By first index: ran: ranges of which everybody can read what they have shown;
    kept: those whose rows and findings are published as well.

    wants: how many tests the ranges that it has not run shall have together. begun: the last epoch
    that it has decided, if it leads; -1 for none. claims: signatures of findings that it could
    reduce, with their clusters; reduced: those that it is done with. leaves: whether its session is
    over.
    found: signatures of findings that are new to it, with their titles.
    """

    node: str
    wants: int = 0
    ran: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    begun: int = -1
    claims: tuple[tuple[str, str], ...] = ()
    reduced: tuple[str, ...] = ()
    leaves: bool = False
    found: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Lent:
    """To a node. leases: all that it holds. leads: whether it decides the epochs. begun: the last
    epoch that is decided. told: the index below which it can be read what tests have shown.

    mine: of its claims, those that it may reduce; taken: those that somebody else has reduced.
    over: whether nothing is left to do. pace: seconds until the next report, if nothing happens.
    """

    leases: tuple[Lease, ...] = ()
    leads: bool = False
    begun: int = -1
    told: int = 0
    mine: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    over: bool = False
    pace: float = 0.0


class Reductions(Protocol):
    """Who of all nodes reduces what."""

    def may_reduce(self, signature: str, cluster: str) -> bool:
        """Whether nobody else does; asks for it where that is not known."""
        ...

    def reduced(self, signature: str) -> None:
        """Takes that a reduction is over."""
        ...


class Coordinator(Protocol):
    """Where a node reports to. It may be out of reach: then `sync` raises OSError."""

    def sync(self, report: Report) -> Lent: ...
