"""`nnfuzz rewrite MODEL`: other models with the same meaning, and `--list`: by which rules."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.base.bounds import blaming, check_sense
from nnfuzz.base.external_data import names_files, write_model
from nnfuzz.cli.errors import UsageError, tell, writing
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import AMOUNT, MODELS, WRITTEN

if TYPE_CHECKING:
    from onnx import ModelProto

DEFAULT_COUNT = 10
SECONDS = 300.0
"""CPU seconds for one model: one of 200,000 nodes takes a minute."""
MANY_NODES = 20_000
"""Nodes of a model whose rewriting takes so long that a note announces it."""


def rewrite(
    model: Annotated[
        Path | None, typer.Argument(help="Any ONNX model.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, AMOUNT.option("Folder for the models that are made.", "DIR")
    ] = None,
    count: Annotated[int, AMOUNT.option("How many models are made.", "N", min=1)] = DEFAULT_COUNT,
    seed: Annotated[int, MODELS.option("Same seed and model, same models.", "S", min=0)] = 0,
    list_: Annotated[
        bool, WRITTEN.option("Print all rules, and why each keeps the meaning.", "", "--list")
    ] = False,
) -> None:
    """Rewrite a model into other ones that mean the same, to compare a compiler's results for them.

    \b
    nnfuzz rewrite resnet50.onnx --out variants             ten models, after random steps
    nnfuzz rewrite --list

    Inputs and outputs keep their names, dtypes and shapes. Prints a line per file, with its steps.
    """
    if list_:
        typer.echo(rules_text())
        return
    if model is None or out is None:
        raise UsageError("nnfuzz rewrite needs a MODEL and --out DIR, or --list")
    from nnfuzz.vary.rewrite.rewriting import draw_rewriting

    proto = _read(model)
    if len(proto.graph.node) > MANY_NODES:
        tell(f"{model} has {len(proto.graph.node):,} nodes, and every step looks at all of them")
    data = proto.SerializeToString()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        with computing(SECONDS), blaming(proto, model):
            after, done = draw_rewriting(data, random.Random(f"{seed}/{number}"))
        file = out / f"{model.stem}_{number:03}.onnx"
        if names_files(after):  # a folder of its own, since others may use the same names
            file = file.with_suffix("") / "model.onnx"
        with writing(file):
            file.parent.mkdir(exist_ok=True)
            write_model(after, file)
        typer.echo(f"{file}: {'+'.join(map(str, done)) or 'no step has a place in it'}")


def rules_text() -> str:
    """All rules by family, a line each, as Markdown."""
    from nnfuzz.vary.rewrite.rewriting import RULES

    families = dict.fromkeys(rule.family for rule in RULES.values())
    lines: list[str] = []
    for family in families:
        lines += ["", f"## {family.capitalize()}", ""]
        for rule in RULES.values():
            if rule.family == family:
                results = "" if rule.bits else " *In the envelope.*"
                lines.append(f"- `{rule.name}`: {rule.obligation}{results}")
    return "\n".join(lines[1:])


def _read(file: Path) -> ModelProto:
    """Raises: Unreadable."""
    from nnfuzz.base.untrusted import parsed_model, read_bytes

    model = parsed_model(read_bytes(file), file)
    check_sense(model, file)
    return model
