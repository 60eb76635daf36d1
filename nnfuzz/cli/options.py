"""The options that several commands share and all of `nnfuzz fuzz`, as annotated types.

Whatever is not given is None, so that each command keeps the defaults of its own settings, and a
resumed campaign its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli import completion
from nnfuzz.cli.consent import remember

MOST_NODES = 1000
"""Operators per model at most: a test case may take 60 s, and one of 1000 takes about 10 s."""

Nodes = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MOST_NODES,
        metavar="K",
        help=f"Operators per model, at most {MOST_NODES} [default: 10]. Few find the same bugs "
        "faster; many find what only long chains of optimisations do.",
    ),
]
Exporter = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What writes the models: torchscript, dynamo, direct (which alone has every operator "
        "and dtype), several with commas between, or mixed: direct and torchscript by turns, which "
        "is the default.",
        autocompletion=completion.exporters,
    ),
]
Opset = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="ONNX opset [default: the newest that each exporter writes and the backends take].",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="S",
        help="Same seed and options, same models [default: drawn by fuzz, 0 for generate].",
    ),
]
Motifs = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="M",
        help="Motifs per model on average: patterns that optimisers look for [default: 0.5].",
    ),
]
Dynamic = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of the models that get a symbolic dimension, where they can, and are run at "
        "three sizes [default: 0.05].",
    ),
]
Invalid = Annotated[
    bool | None,
    typer.Option(
        "--invalid",
        help="Models with one deliberate fault each, which a compiler must refuse with an error of "
        "its own: crashes, hangs, internal errors and acceptance are findings.",
        show_default=False,
    ),
]
Rewrites = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of the models written by nnfuzz itself that are rewritten into other ones with "
        "the same meaning, by random rules (nnfuzz rewrite --list) [default: 0; with --edges 0.3, "
        "by those of empty tensors].",
    ),
]
Edges = Annotated[
    bool | None,
    typer.Option(
        "--edges",
        help="Inputs with NaN, infinities, signed zeros and subnormals, and empty tensors; "
        "compared where ONNX or IEEE 754 decides. Without --operators, those alone that decide.",
        show_default=False,
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What makes graphs: direct (sizes are numbers at once), concolic (by propagation), "
        "symbolic (by solving whole graphs) or mutate (of eight, seven are changes of the first) "
        "[default: direct].",
        autocompletion=completion.engines,
    ),
]
Operators = Annotated[
    list[str] | None,
    typer.Option(
        "--operators",
        "--ops",
        metavar="A,B",
        help="Generate from these operators only (see nnfuzz ops).",
        autocompletion=completion.operators,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B", help="Leave these operators out.", autocompletion=completion.operators
    ),
]
Dtypes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Values of these dtypes only, such as float32,int64. Others occur where an operator "
        "admits nothing else: the int64 indices of Gather, the bool that Where asks for and "
        "Greater returns. Seed models keep theirs.",
        autocompletion=completion.dtypes,
    ),
]
ExcludeDtypes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="No value of these dtypes at all; operators that cannot do without them are left out.",
        autocompletion=completion.dtypes,
    ),
]


def _named(context: typer.Context, plugins: list[Path] | None) -> list[Path] | None:
    """Keeps what the user has named, where a command runs: a value may also only be checked."""
    return plugins if context.resilient_parsing else remember(plugins)


SeedModels = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Start every graph from one of these ONNX models; operators are inserted around and "
        "inside. Without --exporter, direct emission alone is used.",
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py",
        help="File (or importable module) with further backends, operators or motifs. It runs with "
        "your rights; once named here, findings and campaigns that name it may use it, too.",
        callback=_named,
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--level",
        metavar="O0,O3",
        help="Levels to run: all that nnfuzz backends lists may be named [default: those with a "
        "star there].",
        autocompletion=completion.levels,
    ),
]
Backends = Annotated[
    list[str] | None,
    typer.Option(
        "--backend",
        "-b",
        metavar="NAME[@RELEASE][,KEY=VALUE]",
        help="Compiler under test, with options (nnfuzz backends lists both); repeat it to "
        "compare several. A release that is not installed gets an environment of its own.",
        autocompletion=completion.backends,
    ),
]
OwnBackend = Annotated[
    str,
    typer.Option(
        "--backend",
        "-b",
        metavar="NAME[@RELEASE][,KEY=VALUE]",
        help="Run it on this backend [default: its own, with its options].",
        autocompletion=completion.backends,
    ),
]
Original = Annotated[
    bool,
    typer.Option(
        "--original",
        help="Take the model that was generated, where the finding has a reduced one as well.",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        metavar="4h",
        help="Stop after this long, earlier sessions included: 90s, 10m, 1h30m "
        "[default: 1m, none with --tests].",
    ),
]
Tests = Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after N test cases.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of the campaign [default: nnfuzz-out/BACKEND-TIME]."),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with the campaign in --out, under its own settings; limits, processes, "
        "--reduce and --known may be others. Hangs that are not confirmed yet are decided first.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Processes per backend [default: by cores].")
]
Producers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Processes that make models [default: by cores]."),
]
Known = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Failures to count but not to report: a file with a signature or a pattern "
        "(backend=tvm operator=Pow dtype=bfloat16) in each line, or a folder of findings.",
    ),
]
Pipelines = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of the tests that run at a pipeline of their own in place of the most "
        "optimised level: passes and options of the compiler, drawn for each, where a backend has "
        "such [default: 0.5, 0 with --level].",
    ),
]
ShardOf = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="K/N",
        help="Run the K-th of N parts of the campaign; nnfuzz merge puts them together.",
    ),
]
Share = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|URL",
        help="Where the parts of --shard tell each other what they learn, so that they make the "
        "tests that one process would: a folder that all see, or an address that fsspec knows "
        "[default: each part learns from its own tests]. With --ray, what nodes publish is there.",
    ),
]
Epoch = Annotated[
    int | None,
    typer.Option(
        min=16,
        metavar="N",
        help="Tests after which what the ones before have shown is taken into account, at most; "
        "more of them keep more nodes of --ray busy [default: 256].",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Run on all nodes of a Ray cluster: the one at this address, or the one that this "
        "machine or job belongs to, or a new one of this machine alone. Needs nnfuzz[ray], and "
        "--share where there are several machines.",
    ),
]
Disk = Annotated[
    str | None,
    typer.Option(
        metavar="10g",
        help="What the folder may take. At this size the oldest tests that agree lose their "
        "statistics and are packed, then the folders of the oldest duplicates are packed; when "
        "that is not enough, the campaign ends. Findings stay [default: no limit].",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        metavar="CAMPAIGN",
        help="Folder or summary.json of an earlier campaign: what it found is known, and only what "
        "is new fails.",
    ),
]
Focus = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A,B",
        help="Every model touches one of these operators, or grows around a small one that one of "
        "these passes changes.",
        autocompletion=completion.operators,
    ),
]
PullRequest = Annotated[
    bool,
    typer.Option(
        "--pr",
        help="For a pull request: ten minutes unless --time or --tests says otherwise, and new "
        "findings of --baseline only; needs --baseline or --focus.",
    ),
]
FullCheck = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="SHARE",
        help="Share of agreeing tests that the full oracle checks as well [default: 0.02].",
    ),
]
ProbeTime = Annotated[
    str | None,
    typer.Option(
        metavar="10s",
        help="Time for single-operator probes beside the first tests [default: 10s, at most a "
        "twentieth of --time; with --tests, a tenth as many probes as tests]; 0 for those alone "
        "that refused tests give reason to.",
    ),
]
Learn = Annotated[
    bool | None,
    typer.Option(
        "--learn/--no-learn",
        help="Stop generating what a backend turns out not to support [default: learn].",
    ),
]
Reduce = Annotated[
    bool | None,
    typer.Option(
        "--reduce/--no-reduce",
        help="Reduce findings on the way, in a fifth to a half of the time, and for a while at "
        "the end; merge those that are the same [default: reduce].",
    ),
]
Throttle = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Keep away from the operators that a failure is associated with once it has occurred "
        "N times, 0 for never [default: 5].",
    ),
]
Guidance = Annotated[
    bool | None,
    typer.Option(
        "--guidance/--no-guidance",
        help="Generate more of what has shown something new: operators with new attributes and "
        "shapes, and what passes of the compiler change [default: no guidance].",
    ),
]
Regressions = Annotated[
    bool | None,
    typer.Option(
        "--regressions/--no-regressions",
        help="Of two releases of one compiler (-b NAME@1.2.3 -b NAME): report only what one of "
        "them gets right and the other one wrong [default: everything].",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Run all probes, those as well whose answers earlier campaigns have left behind.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Nothing but the summary.")]
