"""The files that plug-ins consist of, so that a finding's folder can take them along."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.registry import plugin_name
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_bytes

MAX_BYTES = 1 << 20
"""The largest file that is copied; an adapter of 1,000 lines has 40 kB."""
_ENGINE = __name__.partition(".")[0]


@dataclass(frozen=True)
class PluginFiles:
    """The files that a folder needs so that plug-ins work from there.

    names: how the folder calls each plug-in: by the name of a file in it, the whole path of a file
    that stays where it is, or the name of a module. files: contents by name. modules: those that
    Python has to find by itself, because they are packages or no Python source.
    """

    names: Mapping[str, str]
    files: Mapping[str, bytes]
    modules: tuple[str, ...] = ()


NONE = PluginFiles({}, {})


def plugin_files(plugins: Iterable[str], taken: Iterable[str] = ()) -> PluginFiles:
    """The source of plug-ins, and of the modules of their author that they import.

    taken: names of files that the folder has for something else.
    """
    names: dict[str, str] = {}
    files: dict[str, bytes] = {}
    modules: dict[str, None] = {}
    for plugin in dict.fromkeys(plugins):
        file = _source(plugin)
        if file is None:
            names[plugin] = plugin
            modules[plugin] = None
        elif file.name in {*taken, *files} or not _add(file, files, modules):
            names[plugin] = str(file) if file.is_file() else file.name
        else:
            names[plugin] = file.name
    return PluginFiles(names, files, tuple(modules))


def namesake(plugins: Iterable[str]) -> Callable[[str], str]:
    """From a plug-in to that one of `plugins` which has the same name, wherever it lies; "" if none
    has. A file and a module of one name are the same, for a finding has modules as files.
    """
    known = {_stem(plugin): plugin for plugin in plugins}
    return lambda plugin: known.get(_stem(plugin), "")


def _stem(plugin: str) -> str:
    return Path(plugin).name.removesuffix(".py")


def _source(plugin: str) -> Path | None:
    """The one source file of a plug-in; None for a module that is installed or a package."""
    if Path(plugin_name(plugin)).is_absolute():
        return Path(plugin_name(plugin))
    origin = _origin(plugin)
    return origin if origin and _is_single(origin) else None


def _add(file: Path, files: dict[str, bytes], modules: dict[str, None]) -> bool:
    """Adds a file and its imports, if it hides no installed module on the path."""
    if (other := _origin(file.stem)) and other != file and _is_installed(other):
        return False
    try:
        data = files[file.name] = read_bytes(file, MAX_BYTES)
    except Unreadable:
        return False
    for name in _imported(data):
        origin = _origin(name) or _beside(file, name)
        if origin is None or f"{name}.py" in files or _is_installed(origin):
            continue
        if not _is_single(origin) or not _add(origin, files, modules):
            modules[name] = None
    return True


def _imported(source: bytes) -> Iterator[str]:
    """Names of the top-level modules that a program imports; none if it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _origin(module: str) -> Path | None:
    """The file of a top-level module that Python finds; none is imported."""
    if "." in module or module in sys.builtin_module_names:
        return None
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).resolve() if spec and spec.has_location and spec.origin else None


def _beside(file: Path, module: str) -> Path | None:
    """The file of a module that lies in the folder of another file."""
    places = (file.with_name(f"{module}.py"), file.parent / module / "__init__.py")
    return next((place for place in places if place.is_file()), None)


def _is_installed(origin: Path) -> bool:
    name = origin.parent.name if origin.name == "__init__.py" else origin.stem
    if name in (_ENGINE, *sys.stdlib_module_names):
        return True
    return any(origin.is_relative_to(folder) for folder in _folders_of_packages())


def _folders_of_packages() -> list[Path]:
    """The folders of installed packages, whichever environment they belong to: one environment may
    use the packages of another, as with `python -m venv --system-site-packages`.
    """
    folders = map(Path, filter(None, sys.path))
    return [f.resolve() for f in folders if f.is_dir() and any(f.glob("*.dist-info"))]


def _is_single(origin: Path) -> bool:
    """Whether a module is one file of source that somebody wrote for this program."""
    return origin.suffix == ".py" and origin.name != "__init__.py" and not _is_installed(origin)
