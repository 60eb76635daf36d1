"""Backends, operators and motifs that a program registers, so that other processes find them."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from nnfuzz.backend.registry import RegistryError, checked_class, plugin_name
from nnfuzz.base.code_paths import PLUGIN
from nnfuzz.library.source import SourceError, source_of

T = TypeVar("T")

_registered: dict[str, str] = {}
"""Plug-ins by what is registered. The one state of a process: a user's program has one vocabulary,
and decorators have nowhere else to put theirs. The engine gets it handed in."""


class RegisterError(ValueError):
    """An object that cannot be registered; the message says what to do instead."""


def register(item: T) -> T:
    """Makes a backend, an operator spec or a motif of this program known to experiments and
    generators that are made from now on. Can be used as a decorator.

        @nnfuzz.register
        class Mine(Backend): ...

    Workers are processes of their own. They import the module that holds the class, under its name;
    a class that is defined in `__main__` (a script, a notebook cell) is written to a temporary file
    with the imports, constants, functions and classes that it uses. A finding that is saved takes
    that file along. Registering another class of the same name again, as notebooks do, replaces
    it. Returns its argument.

    Raises: RegisterError for anything else, a backend that lacks something, or where there is no
    source.
    """
    name, module = _described(item)
    if module == "__main__":
        try:
            plugin = _written(name, source_of(item))
        except SourceError as error:
            raise RegisterError(
                f"{name} is defined in __main__, and other processes cannot get it: {error}. Put "
                "it into a file of its own, and import it or name the file in plugins=[...]"
            ) from error
    else:
        plugin = _home(module)
    _registered[name] = plugin
    return item


def known_plugins(further: Iterable[str | Path] = ()) -> list[str]:
    """Plug-ins that are registered, and further ones: paths of files or names of modules."""
    names = [*_registered.values(), *(plugin_name(path) for path in further)]
    return list(dict.fromkeys(names))


def _described(item: object) -> tuple[str, str]:
    """A name that is unique among registered objects, and the module. Raises: RegisterError."""
    from nnfuzz.backend.contract import Backend
    from nnfuzz.operators.motif import Motif
    from nnfuzz.operators.operator import OpSpec

    if isinstance(item, Motif):
        return f"motif {item.name}", item.write.__module__
    if isinstance(item, type) and issubclass(item, Backend):
        try:
            checked_class(item, f"in {item.__module__}")
        except RegistryError as error:
            raise RegisterError(str(error)) from error
        return f"backend {item.name}", item.__module__
    if isinstance(item, type) and issubclass(item, OpSpec):
        if "operator_name" not in vars(item):
            raise RegisterError(f"{item.__name__} is not marked: decorate it with @operator")
        return f"operator {item.name}", item.__module__
    raise RegisterError(f"{item!r} is neither a backend class, nor an operator spec, nor a motif")


def _home(module: str) -> str:
    """The module's name, or the file of one that was not imported by its name."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return str(Path(file).resolve()) if file and module.startswith(PLUGIN) else module


def _written(name: str, source: str) -> str:
    """A file with the source, in a folder named by its contents, which exists as long as the
    process."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:8]
    file = Path(_folder().name) / digest / f"{name.replace(' ', '_')}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(source, encoding="utf-8")
    return str(file.resolve())


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nnfuzz-registered-")
