"""Releases of a compiler, each in a Python environment of its own in the user's cache folder.

An environment holds one release with the NumPy that it wants, and the libraries of every worker.
The adapter names the packages of a release (`Backend.distribution`, `older`); nnfuzz and the
adapter themselves are lent to it (`forkserver.Home`). It is made by uv, or by venv and pip; once it
is there, nothing is asked of the network.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs
from packaging.version import InvalidVersion, Version

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import RegistryError
from nnfuzz.base.programs import run_program
from nnfuzz.base.text import visible
from nnfuzz.sandbox.forkserver import Home

WORKER = ("numpy", "ml_dtypes>=0.5", "onnx>=1.19")
"""Packages that the workers of every backend import; the resolver chooses the NumPy."""
_LAST_WORDS = 600  # characters of an installer's output: its end names the cause
_DRAFT = ".part"


class ReleaseError(RegistryError):
    """There is no environment for a release, and none can be made; the message names the fix."""


@dataclass(frozen=True)
class Environment:
    """The environment of one release in the cache folder."""

    distribution: str
    release: str
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def folder() -> Path:
    """Where the environments are, a folder for each distribution."""
    return Path(platformdirs.user_cache_dir("nnfuzz")) / "environments"


def environments() -> list[Environment]:
    """The environments that exist, in order."""
    found = []
    for place in sorted(folder().glob("*/*-*")):
        release, _, digest = place.name.rpartition("-")
        if place.is_dir() and not digest.endswith(_DRAFT):
            found.append(Environment(place.parent.name, release, place))
    return found


def home_of(
    backend: type[Backend], release: str, note: Callable[[str], None] | None = None
) -> Home | None:
    """Where the workers of a release run; None for one that is installed here, and for "".

    The environment is made if there is none, which takes seconds to a minute; note is called then,
    by default on stderr. Raises: ReleaseError.
    """
    if not release or is_installed(backend, release):
        return None
    return Home(_environment(backend, release, note or _tell).python, _lent(backend))


def is_installed(backend: type[Backend], release: str) -> bool:
    """Whether a release is the one that is installed where this process runs."""
    try:
        here = importlib.metadata.version(backend.distribution)
        return Version(here) == Version(release)
    except (importlib.metadata.PackageNotFoundError, InvalidVersion, ValueError):
        return False


def known_release(backend: type[Backend]) -> str:
    """The installed release by the metadata of its packages; "" if they have none.

    The compiler is neither imported nor started, which would take seconds.
    """
    package = package_of(backend)
    return importlib.metadata.version(package) if package and _is_there(package) else ""


def package_of(backend: type[Backend]) -> str:
    """The distribution whose releases are those of a backend; "" if nobody knows it.

    It is that of the first preloaded library, or else the one that the adapter names: an optimiser
    inherits the latter from the compiler that runs its models.
    """
    library = "".join(backend.preload[:1]).partition(".")[0]
    for package in filter(None, (library, backend.distribution)):
        if _is_there(package):
            return package
    providers = importlib.metadata.packages_distributions().get(library, ())
    return providers[0] if providers else backend.distribution or library


def _is_there(package: str) -> bool:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(package))
    return False


def releases_of(backend: type[Backend]) -> list[str]:
    """The releases that the index has for this Python and machine, the oldest first, without
    prereleases. Raises: ReleaseError.
    """
    package = backend.distribution or backend.name
    command = [*(_pip() or [_uv() or "uv", "tool", "run", "pip"]), "index", "versions", package]
    listing, why = _run(command)
    found = re.search(r"^Available versions: (.+)$", listing, re.MULTILINE)
    if found is None:
        raise ReleaseError(
            f"the releases of {package} cannot be listed: {' '.join(command)} failed: {why}"
        )
    versions = sorted(map(_version, found.group(1).split(", ")))
    return [str(version) for version in versions if not version.is_prerelease]


def requirements(backend: type[Backend], release: str) -> tuple[str, ...]:
    """The requirements that an installer gets."""
    version = _version(release)
    further = (need for first, need in backend.older.items() if version < Version(first))
    return (f"{backend.distribution}=={release}", *WORKER, *further)


def _version(release: str) -> Version:
    """Raises: ReleaseError."""
    try:
        return Version(release)
    except InvalidVersion as error:
        raise ReleaseError(f"{release!r} is no release: write NAME@1.2.3") from error


def _environment(backend: type[Backend], release: str, note: Callable[[str], None]) -> Environment:
    if not backend.distribution:
        raise ReleaseError(f"backend {backend.name} does not say which distribution it is of")
    wanted = requirements(backend, release)
    return environment_of(backend.distribution, release, wanted, modules_of(backend), note)


def modules_of(backend: type[Backend]) -> tuple[str, ...]:
    """Modules that must be importable in the environment of a release."""
    return ("numpy", "ml_dtypes", "onnx", *backend.preload)


def environment_of(
    distribution: str,
    release: str,
    packages: tuple[str, ...],
    modules: tuple[str, ...],
    note: Callable[[str], None],
) -> Environment:
    """Makes the environment that holds some packages if there is none, and returns it.

    modules: those that must be importable there. Raises: ReleaseError.
    """
    machine = (*sys.version_info[:2], platform.machine())
    digest = hashlib.sha256(repr((packages, machine)).encode()).hexdigest()[:8]
    place = folder() / distribution / f"{release}-{digest}"
    environment = Environment(distribution, release, place)
    if not environment.python.exists():
        with _locked(place, note):
            if not environment.python.exists():  # nobody else has made it meanwhile
                _make(modules, environment, packages, note)
    return environment


@contextlib.contextmanager
def _locked(place: Path, note: Callable[[str], None]) -> Iterator[None]:
    """One process at a time makes an environment; the others wait for it. Raises: ReleaseError."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = (place.parent / f".{place.name}.lock").open("w")
    except OSError as error:
        raise ReleaseError(f"{place} cannot be made: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"another process makes the environment {place}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(
    modules: tuple[str, ...],
    wanted: Environment,
    packages: tuple[str, ...],
    note: Callable[[str], None],
) -> None:
    """Makes it under another name first, so that it is there complete or not at all.

    Raises: ReleaseError.
    """
    draft = wanted.folder.with_name(wanted.folder.name + _DRAFT)
    title = f"{wanted.distribution} {wanted.release}"
    note(f"making an environment for {title} in {wanted.folder}, once")
    start = time.monotonic()
    failure = ""
    for commands in _installers(draft, packages):
        shutil.rmtree(draft, ignore_errors=True)  # a killed process may have left one
        failure = _first_failure([*commands, _imports(draft, modules)])
        if not failure:
            shutil.rmtree(wanted.folder, ignore_errors=True)  # its Python is gone
            os.replace(draft, wanted.folder)
            note(f"{title} is there, after {time.monotonic() - start:.0f} s")
            return
    shutil.rmtree(draft, ignore_errors=True)
    raise ReleaseError(
        f"{title} cannot be installed for Python {platform.python_version()}. An environment "
        "needs the package index once, and a wheel for this Python and machine there (pip index "
        f"versions {wanted.distribution} lists releases). The installer's last words: {failure}"
    )


def _installers(draft: Path, packages: tuple[str, ...]) -> Iterator[list[list[str]]]:
    """Commands that make an environment, uv's first; no package is built from its source."""
    python, wheels = str(draft / "bin" / "python"), ["--only-binary", ":all:"]
    if uv := _uv():
        venv = [uv, "venv", "--quiet", "--python", sys.executable, str(draft)]
        yield [venv, [uv, "pip", "install", "--quiet", "--python", python, *wheels, *packages]]
    venv, install = (
        [sys.executable, "-m", "venv", str(draft)],
        ["install", "--quiet", "--no-compile", *wheels],
    )
    if pip := _pip():
        yield [[*venv, "--without-pip"], [*pip, "--python", python, *install, *packages]]
    else:
        yield [venv, [python, "-I", "-m", "pip", *install, *packages]]


def _pip() -> list[str]:
    """The command that runs this Python's pip; [] if it has none.

    Looked up in the metadata: setuptools hooks `find_spec("pip")`, which then complains of whatever
    has imported distutils, as PyTorch's compilers do.
    """
    try:
        importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return []
    return [sys.executable, "-m", "pip"]


def _uv() -> str | None:
    beside = str(Path(sys.executable).parent)
    return shutil.which("uv", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


def _imports(draft: Path, modules: tuple[str, ...]) -> list[str]:
    """A command that fails where one of the modules cannot be imported."""
    return [str(draft / "bin" / "python"), "-I", "-c", f"import {', '.join(modules)}"]


def _first_failure(commands: list[list[str]]) -> str:
    """Runs the commands up to one that fails; its last words, "" if none does."""
    return next((why for command in commands if (why := _run(command)[1])), "")


def _run(command: list[str]) -> tuple[str, str]:
    """The output of a command, and its last words if it fails."""
    try:
        done = run_program(command)
    except OSError as error:
        return "", f"{command[0]}: {error.strerror}"
    if not done.returncode:
        return done.stdout, ""
    last_words = (done.stderr.strip() or done.stdout.strip())[-_LAST_WORDS:]
    return "", visible(last_words) or f"{command[0]} ended with {done.returncode}"


def _lent(backend: type[Backend]) -> dict[str, str]:
    """Files of nnfuzz, of the packages that the adapter is in, and of its own module."""
    names, parts = ["nnfuzz"], backend.__module__.split(".")
    names += [".".join(parts[: i + 1]) for i in range(len(parts))]
    specs = ((name, importlib.util.find_spec(name)) for name in names)
    return {name: spec.origin for name, spec in specs if spec and spec.origin}


def _tell(line: str) -> None:
    print(f"note: {line}", file=sys.stderr, flush=True)
