"""`nnfuzz doctor CAMPAIGN`: is a campaign's folder in order?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import FINDINGS, OK


def doctor(
    campaign: Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)],
    repair: Annotated[bool, typer.Option("--repair", help="Mend problems where possible.")] = False,
) -> None:
    """Check the folder of a campaign that is not running: its database, folders and leftovers.

    \b
    nnfuzz doctor campaign
    nnfuzz doctor campaign --repair

    Nothing that could be a finding is deleted: folders of no finding are put aside, and a damaged
    database is kept beside the new one with its readable rows. Exit code 0 if all is well or
    mended, 1 if not, 2 if there is no campaign or it is running.
    """
    from nnfuzz.base.text import visible
    from nnfuzz.parts.doctor import problems

    count, mendable, left = 0, False, 0
    for problem in problems(campaign):
        count += 1
        typer.echo(visible(problem.description))
        done = repair and problem.mend is not None
        if repair and problem.mend is not None:
            problem.mend()
        mendable |= problem.mend is not None
        left += not done
        typer.echo(visible(f"  {'done' if done else 'remedy'}: {problem.remedy}"))
    if not count:
        typer.echo(f"{campaign} is in order")
    elif mendable and not repair:
        typer.echo(f"nnfuzz doctor --repair {campaign} mends what it can")
    raise typer.Exit(FINDINGS if left else OK)
