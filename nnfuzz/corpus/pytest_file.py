"""test_models.py of a corpus: its models under pytest with one compiler, and without nnfuzz."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.target import ONNX
from nnfuzz.findings.repro import program_of
from nnfuzz.findings.text import Quoted, environment
from nnfuzz.records.observer import Note

PYTEST_FILE = "test_models.py"
USUAL = "onnxruntime"
"""What test_models.py runs in a corpus for no compiler, or for one that needs nnfuzz to run."""


def models_under_pytest(registry: BackendRegistry, specs: Sequence[BackendSpec], note: Note) -> str:
    """The text of test_models.py: for the first of the compilers, else for the usual one."""
    if own := pytest_file(specs[:1], registry):
        return own
    if specs:
        note(f"{PYTEST_FILE} runs {USUAL}: {specs[0]} offers no program that does without nnfuzz")
    return pytest_file([registry.parse(USUAL)] if USUAL in registry.names() else [], registry)


def pytest_file(specs: Iterable[BackendSpec], registry: BackendRegistry) -> str:
    """The text of test_models.py for the first compiler that reads ONNX and offers a program that
    runs without nnfuzz (Backend.repro); "" if none does. Raises: RegistryError, OptionError.
    """
    for spec in specs:
        backend = registry.get(spec.name)
        program = program_of(spec, registry, any_dtype=True)
        if program is not None and backend(**spec.options).form == ONNX:
            return _rendered(str(spec), program, backend)
    return ""


def _rendered(compiler: str, program: str, backend: type[Backend]) -> str:
    template = environment().get_template("test_models.py.jinja")
    source = Quoted(program.strip("\n") + "\n")
    levels = list(backend.default_levels())
    return template.render(
        compiler=compiler, program=source, levels=levels, loads_files=backend.loads_files
    )
