"""Arrows between rooms run one way, files form no circle, heavy libraries stay in their rooms."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
ROOMS = (
    "base ir operators solve generate materialize inputs vary sandbox backend "
    "compare check testcase triage experiment reduction records feedback store findings "
    "corpus bugs metrics campaign library cli fuzz "
    "__main__"
).split()
ALLOWED = {
    "z3": {"nnfuzz/solve"},
    "onnxruntime": {
        "backends/exporters.py",
        "backends/onnxruntime.py",
        "backends/optimisers.py",
        "backends/transform.py",
    },
    "tvm": {"backends/tvm.py", "backends/frontends.py"},
    "typer": {"nnfuzz/cli"},
}


MOST_LINES = {
    "nnfuzz": 54_640,
    "opspecs": 13_025,
    "backends": 2_800,
    "scripts": 4_500,
    "tests": 34_060,
}
"""Non-blank lines of Python by folder. Whoever needs more takes something out first."""


def sources() -> list[Path]:
    return sorted(
        p for top in ("nnfuzz", "opspecs", "backends") for p in (ROOT / top).rglob("*.py")
    )


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path, typing: bool = False) -> list[str]:
    """Dotted names of all that a file imports; what it imports for types only if `typing`."""
    found = []

    def visit(node: ast.AST) -> None:
        if not typing and isinstance(node, ast.If) and called(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            source = "." * node.level + node.module
            found.extend(f"{source}.{alias.name}" for alias in node.names)
        for block in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, block, ())
            for child in inner if isinstance(inner, list) else ():
                visit(child)

    visit(tree(path))
    return found


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "nnfuzz" and len(parts) > 1 else None


def test_arrows_run_one_way():
    for path in sources():
        relative = path.relative_to(ROOT)
        here = "cli" if relative.parts[0] != "nnfuzz" else Path(relative.parts[1]).stem
        for module in imports(path):
            there = room(module)
            if relative.parts[0] in ("opspecs", "backends"):
                allowed = (None, "ir", "operators", "backend", relative.parts[0])
                assert there in allowed, f"{relative} imports {module}"
            elif there is not None and here != "__init__":
                assert there not in ("opspecs", "backends"), f"the engine names a plug-in: {module}"
                assert ROOMS.index(there) <= ROOMS.index(here), f"{relative} imports {module}"


def test_the_page_of_the_rooms_lists_them_in_their_order():
    page = (ROOT / "docs" / "rooms" / "index.md").read_text()
    packages = [name for name in ROOMS if (ROOT / "nnfuzz" / name / "__init__.py").exists()]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == packages


@pytest.mark.parametrize("library", ALLOWED)
def test_heavy_libraries_stay_in_their_rooms(library):
    for path in sources():
        if any(module.split(".")[0] == library for module in imports(path)):
            relative = str(path.relative_to(ROOT))
            assert any(relative.startswith(place) for place in ALLOWED[library]), relative


PROVIDERS = {"iree": "iree-base-compiler", "ray": "ray", "polygraphy": "polygraphy"}
"""Distributions of libraries that need not be installed here."""
WITHIN = {"pytest": "loads the plug-in; a mined script of tests is run with it"}


def test_every_library_is_declared():
    """What is imported comes by a dependency or an extra of nnfuzz's own, and by no other's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [n for name, n in project["optional-dependencies"].items() if name != "dev"]
    needs = [need for some in (project["dependencies"], *extras) for need in some]
    declared = {canonicalize_name(re.split(r"[^\w.-]", need)[0]) for need in needs}
    providers = packages_distributions()
    for path in sources():
        for module in imports(path, typing=True):
            top = module.partition(".")[0]
            if top not in {*sys.stdlib_module_names, *WITHIN, "nnfuzz", ""}:
                found = providers.get(top) or [PROVIDERS[top]]
                assert {*map(canonicalize_name, found)} & declared, f"{path} imports {top}"


def dotted(path: Path) -> str:
    """How a file is imported; plug-ins are packages of nnfuzz."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    named = parts if parts[0] == "nnfuzz" else ("nnfuzz", *parts)
    return ".".join(part for part in named if part != "__init__")


def test_no_files_import_each_other_in_a_circle():
    """Imports for types count: whoever reads one file of a circle has to read them all."""
    files = {dotted(path): path for path in sources()}
    graph = {}
    for name, path in files.items():
        found = (i if i in files else i.rpartition(".")[0] for i in imports(path, typing=True))
        graph[name] = {i for i in found if i in files and i != name}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("a circle: " + " imports ".join(reversed(error.args[1])))


COMPILERS = (
    *("tvm", "relax", "tirx", "emit_te", "onnxruntime", "ort", "mlfloat16", "openvino", "snippets"),
    *("inferenceerror", "tensorrt", "mcpu", "session"),
)
"""Names and words of the compilers that adapters are built in for."""


def texts(path: Path) -> list[str]:
    """All strings of a file but its docstrings."""
    nodes = list(ast.walk(tree(path)))
    told = {
        id(body[0].value)
        for node in nodes
        if (body := getattr(node, "body", None)) and isinstance(body, list)
        if isinstance(body[0], ast.Expr)
    }
    # Strings behind a constant describe it.
    told |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = (node for node in nodes if isinstance(node, ast.Constant))
    return [n.value for n in found if isinstance(n.value, str) and id(n) not in told]


ENGINE = (
    "sandbox backend records findings feedback store compare experiment triage reduction "
    "campaign testcase"
).split()


@pytest.mark.parametrize("name", ENGINE)
def test_the_engine_holds_no_phrase_of_a_compiler(name):
    """Messages are read by `Backend.complaint`, so that the engine suits a compiler unseen."""
    known = re.compile(rf"(?<![a-z])(?:{'|'.join(COMPILERS)})(?![a-z])", re.IGNORECASE)
    for path in (ROOT / "nnfuzz" / name).rglob("*.py"):
        for text in texts(path):
            assert not known.search(text), f"{path.relative_to(ROOT)}: {text!r}"


DETERMINED = ("ir operators solve generate materialize inputs vary compare check testcase").split()
"""Rooms that decide what a test case is: there, no order may depend on the hashes of strings."""
SETS = {"set", "frozenset", "AbstractSet", "Set"}
UNORDERED = {"all", "any", "bool", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
"""Functions whose result does not depend on the order of what they read, unless it has a key."""
ORDERED = {
    *("chain", "dict", "enumerate", "extend", "filter", "fromkeys", "from_iterable", "iter"),
    *("join", "list", "map", "max", "min", "product", "sorted", "tuple", "zip"),
}
OTHERS = (ast.Constant, ast.Dict, ast.DictComp, ast.List, ast.ListComp, ast.Tuple)
SET_METHODS = {"difference", "intersection", "symmetric_difference", "union"}


def called(node: ast.expr | None) -> str:
    """The name of what is called, of a variable, an attribute or a type; "" for anything else."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


class Sets:
    """Which expressions of a file are sets, by their forms and by the annotations of names.

    members: attributes and functions that are sets: in the file, or else in all files.
    """

    def __init__(self, members: frozenset[str] = frozenset()) -> None:
        self.members = members
        self.names: frozenset[str] = frozenset()

    def declared(self, scope: ast.AST) -> dict[bool, tuple[set[str], set[str]]]:
        """The names in a scope that are sets, and others: True: of attributes and functions, False:
        of variables. What stands in a class is both.
        """
        found = {kind: (set[str](), set[str]()) for kind in (True, False)}
        for node in ast.walk(scope):
            if isinstance(node, ast.FunctionDef):
                found[True][called(node.returns) not in SETS].add(node.name)
            elif isinstance(node, ast.arg):
                found[False][called(node.annotation) not in SETS].add(node.arg)
            elif isinstance(node, ast.ClassDef):
                for own in (own for own in node.body if isinstance(own, ast.AnnAssign)):
                    found[True][called(own.annotation) not in SETS].add(called(own.target))
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                is_set = node.value is not None and self.holds(node.value)
                if isinstance(node, ast.AnnAssign):
                    is_set = called(node.annotation) in SETS
                elif not is_set and not isinstance(node.value, OTHERS):
                    continue
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    found[isinstance(target, ast.Attribute)][not is_set].add(called(target))
        return found

    def holds(self, node: ast.expr) -> bool:
        """Whether an expression is a set."""
        if isinstance(node, ast.BinOp):
            operands = (node.left, node.right)
            keys = any(isinstance(o, ast.Call) and called(o.func) == "keys" for o in operands)
            return keys or any(map(self.holds, operands))
        if isinstance(node, ast.IfExp):
            return self.holds(node.body) or self.holds(node.orelse)
        if isinstance(node, ast.Call):
            return called(node.func) in SETS | SET_METHODS | self.members
        if isinstance(node, ast.Attribute):
            return node.attr in self.members
        return isinstance(node, ast.Set | ast.SetComp) or called(node) in self.names

    def iterated(self, node: ast.AST, free: bool = False) -> Iterator[ast.expr]:
        """The sets in a node whose order may have an effect. free: the node's own has none."""
        outer, consumed, read = self.names, False, list[ast.expr]()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            sets, others = self.declared(node)[False]
            self.names = self.names - others | sets - others
        elif isinstance(node, ast.Call):
            name, keyed = called(node.func), any(k.arg == "key" for k in node.keywords)
            consumed = name in UNORDERED and not keyed
            read = node.args if name in ORDERED and not consumed else []
            if name == "pop" and not node.args and isinstance(node.func, ast.Attribute):
                read = [node.func.value]
        elif isinstance(node, ast.For):
            read = [node.iter]
        elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.DictComp) and not free:
            read = [generator.iter for generator in node.generators]
        elif isinstance(node, ast.List | ast.Tuple):
            read = [element.value for element in node.elts if isinstance(element, ast.Starred)]
        yield from filter(self.holds, read)
        for child in ast.iter_child_nodes(node):
            yield from self.iterated(child, consumed)
        self.names = outer


def iterated_sets(modules: Mapping[str, ast.Module]) -> list[str]:
    """Where modules iterate over sets so that the order may have an effect, as FILE:LINE: CODE."""
    declared = {name: Sets().declared(module)[True] for name, module in modules.items()}
    members, others = (set[str]().union(*names) for names in zip(*declared.values()))
    found = []
    for name, module in modules.items():
        own, other = declared[name]
        sets = Sets(frozenset((members - others - other) | (own - other)))
        found += [f"{name}:{node.lineno}: {ast.unparse(node)}" for node in sets.iterated(module)]
    return found


def test_iteration_over_a_set_is_found():
    source = (
        "def f(a: set[str], b: list[str]):\n    [*b]\n    sorted(a)\n    for c in a - {*b}: pass"
    )
    assert iterated_sets({"f.py": ast.parse(source)}) == ["f.py:4: a - {*b}"]


def test_no_test_case_depends_on_the_order_of_a_set():
    """The order of a set of strings is another one in every process: sort it, or keep a dict."""
    rooms = [ROOT / "opspecs", *(ROOT / "nnfuzz" / room for room in DETERMINED)]
    paths = [path for path in sources() if any(path.is_relative_to(room) for room in rooms)]
    assert not iterated_sets({str(path.relative_to(ROOT)): tree(path) for path in paths})


@pytest.mark.parametrize("folder", MOST_LINES)
def test_nothing_grows_beyond_its_lines(folder):
    texts = (path.read_text() for path in (ROOT / folder).rglob("*.py"))
    lines = sum(bool(line.strip()) for text in texts for line in text.splitlines())
    assert lines <= MOST_LINES[folder]
