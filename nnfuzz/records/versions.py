"""Versions of compilers, and of the libraries that make test cases."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = ("nnfuzz", "torch", "onnx", "numpy", "z3-solver")


@dataclass(frozen=True)
class VersionsByBackend:
    """Versions of the compilers by backend, and of the libraries that make test cases."""

    backends: dict[str, dict[str, str]]
    libraries: dict[str, str]

    def flat(self) -> dict[str, str]:
        """By name; of a compiler in several releases, the others with their backend's label."""
        merged = dict(self.libraries)
        for label, of_backend in self.backends.items():
            for name, release in of_backend.items():
                same = merged.get(name, release) == release
                merged[name if same else f"{name} of {label}"] = release
        return merged


def library_versions() -> dict[str, str]:
    """Versions of Python and of the libraries that make test cases, by name."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _LIBRARIES}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
