"""Options of `nnfuzz fuzz` alone, as annotated types.

Whatever is not given is None: a resumed campaign has its own settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli import completion
from nnfuzz.cli.options import JUDGING, LIMITS, MACHINE, SUPPORT, TESTED

Backends = Annotated[
    list[str] | None,
    typer.Option(
        "--backend",
        "-b",
        metavar="NAME[,KEY=VALUE]",
        help="Compiler under test, with options (nnfuzz backends lists both); repeat it to "
        "compare several.",
        autocompletion=completion.backends,
        rich_help_panel=TESTED,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="4h",
        help="Stop after this long, earlier sessions included: 90s, 10m, 1h30m "
        "[default: 1m, none with --tests].",
        rich_help_panel=LIMITS,
    ),
]
Tests = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Stop after N test cases.", rich_help_panel=LIMITS),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the campaign [default: nnfuzz-out/BACKEND-TIME].",
        rich_help_panel=LIMITS,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with the campaign in --out, under its own settings.",
        rich_help_panel=LIMITS,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes per backend [default: by cores].",
        rich_help_panel=MACHINE,
    ),
]
Producers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that make models [default: by cores].",
        rich_help_panel=MACHINE,
    ),
]
Known = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Failures to count but not to report: a file with a signature or a pattern "
        "(backend=tvm operator=Pow dtype=bfloat16) in each line, or a folder of findings.",
        rich_help_panel=JUDGING,
    ),
]
FullCheck = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of agreeing tests that the full oracle checks as well [default: 0.02].",
        rich_help_panel=JUDGING,
    ),
]
ProbeTime = Annotated[
    str | None,
    typer.Option(
        metavar="10s",
        help="Time for single-operator probes before the start, 0 for none [default: 10s, "
        "at most a tenth of --time].",
        rich_help_panel=SUPPORT,
    ),
]
Learn = Annotated[
    bool | None,
    typer.Option(
        "--learn/--no-learn",
        help="Stop generating what a backend turns out not to support [default: learn].",
        rich_help_panel=SUPPORT,
    ),
]
Reduce = Annotated[
    bool | None,
    typer.Option(
        "--reduce/--no-reduce",
        help="Reduce findings on the way, in a fifth to a half of the time, and for a while at "
        "the end; merge those that are the same [default: reduce].",
        rich_help_panel=JUDGING,
    ),
]
Throttle = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Keep away from the operators that a failure is associated with once it has occurred "
        "N times, 0 for never [default: 5].",
        rich_help_panel=JUDGING,
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Run all probes, those as well whose answers earlier campaigns have left behind.",
        rich_help_panel=JUDGING,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Nothing but the summary.", rich_help_panel=JUDGING),
]
