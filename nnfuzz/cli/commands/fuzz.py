"""The commands on campaigns: fuzz, settings, merge, and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnfuzz.base.setting import GROUPS
from nnfuzz.cli.errors import FAULT, FINDINGS, OK, USAGE, UsageError, tell, writing
from nnfuzz.cli.options import (
    AMOUNT,
    OTHERS,
    REPORTED,
    Backends,
    CampaignFolder,
    JUnit,
    Plugins,
    SummaryMd,
    from_file,
    settable,
    taking,
    values_of,
)
from nnfuzz.records.settings import SETTINGS
from nnfuzz.triage.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.cli.campaigns import Request
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.store.summary import Summary


@taking(*"time tests seed nodes operators exclude focus exporter known".split())
def fuzz(
    context: typer.Context,
    given: dict[str, Any],
    backend: Backends = None,
    plugin: Plugins = None,
    out: Annotated[
        Path | None,
        AMOUNT.option("Folder of the campaign [default: nnfuzz-out/BACKEND-TIME].", "DIR"),
    ] = None,
    resume: Annotated[
        bool,
        AMOUNT.flag(
            "Go on with the campaign in --out, under its own settings; limits, processes, "
            "--known and the setting reduce may be others. Hangs that are not confirmed yet are "
            "decided at the end.",
            "--resume",
        ),
    ] = False,
    junit: JUnit = None,
    summary_md: SummaryMd = None,
    quiet: Annotated[bool, REPORTED.flag("Nothing but the summary.", "--quiet", "-q")] = False,
    set: Annotated[
        list[str] | None,
        OTHERS.option("Change a setting; nnfuzz settings lists them.", "NAME=VALUE", "--set"),
    ] = None,
) -> None:
    """Fuzz compilers with random valid models and collect findings.

    \b
    nnfuzz fuzz --backend tvm                                 one minute of Apache TVM
    nnfuzz fuzz -b tvm,timeout=20 -b onnxruntime --time 4h --out campaign
    nnfuzz fuzz --out campaign --resume --time 8h             go on up to eight hours in total

    Ctrl-C ends the campaign with its summary; a second one kills it. All recorded tests survive
    both, and --resume goes on. Exit codes: 0 nothing found, 1 findings, 2 wrong usage, 3 a fault
    of nnfuzz itself. docs/CAMPAIGNS.md tells more.
    """
    settings = _settings(context, given, set or [], resume)
    _check(settings, resume)
    if not quiet:
        tell("starting the compilers and PyTorch; the first test follows in some seconds")
    from nnfuzz.cli.campaigns import Request
    from nnfuzz.cli.reports import report_campaign

    if resume and "backend" in from_file(context):
        backend = None
    named = {name: settings.pop(name) for name in _OF_SESSION & settings.keys()}
    given = {"out": out, "settings": settings, **named}
    request = Request(backends=tuple(backend or ()), plugins=tuple(plugin or ()), **given)
    result, config = _fuzz(request, resume, quiet)
    report_campaign(result, config, junit, summary_md)
    raise typer.Exit(exit_code(result.summary))


_OF_SESSION = {"known", "focus"}


def _settings(
    context: typer.Context, given: Mapping[str, Any], texts: list[str], resume: bool
) -> dict[str, Any]:
    """All settings by the names of their fields: those of --set, of options, and of nnfuzz.toml,
    which a campaign that is resumed ignores, since it has settings of its own.

    Raises: UsageError.
    """
    in_file = from_file(context)
    defaults = [] if resume else (context.default_map or {}).get("set", [])
    own = [] if "set" in in_file else texts
    silent = {SETTINGS[name].field for name in in_file if name in SETTINGS and resume}
    options = {field: value for field, value in given.items() if field not in silent}
    return {**options, **values_of(context.command, [*defaults, *own])}


def _check(settings: Mapping[str, Any], resume: bool) -> None:
    """Raises: UsageError for settings that exclude each other."""
    if settings.get("focus") and (settings.get("seed_models") or resume):
        other = "--resume" if resume else "the setting seed-models"
        raise UsageError(f"--focus makes seed models for a new campaign: leave out {other}")
    if settings.get("shard") and "seed" not in settings and not resume:
        raise UsageError("the setting shard needs --seed N, the same for all parts")


def _fuzz(request: Request, resume: bool, quiet: bool) -> tuple[CampaignResult, CampaignConfig]:
    """Runs a session of a campaign and prints its summary."""
    from nnfuzz.cli.campaigns import opened_campaign
    from nnfuzz.cli.progress import Interrupt, watcher
    from nnfuzz.cli.reports import summary_text

    with (
        opened_campaign(request, resume) as (folder, config, run),
        Interrupt() as interrupt,
        watcher(quiet, config, folder) as observer,
    ):
        result = run(observer, interrupt.asked)
    print(summary_text(result, config), end="")
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


def settings(context: typer.Context) -> None:
    """List the settings that nnfuzz fuzz --set NAME=VALUE changes: values, meanings, defaults.

    \b
    nnfuzz fuzz -b tvm --set epoch=64 --set probe=no

    In nnfuzz.toml they stand under [fuzz], without "set", as options do.
    """
    group: Any = context.parent and context.parent.command
    known = settable(group.commands["fuzz"])
    formatter = context.make_formatter()
    for title in GROUPS:
        own = [each for each in known.values() if each.group == title]
        if own:
            with formatter.section(title):
                formatter.write_dl([(f"{s.name}={s.kind.unit}", s.described) for s in own])
    typer.echo(formatter.getvalue().strip())


def merge(
    parts: Annotated[
        list[Path],
        typer.Argument(metavar="PART...", help="Folders of campaigns.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="New folder for the merged campaign."),
    ],
) -> None:
    """Merge the parts of a campaign: its tests, findings and counts, each once.

    \b
    nnfuzz merge part1 part2 part3 --out whole

    Parts are campaigns of one seed with equal settings, made with nnfuzz fuzz --set shard. nnfuzz
    reduce decides which findings of different parts have one cause. Exit code 1 for findings, 0 for
    none, 2 if they are no parts of one campaign.
    """
    from nnfuzz.campaign.merging import merge
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.cli.reports import summary_text
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.store.summary import read_summary

    with merge(parts, out) as store:
        result = CampaignResult.of(store, read_summary(out))
        config = CampaignConfig.from_json(store.config())
        print(summary_text(result, config), end="")
    raise typer.Exit(FINDINGS if result.findings else OK)


PAGE = "report.html"


def report(
    campaign: CampaignFolder,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help=f"Default: CAMPAIGN/{PAGE}.", show_default=False),
    ] = None,
    severity: Annotated[
        Severity, REPORTED.option("Findings as grave as this, and graver ones.", "LEAST")
    ] = Severity.ZEROS,
    follow: Annotated[
        bool,
        REPORTED.flag(
            "Write the page again until the campaign ends; it reloads itself.", "--follow"
        ),
    ] = False,
) -> None:
    """Write a campaign as one self-contained HTML page: findings and outcomes.

    \b
    nnfuzz report campaign
    nnfuzz report campaign --follow             while it runs, in another terminal

    The page loads nothing from anywhere and links to the findings' folders beside it.
    """
    from nnfuzz.base.files import write_atomically
    from nnfuzz.findings.page import CampaignReader, html_of

    path = out or campaign / PAGE
    reader = CampaignReader(campaign, path, severity)
    for number, page in enumerate(reader.follow() if follow else [reader.read()]):
        for line in page.missing:
            tell(f"missing from the page: {line}")
        with writing(path):
            write_atomically(path, html_of(page).encode("utf-8", errors="replace"))
        if number == 0:
            typer.echo(path)
