"""`nnfuzz publish CAMPAIGN URL`: publishes everything new in a campaign, to be merged."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def publish(
    campaign: Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)],
    where: Annotated[
        str,
        typer.Argument(
            metavar="DIR|URL",
            help="A folder that others see, or an address that fsspec knows, such as "
            "s3://bucket/name (its library has to be installed).",
            show_default=False,
        ),
    ],
) -> None:
    """Publish everything new in a campaign, which may be running, as one file that never changes.

    \b
    nnfuzz publish part2 /nfs/tvm
    nnfuzz merge /nfs/tvm --out whole       everything that was published there

    The file is named by its content, and is there whole or not at all.
    """
    from nnfuzz.parts.segments import publish

    name = publish(campaign, where)
    typer.echo(f"published as {name}" if name else "nothing is new since the last time")
