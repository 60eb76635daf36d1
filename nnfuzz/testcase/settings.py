"""The settings of test cases that people choose."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.setting import (
    MODELS,
    NAMES,
    SHARE,
    WRITTEN,
    YES_OR_NO,
    Kind,
    Setting,
    count,
    setting,
    words,
)
from nnfuzz.base.untrusted import read_bytes

MOST_NODES = 1000
"""Operators per model at most: a test case may take 60 s, and one of 1000 takes about 10 s."""
AIMED_FORMS = 0.3
"""The usual value of `forms` with `focus`."""
EMPTY = 0.3
"""The usual value of `rewrites` with `edges`, and the share of the models with `edges` whose own
tensors may be empty."""


@dataclass(frozen=True, kw_only=True)
class CaseSettings:
    """The settings of test cases. A value of its own that a field has in campaigns is `usual`."""

    nodes: int = setting(
        10,
        f"Operators per model, at most {MOST_NODES}. Few find the same bugs faster; many find what "
        "only long chains of optimisations do",
        MODELS,
        count(1, MOST_NODES, "K"),
    )
    engine: str = setting(
        "direct",
        "What makes graphs: direct (sizes are numbers at once), symbolic (by solving whole "
        "graphs) or mutate (of eight, seven are changes of the first)",
        MODELS,
        words("NAME"),
        said="{default}",
    )
    domains: tuple[str, ...] = setting(
        (),
        "Generate from operators of these domains beside ONNX's own, such as com.microsoft; "
        "ai.onnx for ONNX's own alone",
        MODELS,
        NAMES,
        said="in campaigns, all domains that every backend takes",
    )
    operators: tuple[str, ...] = setting(
        (), "Generate from these operators only (see nnfuzz ops)", MODELS, NAMES
    )
    exclude: tuple[str, ...] = setting((), "Leave these operators out", MODELS, NAMES)
    focus: tuple[str, ...] = setting(
        (),
        "Every model touches one of these operators, or grows around a small one that one of these "
        "passes changes",
        MODELS,
        NAMES,
    )
    dtypes: Mapping[str, float | None] = setting(
        {},
        "Values of these dtypes only, such as float32,int64. Others occur where an operator admits "
        "nothing else: the int64 indices of Gather, the bool that Where asks for and Greater "
        "returns. Seed models keep theirs",
        MODELS,
        NAMES,
    )
    motifs: float = setting(
        1.5,
        "Motifs per model on average: patterns that optimisers look for",
        MODELS,
        Kind("M", "a number of at least 0", float, 0),
    )
    skeletons: float = setting(
        0.0,
        "Share of the models that get a skeleton: a part of a model as people deploy it, an "
        "encoder layer with its mask for example",
        MODELS,
        SHARE,
        usual=0.2,
    )
    dynamic: float = setting(
        0.0,
        "Share of the models that get a symbolic dimension, where they can, and are run at three "
        "sizes",
        MODELS,
        SHARE,
        usual=0.1,
    )
    calls: float = setting(
        0.0,
        "Share of the models that are compiled once and called three times, with inputs, with "
        "others, and with the first ones again: what a call leaves behind must change no later one",
        MODELS,
        SHARE,
        usual=0.25,
        said="{usual}, 0 with invalid",
    )
    slow: float = setting(
        0.0,
        "Share of the tests with larger tensors whose programs are timed by turns: a finding is a "
        "level that takes 30 times the CPU of the least optimised one, or of the model in float32",
        MODELS,
        SHARE,
        usual=0.005,
    )
    leak: float = setting(
        0.0,
        "Share of the tests whose programs are called some hundred times: a finding is one whose "
        "used memory grows in each hundred",
        MODELS,
        SHARE,
        usual=0.005,
    )
    quantize: float = setting(
        0.0,
        "Share of the models that are quantised: pairs of QuantizeLinear and DequantizeLinear, "
        "operators on integers, or dynamic quantisation, where compilers take those",
        MODELS,
        SHARE,
        usual=0.1,
    )
    large: float = setting(
        0.0,
        "How large tensors are: small, mixed (one graph in ten has one of more than 65,536 "
        "elements, where compilers compute in parallel, with dimensions at and next to powers of "
        "two; one in ten has dimensions of 8, 16, 32 and 64) or large (all graphs have)",
        MODELS,
        words("small|mixed|large"),
        usual=0.1,
        said="mixed in campaigns, small in corpora",
        name="sizes",
    )
    seed_models: tuple[str, ...] = setting(
        (),
        "Start every graph from one of the ONNX models in a folder; operators are inserted around "
        "and inside. Unless an exporter is named, direct emission alone is used",
        MODELS,
        Kind("DIR", "a folder", Path),
    )
    invalid: bool = setting(
        False,
        "Models with one deliberate fault each, which a compiler must refuse with an error of its "
        "own: crashes, hangs, internal errors and acceptance are findings",
        MODELS,
        YES_OR_NO,
    )
    edges: bool = setting(
        False,
        "Inputs with NaN, infinities, signed zeros and subnormals, and empty tensors; compared "
        "where ONNX or IEEE 754 decides. Unless operators are named, those alone that decide",
        MODELS,
        YES_OR_NO,
    )
    edge_share: float = setting(
        0.0,
        "Share of the tests that are made as with edges, in a campaign without it",
        MODELS,
        SHARE,
        usual=0.1,
        said="{usual}, 0 with invalid",
    )
    exporter: str = setting(
        "torchscript",
        "What writes the models: torchscript, dynamo, direct (which alone has every operator and "
        "dtype), several with commas between, or mixed: direct and torchscript by turns",
        WRITTEN,
        words("NAME"),
        said="mixed",
    )
    opset: int = setting(
        20,
        "ONNX opset of all models",
        WRITTEN,
        count(1),
        said="each model has one of those that its exporter writes and the backends take",
    )
    rewrites: float | None = setting(
        None,
        "Share of the models written by nnfuzz itself that are rewritten into other ones with the "
        "same meaning, by random rules (docs/REWRITES.md)",
        WRITTEN,
        SHARE,
        said=f"0; with edges {EMPTY}, by the rules of empty tensors",
    )
    spelled: float = setting(
        0.0,
        "Share of the models written by nnfuzz itself that are spelled otherwise: attributes and "
        "operands at their defaults left out or written, axes from behind, constants as nodes",
        WRITTEN,
        SHARE,
        usual=0.3,
        said="{usual}, 0 with invalid",
    )
    forms: float = setting(
        0.0,
        "Share of the models written by nnfuzz itself whose file has another form: a part in a "
        "model-local function, initializers that are inputs as well or hold their numbers in other "
        "fields, unusual names, external data, integers as strings inside or as inputs and outputs",
        WRITTEN,
        SHARE,
        usual=0.2,
        said=f"{{usual}}, {AIMED_FORMS} with focus, 0 with edges",
    )


EXCLUDE_DTYPES = Setting(
    "No value of these dtypes at all; operators that cannot do without them are left out",
    MODELS,
    NAMES,
    name="exclude-dtypes",
    field="exclude_dtypes",
)
"""Becomes a part of `dtypes` (nnfuzz.campaign.configuration)."""


def seed_files(folder: Path) -> list[Path]:
    """The models below a folder, or the one file, sorted. Raises: Unreadable if there are none."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.onnx"))
    if not files:
        what = "holds no .onnx file" if folder.is_dir() else "does not exist"
        raise Unreadable(f"seed-models: {folder} {what}")
    return [path.absolute() for path in files]


def digest(files: Sequence[str | Path]) -> str:
    """A digest of the contents, in order. Raises: Unreadable."""
    total = hashlib.sha256()
    for file in files:
        total.update(hashlib.sha256(read_bytes(file)).digest())
    return total.hexdigest()[:16]
