"""The registry of operator specs; built-in and third-party packages are found by entry point."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.waiver import NONE, Waivers

if TYPE_CHECKING:
    from nnfuzz.operators.expanded import Expanded

ENTRY_POINTS = "nnfuzz.opspecs"
EXPANDED = "Expanded"
"""The name of the class Expanded, whose module loads PyTorch when it is imported."""


class OpRegistry:
    """Operator classes by name, in order of registration, and their waivers.

    notes: one line for each installed package that was left out because it is broken.
    """

    def __init__(self, specs: Iterable[type[OpSpec]] = (), waivers: Waivers = NONE) -> None:
        self._specs: dict[str, type[OpSpec]] = {}
        self.waivers = waivers
        self.notes: list[str] = []
        for spec in specs:
            self.add(spec)

    def add(self, spec: type[OpSpec]) -> None:
        """Register a class. Raises: ValueError if another class has the same name."""
        known = self._specs.get(spec.name)
        if known is not None and known is not spec:
            raise ValueError(
                f"operator {spec.name} is registered twice: {known.__module__}.{known.__name__} "
                f"and {spec.__module__}.{spec.__name__}; rename one of the classes"
            )
        self._specs[spec.name] = spec

    def get(self, name: str) -> type[OpSpec]:
        """The operator class of a name; `Opaque` and `Expanded` are known although never listed.

        Raises: KeyError that suggests similar names.
        """
        if name == Opaque.name:
            return Opaque
        if name == EXPANDED:
            return self.expanded
        try:
            return self._specs[name]
        except KeyError:
            close = difflib.get_close_matches(name, self._specs, 3, 0.5)
            hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(self)}"
            raise KeyError(f"unknown operator {name!r}; {hint}") from None

    @cached_property
    def expanded(self) -> type[Expanded]:
        """The class `Expanded`, with its graphs made of this registry's operators."""
        from nnfuzz.operators.expanded import Expanded

        return type(Expanded.name, (Expanded,), {"lookup": self.get})

    def of_domains(self, domains: Iterable[str]) -> list[type[OpSpec]]:
        """The operators of ai.onnx and of the given domains. Raises: KeyError for an unknown
        domain."""
        known = sorted({spec.onnx_domain for spec in self.specs()} - {""})
        for unknown in (domain for domain in domains if domain not in known):
            raise KeyError(f"unknown domain {unknown!r}; known: ai.onnx, {', '.join(known)}")
        return [spec for spec in self.specs() if spec.onnx_domain in ("", *domains)]

    def select(self, names: Iterable[str]) -> OpRegistry:
        """A registry of the named operators only. Raises: KeyError for an unknown one."""
        return OpRegistry((self.get(n) for name in names for n in self.meant(name)), self.waivers)

    def meant(self, name: str) -> tuple[str, ...]:
        """The names that a name stands for: Resize for ResizeNearest, ResizeLinear and others."""
        if name in self._specs:
            return (name,)
        modes = tuple(n for n in self if n.startswith(name) and n[len(name) :][:1].isupper())
        return modes or (name,)

    def add_module(self, module: ModuleType) -> None:
        """Register every class marked `@operator` in a module, or in all modules of a package, and
        the waivers that these modules declare as WAIVERS."""
        for part in modules(module):
            for item in list(vars(part).values()):
                if isinstance(item, type) and "operator_name" in vars(item):
                    self.add(item)
            if "WAIVERS" in vars(part):
                self.waivers = self.waivers.and_also(part.WAIVERS)

    @classmethod
    def load(cls, plugins: Iterable[ModuleType] = ()) -> OpRegistry:
        """All operators of installed packages (by entry point), then those of the plug-in modules.

        A broken third-party package is left out with a note; a broken built-in one raises. Raises:
        KeyError if a waiver names an unknown operator.
        """
        registry = cls()
        for module in installed(registry.notes.append):
            registry = registry._with_installed(module)
        for module in plugins:
            registry.add_module(module)
        registry._check_waivers()
        return registry

    def _with_installed(self, module: ModuleType) -> OpRegistry:
        """The registry with a package's operators; without them, and with a note, if that fails."""
        trial = OpRegistry(self.specs(), self.waivers)
        trial.notes = self.notes
        try:
            trial.add_module(module)
            trial._check_waivers()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if not self._specs:
                raise
            self.notes.append(_left_out(module.__name__, error))
            return self
        return trial

    def _check_waivers(self) -> None:
        for name in self.waivers:
            self.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def specs(self) -> list[type[OpSpec]]:
        """All operator classes, in order of registration."""
        return list(self._specs.values())


def installed(note: Callable[[str], None] = lambda line: None) -> list[ModuleType]:
    """The modules and packages of the entry-point group, the built-in one first.

    A third-party one that fails to import is left out; `note` is called with one line about it.
    """
    points = sorted(entry_points(group=ENTRY_POINTS), key=lambda p: (p.name != "builtin", p.name))
    loaded = [point.load() for point in points[:1]]
    for point in points[1:]:
        try:
            loaded.append(point.load())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            note(_left_out(point.value, error))
    return loaded


def _left_out(name: str, error: BaseException) -> str:
    return f"operators of {name} are left out: {type(error).__name__}: {error}"


def modules(module: ModuleType) -> Iterator[ModuleType]:
    """A module and, for a package, all modules inside of it."""
    yield module
    if hasattr(module, "__path__"):
        for info in sorted(pkgutil.iter_modules(module.__path__), key=lambda i: i.name):
            yield from modules(importlib.import_module(f"{module.__name__}.{info.name}"))


BUILT_IN = "nnfuzz.opspecs"
_ROOMS = ("ir", "operators", "solve", "materialize", "generate", "inputs", "check")


def specs_digest() -> str:
    """A digest of everything that judgements on operators depend on: nnfuzz's sources and the
    versions of operator packages.
    """
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for point in importlib.metadata.entry_points(group="nnfuzz.opspecs"):
        version = point.dist.version if point.dist else ""
        digest.update(f"{point.value} {version}".encode())
    return digest.hexdigest()


def _sources() -> list[Path]:
    folders = []
    for name in (BUILT_IN, *(f"nnfuzz.{room}" for room in _ROOMS)):
        spec = importlib.util.find_spec(name)
        folders += list(spec.submodule_search_locations or ()) if spec else []
    return [path for folder in folders for path in sorted(Path(folder).rglob("*.py"), key=str)]
