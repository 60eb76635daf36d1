"""`nnfuzz generate`: a folder of regression models in ONNX's backend-test layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnfuzz.cli.errors import OK, writing
from nnfuzz.cli.options import AMOUNT, MODELS, Backends, Plugins, taking
from nnfuzz.cli.values import size

if TYPE_CHECKING:
    from nnfuzz.testcase.case import NotProduced


@taking(
    *"seed nodes domains operators exclude dtypes exclude-dtypes motifs quantize sizes".split(),
    *"engine seed-models exporter opset".split(),
)
def generate(
    out: Annotated[Path, AMOUNT.option("New folder for the corpus.", "DIR", show_default=False)],
    given: dict[str, Any],
    count: Annotated[
        int | None,
        AMOUNT.option("Models to write [default: 100].", "N", min=1),
    ] = None,
    backend: Backends = None,
    singles: Annotated[
        bool,
        MODELS.flag(
            "Models of one operator: every operator, dtype and value of an attribute once; "
            "as many as that takes, unless --count says how many at most.",
            "--singles",
        ),
    ] = False,
    max_bytes: Annotated[
        str | None,
        AMOUNT.option(
            "Pass over models that take more with their data: 64k, 1M [default: any].", "SIZE"
        ),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Write a folder of models with inputs and reference outputs, as ONNX's backend tests.

    \b
    nnfuzz generate --count 200 --out models
    nnfuzz generate --backend tvm --out for-tvm       nothing that TVM calls unsupported

    The same settings and versions give the same bytes. With --backend they also depend on what
    campaigns and probes on this machine have learnt that the compiler refuses; the manifest lists
    it. Models whose outputs a correct compiler may choose are passed over, so that data.json can
    say how far an output may be off. Run it against a compiler with nnfuzz verify, or any runner of
    ONNX's backend tests.
    """
    from nnfuzz.cli.corpus import write_corpus

    most_bytes = size(max_bytes) if max_bytes is not None else 0
    with writing(out):
        models, skipped = write_corpus(
            out, given, count, singles, most_bytes, backend or (), plugin or ()
        )
    _report(out, models, skipped)
    raise typer.Exit(OK)


def _report(out: Path, models: int, skipped: Sequence[NotProduced]) -> None:
    reasons = Counter(failed.stage for failed in skipped)
    stages = ", ".join(f"{stage} {count}" for stage, count in reasons.items())
    passed = f"; {len(skipped)} indexes passed over ({stages})" if skipped else ""
    typer.echo(f"{models} models in {out}{passed}")
    faults = [failed for failed in skipped if failed.stage == "fault"]
    if faults:
        first = faults[0].message.strip().partition("\n")[0]
        typer.echo(
            f"{len(faults)} of them by a fault of nnfuzz, please report it: "
            f"{faults[0].id}: {first}",
            err=True,
        )
