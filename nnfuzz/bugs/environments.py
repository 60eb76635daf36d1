"""Where scripts of bugs run: the installed compiler, a release, a wheel, a nightly,
another Python.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from packaging.utils import canonicalize_name
from packaging.version import Version

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.backend.releases import (
    WORKER,
    ReleaseError,
    environment_of,
    home_of,
    index_releases,
    lend_wheel,
    package_of,
    read_wheel_name,
    requirements,
)
from nnfuzz.base.programs import run_program
from nnfuzz.base.untrusted import read_bytes
from nnfuzz.bugs.bug import Bug

SECONDS = 60.0
"""Seconds for another Python to print its release."""
_ASK = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


T = TypeVar("T")


@dataclass(frozen=True)
class Interpreter:
    """An interpreter, and the release of the bug's package there; "" if it is not there."""

    python: str
    release: str


Choose = Callable[[Bug], Interpreter]
"""Where the script of a bug runs. Raises: ReleaseError."""


@dataclass(frozen=True)
class Interpreters:
    """Finds and makes the environments for the scripts of bugs. note: of what takes long.

    failed: environments that could not be made, with the reason; each is tried once.
    """

    registry: BackendRegistry
    note: Callable[[str], None]
    failed: dict[tuple[str, ...], ReleaseError] = field(default_factory=dict)

    def package(self, bug: Bug) -> str:
        """The package whose releases count for a bug: its own, or else that of its backend."""
        if bug.package:
            return bug.package
        try:
            return package_of(self.registry.get(bug.system)) or bug.system
        except RegistryError:
            return bug.system

    def releases(self, bug: Bug) -> list[str]:
        """The releases of a bug's package, the oldest first. Raises: ReleaseError."""
        return index_releases(self.package(bug))

    def installed(self, bug: Bug) -> Interpreter:
        return self.of_python(sys.executable)(bug)

    def of_python(self, python: str) -> Choose:
        """Another interpreter, with whatever release is there."""

        def choose(bug: Bug) -> Interpreter:
            try:
                done = run_program([python, "-c", _ASK, self.package(bug)], timeout=SECONDS)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise ReleaseError(f"--python {python} cannot be run: {error}") from error
            release = done.stdout.strip().partition("+")[0]  # "+cpu" names no other release
            return Interpreter(python, release if not done.returncode else "")

        return choose

    def of_release(self, release: str) -> Choose:
        """A release in an environment of its own, which is made if there is none."""

        def choose(bug: Bug) -> Interpreter:
            package, backend = self.package(bug), self._backend(bug)
            if self.installed(bug).release == release:
                return Interpreter(sys.executable, release)
            packages: tuple[str, ...] = (f"{package}=={release}", *WORKER)
            if backend is not None and backend.distribution == package:
                if not bug.needs:
                    home = self._once(
                        (package, release), lambda: home_of(backend, release, self.note)
                    )
                    return Interpreter(str(home.python) if home else sys.executable, release)
                packages = requirements(backend, release)
            packages = (*packages, *bug.needs)
            return self._made(package, release, packages, release)

        return choose

    def of_wheel(self, wheel: Path) -> Choose:
        """The compiler in a wheel, in an environment that is made anew for another wheel."""
        package, version = read_wheel_name(wheel)
        digest = hashlib.sha256(read_bytes(wheel)).hexdigest()[:8]

        def choose(bug: Bug) -> Interpreter:
            own = self.package(bug)
            if canonicalize_name(own) != package:
                raise ReleaseError(f"{wheel.name} is a wheel of {package}, not of {own}")
            backend = self._backend(bug)
            if backend is not None and backend.distribution == own and not bug.needs:
                lent = self._once((own, digest), lambda: lend_wheel(backend, wheel, self.note))
                home = home_of(backend, lent, self.note)
                return Interpreter(str(home.python) if home else sys.executable, str(version))
            packages = (str(wheel.resolve()), *WORKER, *bug.needs)
            return self._made(own, f"{version}_{digest}", packages, str(version))

        return choose

    def newest(self, bug: Bug) -> Interpreter:
        """The newest release of the index, prereleases among them."""
        releases = index_releases(self.package(bug), prereleases=True)
        if not Version(releases[-1]).is_prerelease:
            self.note(
                f"the index has no prerelease of {self.package(bug)} behind {releases[-1]}, which "
                "is taken (--wheel takes a nightly of your own)"
            )
        return self.of_release(releases[-1])(bug)

    def _backend(self, bug: Bug) -> type[Backend] | None:
        names = self.registry.names()
        return self.registry.get(bug.system) if bug.system in names else None

    def _made(
        self, package: str, name: str, packages: tuple[str, ...], release: str
    ) -> Interpreter:
        modules = ("numpy", "onnx")
        made = self._once(
            packages, lambda: environment_of(package, name, packages, modules, self.note)
        )
        return Interpreter(str(made.python), release)

    def _once(self, packages: tuple[str, ...], make: Callable[[], T]) -> T:
        """The result of `make`. Raises: ReleaseError, at once if it did so before."""
        if packages in self.failed:
            raise self.failed[packages]
        try:
            return make()
        except ReleaseError as error:
            self.failed[packages] = error
            raise
