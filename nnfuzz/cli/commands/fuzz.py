"""`nnfuzz fuzz`: options in, campaign out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nnfuzz.cli.declared import recorded, recorded_places, taking
from nnfuzz.cli.defaults import from_file
from nnfuzz.cli.errors import FAULT, FINDINGS, OK, USAGE, UsageError, tell
from nnfuzz.cli.fuzz_options import FuzzOptions
from nnfuzz.cli.values import listed

if TYPE_CHECKING:
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.library.campaign import Allow, Request
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.store.summary import Summary

PR_TIME = "10m"


@taking(FuzzOptions)
def fuzz(context: typer.Context, options: FuzzOptions) -> None:
    """Fuzz compilers with random valid models and collect findings.

    \b
    nnfuzz fuzz --backend tvm                                 one minute of Apache TVM
    nnfuzz fuzz -b onnxruntime --tests 1000 --exporter direct --seed 7
    nnfuzz fuzz -b tvm,timeout=20 -b onnxruntime --time 4h --out campaign
    nnfuzz fuzz --out campaign --resume --time 8h             go on up to eight hours in total
    nnfuzz fuzz -b onnxruntime --dtypes float32,int64         nothing but these dtypes
    nnfuzz fuzz -b mine --plugin my_backend.py
    nnfuzz fuzz -b openvino --invalid --tests 1000            models that must be refused
    nnfuzz fuzz -b tvm --seed 7 --tests 10000 --shard 2/8 --out part2    then nnfuzz merge
    nnfuzz fuzz -b onnxruntime@1.20.1 -b onnxruntime --regressions   regressions since 1.20.1
    nnfuzz fuzz -b onnxruntime --pr --focus Conv,Gemm --baseline nightly/summary.json

    Ctrl-C ends the campaign with its summary; a second one kills it. All recorded tests survive
    both, and --resume goes on. Exit codes: 0 nothing found, 1 findings, 2 wrong usage, 3 a fault
    of nnfuzz itself. A failure that was not confirmed is no finding: failures that did not repeat,
    and hangs that the campaign had no time for, are reported, and --resume decides on hangs.
    """
    _check(options)
    if not options.quiet:
        tell("starting the compilers and PyTorch; the first test follows in some seconds")
    from nnfuzz.cli.campaign_reports import report_campaign

    if options.pr and options.time is None and options.tests is None:
        options = replace(options, time=PR_TIME)
    request = _request(_without_defaults(options, context) if options.resume else options)
    result, config = _fuzz(request, options)
    report_campaign(result, config, options.junit, options.summary_md)
    raise typer.Exit(exit_code(result.summary))


def _check(options: FuzzOptions) -> None:
    """Raises: UsageError for options that exclude each other."""
    if options.pr and not (options.baseline or options.focus):
        raise UsageError("--pr needs --baseline CAMPAIGN, --focus NAMES, or both: what is new?")
    if options.focus and (options.seed_models or options.resume):
        other = "--seed-models" if options.seed_models else "--resume"
        raise UsageError(f"--focus makes seed models for a new campaign: leave out {other}")
    if options.shard and options.seed is None and not options.resume:
        raise UsageError("--shard needs --seed N, the same for all parts: they share the indexes")


def _without_defaults(options: FuzzOptions, context: typer.Context) -> FuzzOptions:
    """Ignores nnfuzz.toml: a campaign that is resumed has settings of its own."""
    own = {"backend", "known", "baseline", *(name for name, _ in recorded_places(FuzzOptions))}
    silent: dict[str, Any] = dict.fromkeys(own & from_file(context))
    return replace(options, **silent)


def _request(options: FuzzOptions) -> Request:
    from nnfuzz.library.campaign import Request

    return Request(
        backends=tuple(options.backend or ()),
        plugins=tuple(options.plugin or ()),
        out=options.out,
        known=options.known,
        baseline=options.baseline,
        focus=listed(options.focus),
        settings=recorded(options),
        note=tell,
    )


def _allow(request: Request) -> Allow:
    from nnfuzz.cli.consent import Consent

    return Consent(request.out or Path(), request.plugins).require


def _fuzz(request: Request, options: FuzzOptions) -> tuple[CampaignResult, CampaignConfig]:
    """Runs a session of a campaign and prints its summary."""
    from nnfuzz.cli.interrupt import Interrupt
    from nnfuzz.cli.progress import watcher
    from nnfuzz.cli.summary import print_summary
    from nnfuzz.library.campaign import Campaign

    resumes = options.resume
    begun = Campaign.resume(request, _allow(request)) if resumes else Campaign.create(request)
    with begun as campaign:
        config = campaign.config
        with Interrupt() as interrupt, watcher(options.quiet, config, campaign.folder) as observer:
            result = campaign.run(observer, interrupt.asked, options.fresh)
    print_summary(result, config)
    if part := _empty(result.summary):
        tell(f"{part} is empty: there is nothing to do")
    elif not result.summary.tests and not result.findings:
        typer.echo(f"error: {nothing_ran(result.summary, interrupt.asked())}", err=True)
    return result, config


def exit_code(summary: Summary) -> int:
    """3 for faults of nnfuzz without any finding; 2 if there was something to test, and no test."""
    if summary.findings:
        return FINDINGS
    if summary.faults:
        return FAULT
    return OK if summary.tests or _empty(summary) else USAGE


def _empty(summary: Summary) -> str:
    """Which part of a campaign has no index; "" if it has one."""
    from nnfuzz.base.shard import Shard

    config = summary.config
    shard, tests = str(config.get("shard", "")), config.get("tests_limit")
    if not shard or not isinstance(tests, int):
        return ""
    return "" if Shard.parse(shard).of(tests) else f"part {shard} of --tests {tests}"


def nothing_ran(summary: Summary, interrupted: bool) -> str:
    """Why a campaign has not finished a single test, with the fix."""
    reasons = ", ".join(f"{stage} {count}" for stage, count in summary.not_run.items())
    if summary.faults:
        why = "nnfuzz itself failed; the table `events` of campaign.sqlite says how: please report"
    elif hangs := summary.unconfirmed_hangs:
        why = f"{len(hangs)} look like hangs: --resume confirms them"
    elif reasons:
        why = (
            f"no index gave a model ({reasons}): allow more operators, dtypes or nodes, or try "
            "--exporter direct"
        )
    elif interrupted:
        why = "it was interrupted before the first one ended: --resume goes on"
    else:
        why = "the time was over before the first one ended: give it more --time or --set probe=0"
    return f"not a single test was run: {why}"
