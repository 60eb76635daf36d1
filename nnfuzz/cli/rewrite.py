"""`nnfuzz rewrite MODEL`: other models with the same meaning, and `--list`: by which rules."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import UsageError, writing

DEFAULT_COUNT = 10


def rewrite(
    model: Annotated[
        Path | None, typer.Argument(help="Any ONNX model.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the models that are made.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many models are made.")
    ] = DEFAULT_COUNT,
    seed: Annotated[
        int, typer.Option(min=0, metavar="S", help="Same seed and model, same models.")
    ] = 0,
    steps: Annotated[
        str,
        typer.Option(metavar="A#1+B#2", help="These steps, as a finding's form names them."),
    ] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="Print all rules, and why each keeps the meaning.")
    ] = False,
) -> None:
    """Rewrite a model into other ones that mean the same, to compare what a compiler makes of them.

    \b
    nnfuzz rewrite resnet50.onnx --out variants             ten models, after random steps
    nnfuzz rewrite model.onnx --steps times_one#5+function#12 --out one
    nnfuzz rewrite --list

    Inputs and outputs keep their names, dtypes and shapes. Prints a line per file, with its steps.
    """
    if list_:
        typer.echo(rules_told())
        return
    if model is None or out is None:
        raise UsageError("nnfuzz rewrite needs a MODEL and --out DIR, or --list")
    data = _read(model)
    made = [_by_steps(data, steps)] if steps else _drawn(data, count, seed)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        for number, (after, told) in enumerate(made):
            file = out / f"{model.stem}_{number:03}.onnx"
            file.write_bytes(after)
            typer.echo(f"{file}: {told or 'no step has a place in it'}")


def rules_told() -> str:
    """All rules by family, a line each, as Markdown."""
    from nnfuzz.rewrite.catalogue import RULES

    families = dict.fromkeys(rule.family for rule in RULES.values())
    lines: list[str] = []
    for family in families:
        lines += ["", f"## {family.capitalize()}", ""]
        for rule in RULES.values():
            if rule.family == family:
                results = "" if rule.bits else " *In the envelope.*"
                lines.append(f"- `{rule.name}`: {rule.obligation}{results}")
    return "\n".join(lines[1:])


def _read(file: Path) -> bytes:
    """Raises: Unreadable."""
    from nnfuzz.bounds import check_sense
    from nnfuzz.untrusted import parsed_model, read_bytes

    data = read_bytes(file)
    check_sense(parsed_model(data, file), file)
    return data


def _by_steps(data: bytes, text: str) -> tuple[bytes, str]:
    from nnfuzz.rewrite.rewriting import Step, rewritten

    try:
        wanted = [Step.parse(part) for part in text.split("+")]
    except (KeyError, ValueError) as error:
        told = error.args[0] if isinstance(error, KeyError) else f"{text!r} is no list of steps"
        raise UsageError(f"--steps: {told}") from error
    after, done = rewritten(data, wanted)
    return after, "+".join(map(str, done))


def _drawn(data: bytes, count: int, seed: int) -> list[tuple[bytes, str]]:
    from nnfuzz.rewrite.rewriting import drawn

    made = (drawn(data, random.Random(f"{seed}/{number}")) for number in range(count))
    return [(after, "+".join(map(str, steps))) for after, steps in made]
