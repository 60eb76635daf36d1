"""Backends, operators and motifs that a program registers, so that other processes find them."""

from __future__ import annotations

import ast
import builtins
import hashlib
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from nnfuzz.backend.registry import RegistryError, checked_class, plugin_name
from nnfuzz.base.code_paths import PLUGIN

T = TypeVar("T")
MAIN = "__main__"

_registered: dict[str, str] = {}
"""Plug-ins by what is registered. The one state of a process: a user's program has one vocabulary,
and decorators have nowhere else to put theirs. The engine gets it handed in."""


class RegisterError(ValueError):
    """An object that cannot be registered; the message says what to do instead."""


class _NoSource(ValueError):
    """Why a definition of `__main__` cannot be copied."""


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
    name, definition = _described(item)
    module = definition.__module__
    if module == MAIN:
        try:
            _registered[name] = _written(name, _source_of(definition.__name__))
        except _NoSource as error:
            raise RegisterError(
                f"{name} is defined in __main__, and other processes cannot get it: {error}. Put "
                "it into a file of its own, and import it or name the file in plugins=[...]"
            ) from error
    else:
        _registered[name] = _home(module)
    return item


def known_plugins(further: Iterable[str | Path] = ()) -> list[str]:
    """Plug-ins that are registered, and further ones: paths of files or names of modules."""
    names = [*_registered.values(), *(plugin_name(path) for path in further)]
    return list(dict.fromkeys(names))


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


def _source_of(name: str) -> str:
    """A module's text with a definition of `__main__`, and the imports, definitions and constants
    of `__main__` that it uses. Raises: _NoSource.
    """
    bindings: dict[str, ast.stmt] = {}
    for text in _texts():
        for statement in ast.parse(text).body:
            for bound in _bound(statement):
                bindings.pop(bound, None)  # the last definition counts, where it stands
                bindings[bound] = statement
    if name not in bindings:
        raise _NoSource(f"the source of {name} is not at hand")
    needed, left = {name}, [name]
    while left:
        found = set(_read(bindings[left.pop()])) - needed
        if lacking := sorted(found & vars(sys.modules[MAIN]).keys() - bindings.keys()):
            text = "which is neither an import, a definition nor a constant"
            raise _NoSource(f"it uses {lacking[0]}, {text}")
        left += found & bindings.keys()
        needed |= found
    statements = dict.fromkeys(bindings[bound] for bound in bindings if bound in needed)
    texts = ["from __future__ import annotations", *map(ast.unparse, statements)]
    return "\n\n".join(texts) + "\n"


def _texts() -> Iterator[str]:
    """The source of `__main__`: the cells of a notebook, or the script."""
    main = vars(sys.modules[MAIN])
    yield from main.get("In", ())
    with suppress(OSError):
        yield Path(main.get("__file__") or "").read_text("utf-8")


def _bound(statement: ast.stmt) -> list[str]:
    """The names that an import, a definition or the assignment of a constant binds; definitions
    lose the decorator `register`.
    """
    if isinstance(statement, ast.Import | ast.ImportFrom):
        if isinstance(statement, ast.ImportFrom) and statement.level:
            return []  # the copy is in no package
        return [own.asname or own.name.partition(".")[0] for own in statement.names]
    if isinstance(statement, ast.ClassDef | ast.FunctionDef):
        written = {ast.unparse(d): d for d in statement.decorator_list}
        kept = [d for text, d in written.items() if text.rpartition(".")[2] != "register"]
        statement.decorator_list = kept
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        calls = [node.func for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
        if not all(isinstance(f, ast.Name) and hasattr(builtins, f.id) for f in calls):
            return []  # what runs compilers in the program must not run in the workers
        nodes = ast.walk(statement)
        return [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return []


def _read(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement reads and does not bind itself, builtins aside."""
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
    own = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    return (node.id for node in names if node.id not in own and not hasattr(builtins, node.id))
