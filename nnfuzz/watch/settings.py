"""The settings of a watch, as the table [watch] of nnfuzz.toml has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from nnfuzz.base.reading import Json


class Channel(StrEnum):
    """Where the releases of a system come from. WHEELS: a folder with wheels of one's own."""

    INDEX = "index"
    PRERELEASES = "prereleases"
    INSTALLED = "installed"
    WHEELS = "wheels"

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Raises: ValueError that names the channels that there are."""
        raise ValueError(f"{value!r} is none of {', '.join(cls)}")


@dataclass(frozen=True, kw_only=True)
class SystemSettings:
    """One compiler that is watched.

    backend: as for --backend, without a release. first: the oldest release that is looked at; ""
    for the newest one that there is. wheels: the folder of the channel. build: a command that puts
    a wheel into it. tests, time: of the campaign of one turn, in seconds; 0 for no limit of
    that kind. bisect: whether it is looked up with which release a new bug came.
    """

    backend: str
    channel: Channel = Channel.INDEX
    first: str = ""
    wheels: str = ""
    build: str = ""
    tests: int = 0
    time: float = 0.0
    bisect: bool = True

    def __post_init__(self) -> None:
        """Raises: ValueError with the fix."""
        if (self.channel is Channel.WHEELS) != bool(self.wheels):
            raise ValueError('channel = "wheels" and wheels = "FOLDER" go together')
        if self.build and not self.wheels:
            raise ValueError("build needs wheels: the folder into which the command puts a wheel")
        if "@" in self.backend:
            raise ValueError(f"backend {self.backend!r} names a release, which the channel does")
        if not (self.tests or self.time):
            raise ValueError("a turn needs an end: tests or time")

    @property
    def system(self) -> str:
        """The name of the backend, without options."""
        return self.backend.partition(",")[0]

    def at_release(self, release: str) -> str:
        """The backend of a release, as for --backend."""
        name, comma, options = self.backend.partition(",")
        return f"{name}@{release}{comma}{options}" if release else self.backend


@dataclass(frozen=True, kw_only=True)
class WatchSettings:
    """The settings of a watch.

    publish: folder of the dashboard; None for none. address: at which that is. announce: a command
    that gets new events as JSON. work: folder for campaigns, which are removed when their bugs are
    in the ledger. pause: seconds between two rounds. fuzz: settings of the campaigns, as
    nnfuzz.library.campaign.Request has them.
    """

    systems: Mapping[str, SystemSettings]
    ledger: Path = Path("bugs")
    publish: Path | None = None
    address: str = ""
    announce: str = ""
    work: Path = Path("nnfuzz-out/watch")
    pause: float = 0.0
    plugins: tuple[Path, ...] = ()
    fuzz: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises: ValueError with the fix."""
        if not self.systems:
            raise ValueError("there is nothing to watch: add a table [watch.systems.NAME]")
