"""Which backends there are: entry points, plug-in files, and their specifications.

`plugin_files` lists the files of plug-ins that a finding's folder takes along.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from nnfuzz.backend.contract import Backend, OptionError, suggest
from nnfuzz.base.code_paths import PLUGIN
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import read_bytes

GROUPS = ("nnfuzz.backends", "nnfuzz.transforms")
_MARK = "__nnfuzz_backend__"
_RELEASE = re.compile(r"\d[\w.!+]*", re.ASCII)
"""Versions of Python packages; nothing that a shell or an installer could take for more."""


class RegistryError(Unreadable):
    """An unknown, duplicate or unusable backend."""


def backend(cls: type[Backend]) -> type[Backend]:
    """Marks a class of a plug-in file; without any mark all are taken but abstract bases."""
    setattr(cls, _MARK, cls.__qualname__)
    return cls


@dataclass(frozen=True)
class BackendSpec:
    """Everything that another process needs to make the same backend; holds JSON values only.

    label: distinguishes it among the backends of a campaign; the name by default; see `labelled`.
    release: of the compiler, which runs in an environment of its own unless it is the one that is
    installed (nnfuzz.backend.releases); "" for whatever is installed.
    """

    name: str
    options: dict[str, object] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    label: str = field(default="", compare=False)
    release: str = ""

    def __post_init__(self) -> None:
        """Raises: OptionError for a release that can be none."""
        object.__setattr__(self, "label", self.label or self.name)
        if self.release and not _RELEASE.fullmatch(self.release):
            raise OptionError(f"{self.release!r} is no release: write NAME@1.2.3")

    def __str__(self) -> str:
        name = f"{self.name}@{self.release}" if self.release else self.name
        return ",".join([name, *(f"{key}={value}" for key, value in self.options.items())])

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> BackendSpec:
        """Reads a backend from a file; every stand-alone repro.py calls it. Raises: Unreadable."""
        return read(cls, data)

    def load(self, adapter: str = "") -> Backend:
        """Makes the backend, in any process. Raises: RegistryError, OptionError.

        adapter: its class as `address` writes it; entry points are then not looked for, which takes
        10 ms, nor are other plug-ins imported, which may lack what they import.
        """
        if not adapter:
            return BackendRegistry.discover(self.plugins).get(self.name)(**self.options)
        module, _, name = adapter.partition(":")
        for path in self.plugins:
            if plugin_module(path) == module:
                import_plugin(path)
        adapter_class: type[Backend] = getattr(importlib.import_module(module), name)
        return adapter_class(**self.options)


def address(cls: type[Backend]) -> str:
    """Where a backend's class is found, as "module:name"; "" if only its registry knows."""
    module, name = cls.__module__, cls.__qualname__
    known = getattr(sys.modules.get(module), name, None) is cls
    return f"{module}:{name}" if known else ""


def labelled(specs: Sequence[BackendSpec]) -> tuple[BackendSpec, ...]:
    """The specifications, each with a label of its own: the name, and where several share it the
    release and the options that not all of them have.
    """
    result = []
    for spec in specs:
        same_name = [other for other in specs if other.name == spec.name]
        own = {
            key: value
            for key, value in spec.options.items()
            if any(other.options.get(key) != value for other in same_name)
        }
        release = spec.release if any(o.release != spec.release for o in same_name) else ""
        result.append(replace(spec, label=str(BackendSpec(spec.name, own, release=release))))
    return tuple(result)


@dataclass(frozen=True)
class _Entry:
    source: str
    load: Callable[[], type[Backend]]


class BackendRegistry:
    """Backends by name. A backend's module is imported when it is asked for, no sooner."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._plugins: list[str] = []

    @classmethod
    def discover(cls, plugins: Iterable[str | Path] = ()) -> BackendRegistry:
        """All backends of installed packages and of the given plug-ins. Raises: RegistryError."""
        registry = cls()
        for point in (point for group in GROUPS for point in entry_points(group=group)):
            with contextlib.suppress(
                RegistryError
            ):  # the first plug-in that claimed the name keeps it
                registry._add(point.name, f"entry point {point.value}", point.load)
        for path in plugins:
            registry.add_plugin(path)
        return registry

    def add_plugin(self, path: str | Path) -> None:
        """Imports a plug-in, unless that was done already, and adds the backends that it defines.

        Raises: RegistryError if it cannot be imported, a name is taken, or a backend lacks what
        it must have. A plug-in without any backend is fine: it may hold operator specs.
        """
        if (name := plugin_name(path)) in self._plugins:
            return
        module = import_plugin(path)
        for cls in _backends_of(module):
            source = f"plug-in {path}"
            self._add(checked_class(cls, source).name, source, _loaded(cls))
        self._plugins.append(name)

    def names(self) -> list[str]:
        return sorted(self._entries)

    def source(self, name: str) -> str:
        """Where the backend comes from, for messages."""
        return self._entry(name).source

    def get(self, name: str) -> type[Backend]:
        """The backend's class. Raises: RegistryError, which lists the known names."""
        entry = self._entry(name)
        try:
            cls = entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise RegistryError(
                f"backend {name} ({entry.source}) cannot be loaded: {error!r}"
            ) from error
        if not (isinstance(cls, type) and issubclass(cls, Backend)):
            raise RegistryError(f"backend {name} ({entry.source}) is not a Backend subclass")
        return checked_class(cls, entry.source)

    def usable(self, note: Callable[[str], None] = lambda line: None) -> list[str]:
        """The names of the backends whose libraries are here, too.

        note: gets a line for each that is broken, so that nobody can use it.
        """
        found = []
        for name in self.names():
            try:
                found += [name] if self.get(name).missing() is None else []
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                broken = isinstance(error, RegistryError)
                note(str(error) if broken else f"backend {name} is broken: {error!r}")
        return found

    def spec(
        self, name: str, options: dict[str, Any] | None = None, release: str = ""
    ) -> BackendSpec:
        """A checked specification. Raises: RegistryError, OptionError."""
        backend = self.get(name)
        backend.parse_options(options or {})
        if release and not backend.distribution:
            raise OptionError(f"backend {name} does not say which distribution its releases are of")
        return BackendSpec(name, dict(options or {}), tuple(self._plugins), release=release)

    def parse(self, text: str) -> BackendSpec:
        """ "tvm@0.26.0,target=llvm,timeout=20" -> specification.

        Raises: RegistryError, OptionError.
        """
        name, *pairs = (part.strip() for part in text.split(","))
        name, _, release = name.partition("@")
        if (own := name.partition("/"))[0] in self._entries and own[1]:
            raise OptionError(f"no backend is named {name!r}: write {own[0]} and --level {own[2]}")
        options: dict[str, str] = {}
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals:
                other = f": another backend takes another -b {pair}" * (pair in self._entries)
                raise OptionError(f"backend {name}: expected key=value, not {pair!r}{other}")
            if key in options:
                raise OptionError(f"backend {name}: option {key} is given twice")
            options[key] = value
        return self.spec(name, options, release)

    def _entry(self, name: str) -> _Entry:
        if name not in self._entries:
            raise RegistryError(
                f"there is no backend {name!r}; {suggest(name, self._entries)}. "
                "A backend in a file of your own is added with --plugin FILE.py"
            )
        return self._entries[name]

    def _add(self, name: str, source: str, load: Callable[[], type[Backend]]) -> None:
        if name in self._entries:
            raise RegistryError(
                f"backend {name!r} is defined twice: by {self._entries[name].source} "
                f"and by {source}; rename one of them"
            )
        self._entries[name] = _Entry(source, load)


def checked_class(cls: type[Backend], source: str) -> type[Backend]:
    """The class. Raises: RegistryError, which names the members that it lacks."""
    absent = [name for name in ("name", "levels") if not hasattr(cls, name)]
    absent += [f"{name}()" for name in sorted(cls.__abstractmethods__)]
    if absent:
        raise RegistryError(f"backend {cls.__qualname__} ({source}) lacks {', '.join(absent)}")
    return cls


def _loaded(cls: type[Backend]) -> Callable[[], type[Backend]]:
    return lambda: cls


def plugin_name(path: str | Path) -> str:
    """The name of a plug-in in other processes: the whole path of a file, the name of a module."""
    return str(path) if _is_module(path) else str(Path(path).resolve())


def plugin_module(path: str | Path) -> str:
    """The name under which a plug-in is imported."""
    if _is_module(path):
        return str(path)
    file = Path(path).resolve()
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    return f"{PLUGIN}{file.stem}_{digest}"


def _is_module(path: str | Path) -> bool:
    parts = str(path).split(".")
    return parts[-1] != "py" and all(map(str.isidentifier, parts)) and not Path(path).exists()


def import_plugin(path: str | Path) -> ModuleType:
    """Imports a Python file under a name made of its path, or a module by its name such as
    "my_package.backends"; once per process. A file may import modules that lie beside it.

    Raises: RegistryError if there is none or it fails.
    """
    if _is_module(path):
        try:
            return importlib.import_module(str(path))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"
            raise RegistryError(f"plug-in {path} cannot be imported: {why}") from error
    file = Path(path).resolve()
    if not file.is_file():
        raise RegistryError(f"plug-in {path}: no such file")
    name = plugin_module(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RegistryError(f"plug-in {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _modules_beside(file):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise RegistryError(
            f"plug-in {path} cannot be imported: {_described(error, file)}"
        ) from error
    return module


@contextlib.contextmanager
def _modules_beside(file: Path) -> Iterator[None]:
    """Lets a plug-in import modules of its own folder, which hide no installed package."""
    folder = str(file.parent)
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.reverse()
        sys.path.remove(folder)  # the last one: it may have been there before
        sys.path.reverse()


def _described(error: BaseException, file: Path) -> str:
    """The error with the last line of the file that it went through."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(file)]
    place = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"


def _backends_of(module: ModuleType) -> list[type[Backend]]:
    """The marked ones of a module's own classes, or else all but what others of them complete."""
    own = [
        cls
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, Backend) and cls.__module__ == module.__name__
    ]
    bases = {base for cls in own for base in cls.__bases__}
    complete = [cls for cls in own if not (inspect.isabstract(cls) and cls in bases)]
    return [cls for cls in own if _MARK in vars(cls)] or complete


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
