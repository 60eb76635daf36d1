"""Messages between a node of a campaign and the coordinator that lends it ranges of indexes.

Both messages describe a state and not a change, so either may be lost or arrive twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEAST, MOST = 4, 1024
"""Fewest and most tests in a range (fewer at the end of an epoch). MOST is about half a minute of
work for two cores."""
RANGES_PER_NODE = 2
"""Ranges of an epoch for each node, so that the last ones end at about the same time."""


def range_size(tests: int, nodes: int) -> int:
    """Number of tests in a range of an epoch that has so many tests."""
    return max(LEAST, min(MOST, tests // (RANGES_PER_NODE * max(1, nodes))))


@dataclass(frozen=True)
class Lease:
    """A range of indexes of one epoch, from `first` up to `end`, which is excluded.

    ran: whether all its tests are recorded and their observations are published.
    """

    first: int
    end: int
    ran: bool = False

    def __len__(self) -> int:
        return self.end - self.first

    @property
    def name(self) -> str:
        return f"{self.first}-{self.end}"


@dataclass(frozen=True)
class NodeReport:
    """The state of a node. Ranges are named by their first index.

    wants: number of tests that its ranges without results shall have in sum. ran: ranges whose
    observations are published. kept: ranges whose rows and findings are published as well. begun:
    the last epoch that it has decided as the leader; -1 for none. claims: signatures of findings
    that it could reduce, each with its cluster. reduced: signatures whose reduction is over.
    leaves: whether its session ends. found: signatures and titles of its new findings.
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
    """The answer to a report.

    leases: all ranges that the node holds. leads: whether it decides the epochs. begun: the last
    decided epoch. observed: the observations of all tests below this index are published. mine:
    claimed signatures that this node reduces. taken: claimed signatures that another node has
    reduced. over: whether nothing is left to do. pace: seconds until the next report, if nothing
    happens.
    """

    leases: tuple[Lease, ...] = ()
    leads: bool = False
    begun: int = -1
    observed: int = 0
    mine: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    over: bool = False
    pace: float = 0.0


class Reductions(Protocol):
    """Decides which node reduces which finding."""

    def may_reduce(self, signature: str, cluster: str) -> bool:
        """Whether this node reduces the finding; claims it if no node does as far as is known."""
        ...

    def reduced(self, signature: str) -> None:
        """Reports the end of a reduction."""
        ...


class Coordinator(Protocol):
    """Lends ranges to nodes."""

    def sync(self, report: NodeReport) -> Lent:
        """Raises: OSError, Unreadable if the coordinator cannot be reached for now."""
        ...
