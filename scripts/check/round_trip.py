"""Does every operator that nnfuzz writes come back from `import_onnx` as it was?

Instances over all signatures, opsets and attributes are written by direct emission and imported
again. A row per operator that does not come back as its own spec: how many of its instances come
back as an instance of it, as other operators that say as much, as operators that say less, or not
at all. Exits 1 if less can be compared of some instance than before.

    python -m scripts.check.round_trip --count 40
    python -m scripts.check.round_trip Gelu Reshape -v
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Annotated

import torch
import typer
from rich.progress import track

from nnfuzz.check.round_trip import RoundTrip, round_trips
from nnfuzz.spec.registry import OpRegistry

KINDS = ("itself", "as others, all compared", "less is compared", "not read")


def kind(trip: RoundTrip) -> str:
    if not trip.compared:
        return KINDS[2] if trip.operators else KINDS[3]
    return KINDS[0] if trip.itself else KINDS[1]


def main(
    operators: Annotated[list[str] | None, typer.Argument(help="Default: all.")] = None,
    count: Annotated[int, typer.Option(help="Instances per operator.")] = 20,
    seed: Annotated[int, typer.Option()] = 0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name instances.")] = False,
) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    registry = OpRegistry.load()
    specs = [registry.get(name) for name in operators] if operators else registry.specs()
    rows: dict[str, Counter[str]] = {}
    shown: dict[tuple[str, str], list[RoundTrip]] = {}
    for spec in track(specs, "write and read"):
        rows[spec.name] = Counter()
        for trip in round_trips(spec, registry, count, seed):
            rows[spec.name][kind(trip)] += 1
            if not trip.itself:
                shown.setdefault((spec.name, kind(trip)), []).append(trip)
    print(f"{'':26s}{''.join(f'{k:>26s}' for k in KINDS)}")
    for name, row in rows.items():
        if row.total() != row[KINDS[0]] or not row:
            print(f"{name:26s}{''.join(f'{row[k]:26d}' for k in KINDS)}")
    for (name, what), trips in shown.items():
        for trip in trips[: 4 if verbose else 0]:
            print(f"{name}, {what}: {trip}")
    total = sum(rows.values(), Counter())
    print("; ".join(f"{total[k]} {k}" for k in KINDS), f"of {total.total()} instances")
    own = sum(row.total() == row[KINDS[0]] for row in rows.values())
    whole = sum(row.total() == row[KINDS[0]] + row[KINDS[1]] for row in rows.values())
    print(f"{own} of {len(rows)} operators always come back as themselves,", end=" ")
    print(f"{whole} with as much compared as before")
    raise typer.Exit(0 if whole == len(rows) else 1)


if __name__ == "__main__":
    typer.run(main)
