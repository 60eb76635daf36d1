"""Arrows between rooms run one way, files form no circle, heavy libraries stay in their rooms."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
ROOMS = (
    "base ir operators solve generate materialize rewrite inputs quantize sandbox backend "
    "compare check invalid testcase triage experiment reduction records report findings "
    "corpus bugs metrics feedback store upkeep parts campaign serve library cli fuzz "
    "__main__"
).split()
ALLOWED = {
    "z3": {"nnfuzz/solve"},
    "onnxruntime": {
        "backends/exporters.py",
        "backends/onnxruntime.py",
        "backends/onnxruntime_providers.py",
        "backends/optimisers.py",
        "backends/transform.py",
    },
    "tvm": {"backends/tvm.py", "backends/frontends.py"},
    "typer": {"nnfuzz/cli", "nnfuzz/fuzz.py"},
    "starlette": {"nnfuzz/serve"},
    "uvicorn": {"nnfuzz/serve"},
}


def sources() -> list[Path]:
    return sorted(
        p for top in ("nnfuzz", "opspecs", "backends") for p in (ROOT / top).rglob("*.py")
    )


@cache
def imports(path: Path, typing: bool = False) -> list[str]:
    """Dotted names of all that a file imports; what it imports for types only if `typing`."""
    found = []

    def visit(node: ast.AST) -> None:
        if not typing and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            source = "." * node.level + node.module
            found.extend(f"{source}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "nnfuzz" and len(parts) > 1 else None


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_run_one_way(path):
    relative = path.relative_to(ROOT)
    here = "cli" if relative.parts[0] != "nnfuzz" else Path(relative.parts[1]).stem
    for module in imports(path):
        there = room(module)
        if relative.parts[0] in ("opspecs", "backends"):
            assert there in (None, "ir", "operators", "backend", relative.parts[0]), module
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
    tree = ast.parse(path.read_text())
    told = {
        id(body[0].value)
        for node in ast.walk(tree)
        if (body := getattr(node, "body", None)) and isinstance(body, list)
        if isinstance(body[0], ast.Expr)
    }
    plain = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    told |= {id(node.value) for node in plain}  # strings behind a constant describe it
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [n.value for n in found if isinstance(n.value, str) and id(n) not in told]


ENGINE = (
    "sandbox backend records findings feedback store upkeep compare experiment triage reduction "
    "campaign testcase"
).split()


@pytest.mark.parametrize("name", ENGINE)
def test_the_engine_holds_no_phrase_of_a_compiler(name):
    """Messages are read by `Backend.complaint`, so that the engine suits a compiler unseen."""
    known = re.compile(rf"(?<![a-z])(?:{'|'.join(COMPILERS)})(?![a-z])", re.IGNORECASE)
    for path in (ROOT / "nnfuzz" / name).rglob("*.py"):
        for text in texts(path):
            assert not known.search(text), f"{path.relative_to(ROOT)}: {text!r}"


def test_every_module_has_a_test_of_its_name_or_is_listed_with_what_covers_it():
    """A module that fails here needs tests/ROOM/test_NAME.py, or a line in the list."""
    lines = (ROOT / "tests/covered_elsewhere.txt").read_text().splitlines()[1:]
    listed = dict(line.split() for line in lines)
    own = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    modules = (p.relative_to(ROOT / "nnfuzz") for p in (ROOT / "nnfuzz").rglob("*.py"))
    without = {
        path.as_posix()
        for path in modules
        if path.name != "__init__.py" and f"test_{path.name}" not in own
    }
    assert without == listed.keys() and len(without) < 120
    assert not [test for test in listed.values() if not (ROOT / "tests" / test).exists()]
