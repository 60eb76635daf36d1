"""Every report of the ledger is about the levels and versions of its script."""

import re
from pathlib import Path

LEDGER = Path(__file__).parents[2] / "docs" / "bugs"
LEVELS = re.compile(r"levels: (.*?); default: ")
NEEDS = re.compile(r"^Needs (.*?)(?:; .*)?$", re.MULTILINE)
ROW = re.compile(r"^\| \S+ \| (\S+) \| [a-z]", re.MULTILINE)
VERSION = re.compile(r"^- (\S+) (\S.*)$", re.MULTILINE)


def differences(report, script):
    """What a report says otherwise than the script beside it."""
    table = report.partition("\n## Levels\n")[2].partition("\n## ")[0]
    levels, rows = LEVELS.search(script), {*ROW.findall(table)} - {"level"}
    if levels and rows and {*levels[1].split(", ")} != rows:
        yield f"levels {rows}"
    shown, needs = dict(VERSION.findall(report)), NEEDS.search(script)
    for name, version in re.findall(r"([a-z]\S*) (\d[^\s,]*)(?:,|$)", needs[1] if needs else ""):
        if version != shown.get(name):
            yield f"{name} {shown.get(name)} is not {version}"


def test_every_report_follows_its_script():
    told, read = {}, 0
    for script in sorted(LEDGER.glob("*/*/repro.py")):
        report = script.with_name("report.md")
        if report.is_file():
            read += 1
            found = list(differences(report.read_text(), script.read_text()))
            told |= {script.parent.name: found} if found else {}
    assert read > 200 and not told
