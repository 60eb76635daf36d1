"""Backends, operators and motifs that a program registers, so that other processes find them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from nnfuzz.backend.registry import RegistryError, checked_class, import_plugin, plugin_name
from nnfuzz.base.code_paths import PLUGIN
from nnfuzz.operators.registry import OpRegistry

T = TypeVar("T")
MAIN = "__main__"

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
    a script is imported as a file, so that what it runs stands below `if __name__ == "__main__":`,
    as for multiprocessing. A finding that is saved takes the file along. Registering another class
    of the same name again replaces it. Returns its argument.

    Raises: RegisterError for anything else, a backend that lacks something, or a definition in a
    notebook or in a script that other processes cannot import.
    """
    name, definition = _described(item)
    _registered[name] = _home(name, definition.__module__)
    return item


def known_plugins(further: Iterable[str | Path] = ()) -> list[str]:
    """Plug-ins that are registered, and further ones: paths of files or names of modules."""
    names = [*_registered.values(), *(plugin_name(path) for path in further)]
    return list(dict.fromkeys(names))


def operator_registry(plugins: Iterable[str | Path] = ()) -> OpRegistry:
    """All operators: built-in ones, registered ones, those of plug-ins. Raises: RegistryError."""
    return OpRegistry.load(import_plugin(path) for path in known_plugins(plugins))


def _described(item: object) -> tuple[str, Any]:
    """A name that is unique among registered objects, and the class or function that defines it.

    Raises: RegisterError.
    """
    from nnfuzz.backend.contract import Backend
    from nnfuzz.operators.motif import Motif
    from nnfuzz.operators.operator import OpSpec

    if isinstance(item, Motif):
        return f"motif {item.name}", item.write
    if isinstance(item, type) and issubclass(item, Backend):
        try:
            checked_class(item, f"in {item.__module__}")
        except RegistryError as error:
            raise RegisterError(str(error)) from error
        return f"backend {item.name}", item
    if isinstance(item, type) and issubclass(item, OpSpec):
        if "operator_name" not in vars(item):
            raise RegisterError(f"{item.__name__} is not marked: decorate it with @operator")
        return f"operator {item.name}", item
    raise RegisterError(f"{item!r} is neither a backend class, nor an operator spec, nor a motif")


def _home(name: str, module: str) -> str:
    """The module's name, or the file of one that was not imported by its name.

    Raises: RegisterError for a program that other processes cannot import.
    """
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == MAIN and (file is None or MAIN not in Path(file).read_text("utf-8")):
        raise RegisterError(
            f"{name} is defined in __main__, which other processes cannot import: put it into a "
            'file of its own, or what the script runs below `if __name__ == "__main__":`'
        )
    own = module == MAIN or module.startswith(PLUGIN)
    return str(Path(file).resolve()) if file and own else module
