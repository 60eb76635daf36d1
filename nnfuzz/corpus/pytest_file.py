"""test_models.py of a corpus: its models under pytest with one compiler, and without nnfuzz."""

from __future__ import annotations

from collections.abc import Iterable

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.target import ONNX
from nnfuzz.report.repro import program_of
from nnfuzz.report.templating import environment
from nnfuzz.report.text import Quoted

PYTEST_FILE = "test_models.py"


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
