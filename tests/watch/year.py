"""A year of a tiny compiler: a package index with its releases, and the truth about its bugs."""

from __future__ import annotations

from pathlib import Path

from tests.backend.releases import HERE, make_libraries, wheel

ADAPTER = Path(__file__).parent / "yearly_backend.py"
RELEASES = ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5")
LIVES = {
    "Abs": ("1.0", "1.1"),  # gone with 1.2
    "Neg": ("1.1", "1.2", "1.4", "1.5"),  # comes, goes, and comes back
    "Exp": ("1.0", "1.1", "1.2", "1.3", "1.4", "1.5"),  # never mended
    "Tanh": ("1.3",),
}
"""The releases that get an operator wrong."""
MESSAGES = {
    "Abs": "sign table exceeds its page",
    "Neg": "no complement of an unsigned lane",
    "Tanh": "polynomial of degree nine is not in the library",
}
"""How the compiler refuses an operator that it gets wrong; Exp has wrong values."""

_COMPILER = """
import numpy as np

RELEASE = {release!r}
BROKEN = {broken!r}
MESSAGES = {messages!r}


def run(model, inputs):
    import onnx
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Exp(OpRun):
        def _run(self, x):
            return ((np.exp(x) + x.dtype.type("Exp" in BROKEN)).astype(x.dtype),)

    found = onnx.load_model_from_string(model)
    for node in found.graph.node:
        if node.op_type in BROKEN and node.op_type in MESSAGES:
            raise ValueError(MESSAGES[node.op_type])
    session = ReferenceEvaluator(found, new_ops=[Exp])
    return dict(zip(session.output_names, session.run(None, inputs)))
"""


def broken_in(release: str) -> set[str]:
    return {name for name, releases in LIVES.items() if release in releases}


def put_release(folder: Path, release: str) -> None:
    """Adds a release to the index."""
    broken = sorted(broken_in(release))
    text = _COMPILER.format(release=release, broken=broken, messages=MESSAGES)
    files = {"toyyear.py": text, "toyyear_libraries.pth": HERE}
    wheel(folder, "toyyear", release, files)


def make_year(folder: Path, releases: tuple[str, ...] = RELEASES) -> None:
    make_libraries(folder)
    for release in releases:
        put_release(folder, release)


def settings(folder: Path, more: str = "", system: str = "") -> Path:
    """Writes nnfuzz.toml for a watch over the compiler, all below a folder."""
    file = folder / "nnfuzz.toml"
    file.write_text(
        f"""
[watch]
ledger = "{folder}/bugs"
publish = "{folder}/site"
work = "{folder}/work"
announce = "cat >> {folder}/news.jsonl; echo >> {folder}/news.jsonl"
plugin = ["{ADAPTER}"]
tests = 12
{more}
[watch.systems.toyyear]
first = "1.0"
{system}
[fuzz]
exporter = "direct"
operators = ["Abs,Neg,Exp,Tanh"]
dtypes = ["float32"]
nodes = 2
motifs = 0
probe = "0"
producers = 1
workers = 1
"""
    )
    return file
