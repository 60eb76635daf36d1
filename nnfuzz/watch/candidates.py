"""The releases of a system that a turn may be about: of the index, installed, or in a folder."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.releases import (
    ReleaseError,
    home_of,
    index_releases,
    known_release,
    lend_wheel,
    package_of,
    read_wheel_name,
)
from nnfuzz.base.text import one_line
from nnfuzz.base.untrusted import read_bytes
from nnfuzz.bugs.bug import newer, version_of
from nnfuzz.bugs.environments import Choose, Interpreters
from nnfuzz.watch.settings import Channel, SystemSettings

BUILD_SECONDS = 6 * 3600.0
"""Time limit of a command that builds."""
AGAIN_SECONDS = 24 * 3600.0
"""Until a release that could not be installed is tried again."""
_LAST_WORDS = 300  # characters of a command's output


@dataclass(frozen=True)
class Candidate:
    """One release. id: by which it is remembered. release: its version. choose: where scripts run.
    prepare: makes the environment of a campaign, and returns its release as for --backend NAME@;
    it raises ReleaseError. fuzzed: where the scripts of that campaign's bugs run.
    """

    id: str
    release: str
    choose: Choose
    prepare: Callable[[], str]
    fuzzed: Choose


@dataclass
class Candidates:
    """Finds the releases of one system.

    An optimiser whose models another compiler runs has releases on which scripts run; campaigns
    have the one that is installed, since the environment of a worker has the other compiler's.

    failed: when releases could not be installed, by id, in seconds of a clock that only grows.
    is_offline: whether the index did not answer when it was asked last.
    """

    settings: SystemSettings
    backend: type[Backend]
    interpreters: Interpreters
    note: Callable[[str], None]
    failed: dict[str, float] = field(default_factory=dict)
    is_offline: bool = False

    @property
    def package(self) -> str:
        """The package whose releases count."""
        return package_of(self.backend)

    @property
    def _has_environments(self) -> bool:
        """Whether campaigns can run on any release."""
        return canonicalize_name(self.backend.distribution) == canonicalize_name(self.package)

    def next(self, checked: Collection[str], first: str = "") -> Candidate | None:
        """The oldest release that was not checked yet, or else the newest; None for none.

        first: identity of the one that is taken before all others, if it is there.
        """
        now = time.monotonic()
        tried = {id for id, at in self.failed.items() if now - at < AGAIN_SECONDS}
        usable = [candidate for candidate in self.listed() if candidate.id not in tried]
        wanted = [c for c in usable if c.id == first] + [c for c in usable if c.id not in checked]
        return next(iter((*wanted, *usable[-1:])), None)

    def listed(self) -> list[Candidate]:
        """The releases of the channel, the oldest first."""
        match self.settings.channel:
            case Channel.WHEELS:
                return self._admitted(self._wheels())
            case Channel.INDEX | Channel.PRERELEASES:
                return self._admitted(self._released()) or self._installed()
        return self._installed()

    def _admitted(self, candidates: list[Candidate]) -> list[Candidate]:
        """Those that the settings admit."""
        if not self.settings.first:  # the newest alone
            return candidates[-1:]
        return [c for c in candidates if not newer(self.settings.first, c.release)]

    def _released(self) -> list[Candidate]:
        prereleases = self.settings.channel is Channel.PRERELEASES
        try:
            releases = index_releases(self.package, prereleases)
        except ReleaseError as error:
            if not self.is_offline:
                self.note(f"{one_line(error)}; going on with what is installed")
            self.is_offline = True
            return []
        self.is_offline = False
        return [self._release(release) for release in releases]

    def _release(self, release: str) -> Candidate:
        def prepare() -> str:
            self.interpreters.failed.clear()  # a release that failed once is tried on purpose
            home_of(self.backend, release, self.note)
            return release

        return self._candidate(release, release, self.interpreters.of_release(release), prepare)

    def _candidate(
        self, id: str, release: str, choose: Choose, prepare: Callable[[], str]
    ) -> Candidate:
        if self._has_environments:
            return Candidate(id, release, choose, prepare, choose)
        return Candidate(id, release, choose, lambda: "", self.interpreters.installed)

    def _installed(self) -> list[Candidate]:
        release = known_release(self.backend).partition("+")[0]
        if version_of(release) is None:
            return []
        here = self.interpreters.installed
        return [Candidate(release, release, here, lambda: "", here)]

    def _wheels(self) -> list[Candidate]:
        self._build()
        package = canonicalize_name(self.package)
        named = []
        for file in Path(self.settings.wheels).glob("*.whl"):
            try:
                of, version = read_wheel_name(file)
            except ReleaseError as error:
                self.note(one_line(error))
                continue
            if of == package:
                named.append((version, file.stat().st_mtime, file))
        return [self._wheel(file, str(version)) for version, _, file in sorted(named)]

    def _wheel(self, file: Path, version: str) -> Candidate:
        digest = hashlib.sha256(read_bytes(file)).hexdigest()[:8]

        def prepare() -> str:
            self.interpreters.failed.clear()
            return lend_wheel(self.backend, file, self.note)

        choose = self.interpreters.of_wheel(file)
        return self._candidate(f"{version} {digest}", version, choose, prepare)

    def _build(self) -> None:
        """Runs the command that puts a wheel into the folder; the log gets its last words."""
        if not self.settings.build:
            return
        self.note(f"building: {self.settings.build}")
        try:
            done = subprocess.run(
                ["sh", "-c", self.settings.build],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=BUILD_SECONDS,
            )
        except subprocess.TimeoutExpired:
            self.note(f"the build has no end within {BUILD_SECONDS / 3600:.0f} hours")
            return
        if done.returncode:
            last_words = one_line(done.stderr.strip() or done.stdout.strip())[-_LAST_WORDS:]
            self.note(f"the build ended with {done.returncode}, going on without it: {last_words}")
