"""The Python of a release of a system: an environment of its own, made if there is none."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import environment_of, folder, home_of
from scripts.recall.entries import FOLDER


def python_of(system: str, release: str) -> Path:
    """The interpreter that has the release; this one if the release is installed here.

    Raises: ReleaseError, RegistryError.
    """
    needs = tomllib.loads((FOLDER / "releases.toml").read_text())
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
    needs = tomllib.loads((FOLDER / "releases.toml").read_text())
    if system not in needs or _installed(needs[system]["distribution"]) == release:
        return None
    place = folder() / "overlays" / f"{system}-{release}"
    if not place.exists():
        part = place.with_suffix(".part")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(part)]
        subprocess.run([*pip, f"{needs[system]['distribution']}=={release}"], check=True)
        part.rename(place)
    return place
