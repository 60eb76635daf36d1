"""The source of a class or function of `__main__`, with all of `__main__` that it uses."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from nnfuzz.operators.motif import Motif

MAIN = "__main__"
OWN = "register"
"""The decorator that a copy goes without."""


class SourceError(ValueError):
    """Why a definition cannot be copied."""


def source_of(item: object) -> str:
    """A module's text that defines `item` under its name.

    Classes and functions of `__main__` that it uses are copied as well, other names imported,
    constants written out. Raises: SourceError.
    """
    copied: dict[str, str] = {}
    _copy(item, vars(sys.modules[MAIN]), copied)
    return "from __future__ import annotations\n\n" + "\n\n".join(copied.values()) + "\n"


def _copy(item: object, names: dict[str, object], copied: dict[str, str]) -> None:
    """Adds the definitions that a definition uses, then itself."""
    node = _definition(item)
    copied[node.name] = ""  # it may use itself
    for name in _used(node):
        if name in copied or name not in names or names[name] is item:
            continue
        value = names[name]
        if _is_ours(value):
            _copy(value, names, copied)
        else:
            copied[name] = _bound(name, value)
    del copied[node.name]
    copied[node.name] = ast.unparse(node)


def _is_ours(value: Any) -> bool:
    kinds = (type, FunctionType, Motif)
    return isinstance(value, kinds) and _code_owner(value).__module__ == MAIN


def _bound(name: str, value: Any) -> str:
    """An import or an assignment that gives a name its value. Raises: SourceError."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}"
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module and own and module != MAIN and "." not in own and "<" not in own:
        return f"from {module} import {own} as {name}"
    try:
        text = repr(value)
        if ast.literal_eval(text) == value:
            return f"{name} = {text}"
    except (ValueError, SyntaxError, TypeError):
        pass
    raise SourceError(f"it uses {name}, which is neither an import, a definition nor a constant")


def _used(definition: ast.AST) -> Iterator[str]:
    """All names that a definition reads, builtins aside."""
    for node in ast.walk(definition):
        if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
            yield node.id


def _code_owner(item: object) -> Any:
    return item.write if isinstance(item, Motif) else item


def _definition(item: object) -> ast.ClassDef | ast.FunctionDef:
    """The statement that defines a class or function, without our decorator.

    Found through the code of a function, since `inspect` does not know classes of notebooks; a
    class without any is found by its name in the script.
    Raises: SourceError.
    """
    owner = _code_owner(item)
    functions = [owner] if isinstance(owner, FunctionType) else list(_functions(owner))
    for function in functions:
        code = inspect.unwrap(function).__code__
        text = "".join(linecache.getlines(code.co_filename))
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            holds = _first_line(node) <= code.co_firstlineno <= (node.end_lineno or 0)
            if node.name == owner.__name__ and holds:
                return _without_our_decorator(node)
    text = "".join(linecache.getlines(getattr(sys.modules[MAIN], "__file__", "")))
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    named = [node for node in classes if node.name == owner.__name__]
    if not functions and len(named) == 1:
        return _without_our_decorator(named[0])
    hint = "" if functions else " (a class without methods of its own: give it one)"
    raise SourceError(f"the source of {owner.__name__} is not at hand{hint}")


def _without_our_decorator(
    node: ast.ClassDef | ast.FunctionDef,
) -> ast.ClassDef | ast.FunctionDef:
    node.decorator_list = [d for d in node.decorator_list if not _is_own(d)]
    return node


def _functions(cls: type) -> Iterator[FunctionType]:
    """Functions that the body of a class defines, properties and class methods included."""
    for value in vars(cls).values():
        function = getattr(value, "__func__", getattr(value, "fget", value))
        if isinstance(function, FunctionType) and function.__module__ == cls.__module__:
            yield function


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _is_own(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] == OWN
