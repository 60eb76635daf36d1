"""How many of the bugs that other people filed nnfuzz would have found.

    python -m scripts.recall reproduce                      every entry on its release
    python -m scripts.recall reproduce onnxslim tvm/topk    some of them
    python -m scripts.recall reach                          what no campaign can find; minutes
    python -m scripts.recall campaigns --out recall         six CPU minutes for each entry
    python -m scripts.recall campaigns --default            an hour for each release, at nothing
    python -m scripts.recall ingredients --models 2000      how often models have what entries need
    python -m scripts.recall page                           the page of what is recorded

Results are written beside the entries (scripts/recall/bugs/*.jsonl); what is recorded is not run
again. Releases are installed in environments of their own, over the network, once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from scripts.recall import campaigns as campaign_runs
from scripts.recall import page as pages
from scripts.recall.campaigns import Met, record, recorded
from scripts.recall.entries import FOLDER, Entry, entries
from scripts.recall.reproduction import outcomes

app = typer.Typer(help=__doc__, add_completion=False)
Wanted = Annotated[list[str] | None, typer.Argument(help="Beginnings of names, SYSTEM/FILE.")]


@app.command()
def reproduce(wanted: Wanted = None, fixed: bool = False) -> None:
    """Run entries on the release that has the bug, or with --fixed on the one that has it not."""
    failed = 0
    for outcome in outcomes(chosen(wanted), fixed):
        right = outcome.outcome == "ok" if fixed else outcome.reproduces
        failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {outcome.entry.name} {outcome.release}: "
              f"{outcome.outcome} {outcome.detail[:100]!r}")  # fmt: skip
    sys.exit(bool(failed))


@app.command()
def reach(wanted: Wanted = None) -> None:
    """Say which entries' models generation could make, and which bugs the oracle would see. Entries
    with a line in reach.jsonl are not asked again."""
    path = FOLDER / "reach.jsonl"
    done = {line.entry for line in recorded(path, pages.ReachLine)}
    for entry in chosen(wanted):
        if entry.name not in done:
            record(path, pages.reach_of(entry))
    for line in recorded(path, pages.ReachLine):
        print(f"{line.reach:9} {line.entry:45} {line.why or line.judged}"[:150])


@app.command()
def campaigns(
    wanted: Wanted = None,
    out: Annotated[Path, typer.Option(help="Folder of the campaigns.")] = Path("recall"),
    minutes: Annotated[float, typer.Option(help="Of CPU; 0: 6, or 60 with --default.")] = 0,
    seed: int = 1,
    default: Annotated[bool, typer.Option(help="Aim at nothing.")] = False,
) -> None:
    """Run campaigns against the releases that have the bugs, record which bugs they find, and print
    how many were met by how many CPU minutes."""
    path = FOLDER / ("default.jsonl" if default else "aimed.jsonl")
    done = {(m.entry, m.campaign) for m in recorded(path, Met)}
    group = chosen(wanted)
    usual = campaign_runs.DEFAULT_MINUTES if default else campaign_runs.AIMED_MINUTES
    for entry in group:
        campaign = campaign_runs.campaign_of(entry, not default, minutes or usual, seed)
        if (entry.name, campaign.name) not in done:
            try:
                campaign_runs.run(campaign, out)
            except campaign_runs.CampaignError as error:
                print(f"{entry.name}: {error}", flush=True)
                continue
            result = campaign_runs.met(entry, campaign, out)
            record(path, result)
            print(
                f"{entry.name}: {result.findings} findings, {result.finding or 'not met'}, "
                f"{result.minutes} CPU minutes",
                flush=True,
            )
    names = {entry.name for entry in group}
    print(campaign_runs.curve(m for m in recorded(path, Met) if m.entry in names))


@app.command()
def ingredients(
    wanted: Wanted = None,
    models: int = 2000,
    seed: int = 1,
    aimed: Annotated[bool, typer.Option(help="At the operators of each entry.")] = False,
) -> None:
    """Count how many models of a campaign have the operators of an entry, then more and more of its
    ingredients, without running a compiler: which one is rare?"""
    from scripts.recall import ingredients as counting
    from scripts.recall.containment import INGREDIENTS

    group = chosen(wanted)
    parts = [([e], e.operators) for e in group] if aimed else [(group, [])]
    print(f"{'':40} {' '.join(('opers', *(name[:5] for name in INGREDIENTS)))}")
    for part, focus in parts:
        config = counting.usual_config(focus)
        for name, counts in counting.counted(part, config, seed, models).items():
            print(f"{name:40} {counts.line}", flush=True)


@app.command()
def page() -> None:
    """Print the page of what is recorded."""
    print(pages.text())


def chosen(wanted: list[str] | None) -> list[Entry]:
    """The entries that are asked for. Exits with 2 if there is none."""
    found = entries(wanted or ())
    if not found:
        print(f"no entry begins with {wanted}; names are SYSTEM/FILE, as in {FOLDER}")
        sys.exit(2)
    return found


if __name__ == "__main__":
    app()
