"""`nnfuzz merge A B --out C`: merges the parts of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import FINDINGS, OK, tell


def merge(
    parts: Annotated[
        list[Path],
        typer.Argument(metavar="PART...", help="Folders of campaigns.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder of the whole; an earlier result of this command gets what is new.",
        ),
    ],
) -> None:
    """Merge the parts of a campaign: its tests, findings and counts, each once.

    \b
    nnfuzz merge part1 part2 part3 --out whole
    nnfuzz merge part3 --out whole                        part3 has gone on meanwhile

    Parts are campaigns of one seed with equal settings, made with nnfuzz fuzz --set shard. Neither
    their order nor how often one is given matters. The result is a campaign for every command but
    fuzz --resume; nnfuzz reduce decides which findings of different parts have one cause. Exit
    code 1 for findings, 0 for none, 2 if they are no parts of one campaign.
    """
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.cli.summary import print_summary
    from nnfuzz.parts.merging import merge
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.store.summary import read_summary

    with merge(parts, out, tell) as store:
        result = CampaignResult.of(store, read_summary(out))
        print_summary(result, CampaignConfig.from_json(store.config()))
    raise typer.Exit(FINDINGS if result.findings else OK)
