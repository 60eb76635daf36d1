"""The options of `nnfuzz fuzz`, each declared once: here, or for several commands in `options`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nnfuzz.cli import options as opt
from nnfuzz.cli.ci import JUnit, SummaryMd
from nnfuzz.cli.declared import (
    AMOUNT,
    EXPERT,
    MODELS,
    OTHERS,
    PROCESSES,
    RECORDED,
    REPORTED,
    SETTING,
    SUPPORT,
    TESTED,
    WRITTEN,
    Recorded,
    Setting,
)
from nnfuzz.cli.values import duration, listed
from nnfuzz.library.shares import (
    AIMED_FORMS,
    DEFAULT_DYNAMIC,
    DEFAULT_EDGES,
    DEFAULT_FORMS,
    DEFAULT_PIPELINES,
    DEFAULT_SKELETONS,
    DEFAULT_SPELLED,
)


def probe_duration(text: str) -> float:
    """A duration, or 0. Raises: UsageError."""
    return 0.0 if text.strip().rstrip("s") == "0" else duration(text, "--set probe")


@dataclass(frozen=True, kw_only=True)
class FuzzOptions:
    """The options of the command line; None where the setting's default holds."""

    backend: opt.Backends = None
    level: Annotated[opt.Levels, Recorded("levels", listed)] = None
    pipelines: Annotated[
        float | None,
        TESTED.share(
            "Share of the tests that run at a pipeline of their own in place of the most "
            "optimised level: passes and options of the compiler, drawn for each, where a backend "
            f"has such [default: {DEFAULT_PIPELINES}, 0 with --level]."
        ),
        SETTING,
    ] = None
    plugin: opt.Plugins = None
    time: Annotated[
        str | None,
        AMOUNT.option(
            "Stop so long after the first test, earlier sessions included: 90s, 10m, 1h30m "
            "[default: 1m, none with --tests].",
            "4h",
        ),
        Recorded("time_limit", duration),
    ] = None
    tests: Annotated[
        int | None, AMOUNT.option("Stop after N test cases.", "N", min=1), Recorded("tests_limit")
    ] = None
    out: Annotated[
        Path | None,
        AMOUNT.option("Folder of the campaign [default: nnfuzz-out/BACKEND-TIME].", "DIR"),
    ] = None
    resume: Annotated[
        bool,
        AMOUNT.flag(
            "Go on with the campaign in --out, under its own settings; limits, processes, "
            "--known and the setting reduce may be others. Hangs that are not confirmed yet are "
            "decided first.",
            "--resume",
        ),
    ] = False
    pr: Annotated[
        bool,
        AMOUNT.flag(
            "For a pull request: ten minutes unless --time or --tests says otherwise, and new "
            "findings of --baseline only; needs --baseline or --focus.",
            "--pr",
        ),
    ] = False
    shard: Annotated[
        str | None,
        AMOUNT.option(
            "Run the K-th of N parts of the campaign; nnfuzz merge merges them.",
            "K/N",
            "--shard",
        ),
        RECORDED,
    ] = None
    epoch: Annotated[
        int | None,
        AMOUNT.option(
            "Most tests before generation takes the results of earlier tests into account "
            "[default: 256].",
            "N",
            min=16,
        ),
        SETTING,
    ] = None
    seed: Annotated[opt.Seed, RECORDED] = None
    nodes: Annotated[opt.Nodes, RECORDED] = None
    engine: Annotated[opt.Engine, SETTING] = None
    domains: Annotated[opt.Domains, Recorded(read=listed)] = None
    operators: Annotated[opt.Operators, Recorded(read=listed)] = None
    exclude: Annotated[opt.Exclude, Recorded(read=listed)] = None
    dtypes: Annotated[opt.Dtypes, Recorded(read=listed)] = None
    exclude_dtypes: Annotated[opt.ExcludeDtypes, Setting(read=listed)] = None
    motifs: Annotated[opt.Motifs, SETTING] = None
    skeletons: Annotated[
        float | None,
        MODELS.share(
            "Share of the models that get a skeleton: a part of a model as people deploy it, an "
            "encoder layer with its mask for example (nnfuzz settings) "
            f"[default: {DEFAULT_SKELETONS}]."
        ),
        SETTING,
    ] = None
    dynamic: Annotated[
        float | None,
        MODELS.share(
            "Share of the models that get a symbolic dimension, where they can, and are run at "
            f"three sizes [default: {DEFAULT_DYNAMIC}]."
        ),
        SETTING,
    ] = None
    quantize: Annotated[opt.Quantize, SETTING] = None
    sizes: Annotated[opt.Sizes, SETTING] = None
    seed_models: Annotated[opt.SeedModels, RECORDED] = None
    focus: Annotated[
        list[str] | None,
        MODELS.option(
            "Every model touches one of these operators, or grows around a small one that one of "
            "these passes changes.",
            "A,B",
        ),
    ] = None
    invalid: Annotated[
        bool | None,
        MODELS.flag(
            "Models with one deliberate fault each, which a compiler must refuse with an error of "
            "its own: crashes, hangs, internal errors and acceptance are findings.",
            "--invalid",
        ),
        RECORDED,
    ] = None
    edges: Annotated[
        bool | None,
        MODELS.flag(
            "Inputs with NaN, infinities, signed zeros and subnormals, and empty tensors; "
            "compared where ONNX or IEEE 754 decides. Without --operators, those alone that "
            "decide.",
            "--edges",
        ),
        RECORDED,
    ] = None
    edge_share: Annotated[
        float | None,
        MODELS.share(
            "Share of the tests that are made as with --edges, in a campaign without it "
            f"[default: {DEFAULT_EDGES}; 0 with --invalid]."
        ),
        SETTING,
    ] = None
    exporter: Annotated[opt.Exporter, RECORDED] = None
    opset: Annotated[opt.Opset, SETTING] = None
    rewrites: Annotated[
        float | None,
        WRITTEN.share(
            "Share of the models written by nnfuzz itself that are rewritten into other ones with "
            "the same meaning, by random rules (nnfuzz rewrite --list) [default: 0; with --edges "
            "0.3, by those of empty tensors]."
        ),
        SETTING,
    ] = None
    spelled: Annotated[
        float | None,
        WRITTEN.share(
            "Share of the models written by nnfuzz itself that are spelled otherwise: attributes "
            "and operands at their defaults left out or written, axes from behind, constants as "
            f"nodes [default: {DEFAULT_SPELLED}, 0 with --invalid]."
        ),
        SETTING,
    ] = None
    forms: Annotated[
        float | None,
        WRITTEN.share(
            "Share of the models written by nnfuzz itself whose file has another form: a part in a "
            "model-local function, initializers that are inputs as well or hold their numbers in "
            "other fields, unusual names, external data, integers as strings inside or as inputs "
            f"and outputs [default: {DEFAULT_FORMS}, {AIMED_FORMS} with --focus, 0 with --edges]."
        ),
        SETTING,
    ] = None
    known: Annotated[
        Path | None,
        REPORTED.option(
            "Failures to count but not to report: a file with a signature or a pattern "
            "(backend=tvm operator=Pow dtype=bfloat16) in each line, a folder of findings, or a "
            "ledger (nnfuzz bugs).",
            "FILE",
        ),
    ] = None
    baseline: Annotated[
        Path | None,
        REPORTED.option(
            "Folder or summary.json of an earlier campaign: its findings are known, and only new "
            "ones fail.",
            "CAMPAIGN",
        ),
    ] = None
    regressions: Annotated[
        bool | None,
        REPORTED.flag(
            "Of two releases of one compiler (-b NAME@1.2.3 -b NAME): report only what one of "
            "them gets right and the other one wrong [default: everything].",
            "--regressions/--no-regressions",
        ),
        RECORDED,
    ] = None
    reduce: Annotated[
        bool | None,
        REPORTED.flag(
            "Reduce findings on the way, in a fifth to a half of the time, and for a while at "
            "the end; merge those that are the same [default: yes].",
            "--reduce/--no-reduce",
        ),
        SETTING,
    ] = None
    throttle: Annotated[
        int | None,
        REPORTED.option(
            "Keep away from the operators that a failure is associated with once it has occurred "
            "N times, 0 for never [default: 5].",
            "N",
            min=0,
        ),
        SETTING,
    ] = None
    full_check: Annotated[
        float | None,
        REPORTED.share(
            "Share of agreeing tests that the full oracle checks as well [default: 0.02]."
        ),
        SETTING,
    ] = None
    junit: JUnit = None
    summary_md: SummaryMd = None
    quiet: Annotated[bool, REPORTED.flag("Nothing but the summary.", "--quiet", "-q")] = False
    probe: Annotated[
        str | None,
        SUPPORT.option(
            "Time for single-operator probes beside the first tests [default: 10s, at most a "
            "twentieth of --time; with --tests, a tenth as many probes as tests]; 0 for those "
            "alone that refused tests give reason to.",
            "10s",
        ),
        Setting("probe_seconds", probe_duration),
    ] = None
    learn: Annotated[
        bool | None,
        SUPPORT.flag(
            "Stop generating what a backend turns out not to support [default: yes].",
            "--learn/--no-learn",
        ),
        SETTING,
    ] = None
    fresh: Annotated[opt.Fresh, EXPERT] = False
    workers: Annotated[
        int | None,
        PROCESSES.option("Tests that run side by side [default: by cores].", "N", min=1),
        SETTING,
    ] = None
    set: Annotated[
        list[str] | None,
        OTHERS.option(
            "Change a setting that few people turn; nnfuzz settings lists them.",
            "NAME=VALUE",
            "--set",
            is_eager=True,
        ),
    ] = None
