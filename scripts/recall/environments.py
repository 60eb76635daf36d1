"""The Python of a release of a system: an environment of its own, made if there is none."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import environment_of, folder, home_of
from scripts.recall.entries import FOLDER


def python_of(system: str, release: str) -> Path:
    """The interpreter that has the release; this one if the release is installed here.

    Raises: ReleaseError, RegistryError.
    """
    needs = _needs()
    if system not in needs:
        home = home_of(BackendRegistry.discover().get(system), release, _note)
        return Path(sys.executable) if home is None else Path(home.python)
    need = needs[system]
    if _installed(need["distribution"]) == release:
        return Path(sys.executable)
    bounds = sorted(need.get("older", {}), key=Version)
    bound = next((b for b in bounds if Version(release) < Version(b)), "")
    further = need["older"][bound] if bound else need["requires"]
    packages = (f"{need['distribution']}=={release}", *further)
    packages = tuple(need.get("exact", {}).get(release, packages))
    texts = tuple(text.format(release=release) for text in packages)
    modules = ("numpy", "onnx", *need["modules"])
    return environment_of(need["distribution"], release, texts, modules, _note).python


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _note(line: str) -> None:
    print(f"note: {line}", file=sys.stderr, flush=True)


def overlay(system: str, release: str) -> Path | None:
    """A folder with one package in a release, for PYTHONPATH; None where `-b SYSTEM@RELEASE` works.

    nnfuzz runs an optimiser in its own environment, so another release of it lies in front of the
    installed one. None as well if the release is the installed one. Raises: ReleaseError.
    """
    needs = _needs()
    if not as_overlay(system) or _installed(needs[system]["distribution"]) == release:
        return None
    place = folder() / "overlays" / f"{system}-{release}"
    if not place.exists():
        part = place.parent / f"{place.name}.part"
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(part)]
        subprocess.run([*pip, *_own_packages(needs[system], release)], check=True)
        part.rename(place)
    return place


def as_overlay(system: str) -> bool:
    """Whether releases of a system other than the installed one are overlays."""
    return system in _needs()


def _own_packages(need: Mapping[str, Any], release: str) -> list[str]:
    """What a release consists of, without what it needs of other packages."""
    usual = [f"{need['distribution']}=={release}", *need["requires"]]
    texts = need.get("exact", {}).get(release, usual)
    return [t.format(release=release) for t in texts if t.endswith(("=={release}", f"=={release}"))]


def _needs() -> dict[str, Any]:
    return tomllib.loads((FOLDER / "releases.toml").read_text())
