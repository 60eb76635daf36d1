"""The settings of campaigns that people choose, and the table of all settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nnfuzz.base.setting import (
    AMOUNT,
    DURATION,
    MODELS,
    NAMES,
    PROCESSES,
    REPORTED,
    SHARE,
    SUPPORT,
    TESTED,
    YES_OR_NO,
    Kind,
    Setting,
    count,
    setting,
    settings_of,
    words,
)
from nnfuzz.records.schedule import FIRST, LONGEST
from nnfuzz.testcase.settings import EXCLUDE_DTYPES, CaseSettings
from nnfuzz.triage.severity import Severity

FIRST_SECONDS = 10.0
"""The time for questions before the first test, where nothing ends a campaign."""
MOST_WORKERS = 1024
"""The most workers of a kind: more than the cores of any machine; a file may ask for anything."""


@dataclass(frozen=True, kw_only=True)
class CampaignSettings:
    """The settings of a campaign that it keeps, beside those of its test cases."""

    levels: tuple[str, ...] = setting(
        (),
        "Levels to run: all that nnfuzz backends lists may be named",
        TESTED,
        NAMES,
        said="those with a star there",
        name="level",
    )
    pipelines: float = setting(
        0.0,
        "Share of the tests that run at a pipeline of their own in place of the most optimised "
        "level: passes and options of the compiler, drawn for each, where a backend has such",
        TESTED,
        SHARE,
        usual=0.5,
        said="{usual}, 0 with level",
    )
    defaults: float = setting(
        0.0,
        "Share of the tests that compilers run as their users have them, too, without settings of "
        "the adapter (nnfuzz backends NAME). Accuracy that is given away so, or by a documented "
        "narrowing, is a finding; 0 for neither",
        TESTED,
        SHARE,
        usual=0.1,
        said="{usual}, 0 with level",
    )
    time_limit: float | None = setting(
        None,
        "Stop so long after the first test, earlier sessions included: 90s, 10m, 1h30m",
        AMOUNT,
        DURATION,
        usual=60.0,
        said="{usual:.0f}s, none with --tests",
        name="time",
    )
    tests_limit: int | None = setting(
        None, "Stop after N test cases", AMOUNT, count(1), name="tests"
    )
    shard: str = setting(
        "",
        "Run the K-th of N parts of the campaign; nnfuzz merge merges them",
        AMOUNT,
        words("K/N"),
    )
    epoch: int = setting(
        LONGEST,
        "Most tests before generation takes the results of earlier tests into account",
        AMOUNT,
        count(FIRST),
    )
    seed: int = setting(
        0,
        "Same seed and options, same models",
        MODELS,
        count(0, unit="S"),
        said="drawn by fuzz, {default} for generate",
    )
    regressions: bool = setting(
        False,
        "Of two releases of one compiler (-b NAME@1.2.3 -b NAME): report only what one of them "
        "gets right and the other one wrong",
        REPORTED,
        YES_OR_NO,
    )
    reduce: bool = setting(
        True,
        "Reduce findings on the way, in a fifth to a half of the time, and for a while at the end; "
        "merge those that are the same",
        REPORTED,
        YES_OR_NO,
    )
    severity: str = setting(
        Severity.ZEROS.value,
        f"Report findings as grave as this and graver ones: {', '.join(Severity)}. What is not "
        "reduced yet may turn out to be graver, and is reported",
        REPORTED,
        Kind("LEAST", f"one of {', '.join(Severity)}", lambda text: Severity(text).value),
        said="all",
    )
    throttle: int = setting(
        5,
        "Keep away from the operators that a failure or refusal is associated with once it has "
        "occurred N times, 0 for never",
        REPORTED,
        count(),
    )
    full_check: float = setting(
        0.02, "Share of agreeing tests that the full oracle checks as well", REPORTED, SHARE
    )
    probe: bool = setting(
        True,
        "Leave out the operators and dtypes that a compiler refuses, by the table of its adapter; "
        "a compiler without a table is asked before the first test",
        SUPPORT,
        YES_OR_NO,
    )
    patience: float = setting(
        5.0,
        "Time that every run gets before it looks like a hang; a run also gets 20 times the time "
        "of the slowest one before it. Hangs are confirmed with the timeout of the backend, one of "
        "each kind",
        AMOUNT,
        replace(DURATION, unit="10s"),
        said="{default:g}s",
    )
    workers: int = setting(
        1,
        "Tests that run side by side",
        PROCESSES,
        count(1, MOST_WORKERS),
        said="by cores",
    )
    ray: str = setting(
        "",
        "Address of a Ray cluster; tests run on the cores of its other nodes as well, which need "
        "the same compilers at the same paths. Findings are reduced here",
        PROCESSES,
        words("auto|HOST:PORT"),
    )


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """The settings of one session of a campaign, which does not keep them."""

    known: Path | None = setting(
        None,
        "Failures to count but not to report: a file with a signature in each line, a folder of "
        "findings, an earlier campaign or its summary.json, or a ledger (nnfuzz bugs)",
        REPORTED,
        Kind("FILE", "a path", Path),
    )


SETTINGS: Mapping[str, Setting] = {
    declared.name: declared
    for declared in (
        *settings_of(CampaignSettings),
        *settings_of(CaseSettings),
        EXCLUDE_DTYPES,
        *settings_of(SessionSettings),
    )
}
"""All settings by the names that people write."""
