"""A package index in a folder, with releases of a tiny compiler: no test asks the network."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

HERE = str(Path(np.__file__).parents[1])
"""In a .pth file of a wheel, it lets environments have the libraries of this process."""
ADAPTER = Path(__file__).parent / "released_backend.py"


def make_index(folder: Path) -> None:
    """Wheels of releases 1.0 (wrong) and 2.0 of `toyrel`, 3.0 (which is broken), and stand-ins for
    what workers import, which they find where this process has it.
    """
    make_libraries(folder)
    releases = {
        "1.0": "WRONG, NEWEST_OPSET = 1, 18",
        "2.0": "WRONG, NEWEST_OPSET = 0, 99",
        "3.0": "1 / 0",
    }
    for release, code in releases.items():
        text = f"RELEASE = {release!r}\n{code}\n"
        wheel(folder, "toyrel", release, {"toyrel.py": text, "toyrel_libraries.pth": HERE})


def make_libraries(folder: Path) -> None:
    """Stand-ins for what workers import."""
    folder.mkdir()
    for name in ("numpy", "ml_dtypes", "onnx"):
        wheel(folder, name, "99.0", {})


def wheel(folder: Path, name: str, release: str, files: dict[str, str]) -> None:
    """Writes a wheel of pure Python with these files."""
    info = f"{name}-{release}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{release}-py3-none-any.whl", "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)


def use_index(patch, index: Path, cache: Path) -> None:
    """Has installers look there and nowhere else, and environments made in `cache`."""
    patch.setenv("PIP_CONFIG_FILE", "/dev/null")
    patch.setenv("PIP_NO_INDEX", "1")
    patch.setenv("PIP_FIND_LINKS", str(index))
    patch.setenv("UV_NO_CONFIG", "1")
    patch.setenv("UV_NO_INDEX", "1")
    patch.setenv("UV_OFFLINE", "1")
    patch.setenv("UV_FIND_LINKS", str(index))
    patch.setenv("UV_CACHE_DIR", str(index.parent / "uv"))  # what it keeps is no environment
    patch.setenv("XDG_CACHE_HOME", str(cache))
