"""The result of checking an operator spec, as a table and as lines."""

from collections import Counter

from rich.console import Console

from nnfuzz.check.questions import COUNTS, MOST_PROBLEMS, CheckReport, listing, report_table
from nnfuzz.operators.waiver import Waiver


def test_problems_are_listed_once_and_not_without_end():
    report = CheckReport("Add")
    assert report.ok and report.refused_share == 0
    for number in range(2 * MOST_PROBLEMS):
        report.problem(f"problem {number // 2}")
    report.problem("one more")
    assert not report.ok and len(report.problems) == MOST_PROBLEMS


def test_lines_say_problems_examples_and_waivers():
    waiver = Waiver("toy", "is wrong", "Mul-13", known="toy#1")
    report = CheckReport("Add", accepted=4, refused=1, problems=["wrong"], example="refused: Add()")
    assert report.refused_share == 0.25
    shown = CheckReport("Mul", examples={waiver: ["Mul() on []"]})
    assert list(listing([report, shown])) == [
        "Add: wrong",
        "Add: refused: Add()",
        "Mul: toy is wrong (0 times here)",
        "    decided by Mul-13; known as toy#1",
        "    Mul() on []",
    ]


def test_the_table_has_a_row_for_each_operator():
    answers = {"toy": Counter(agrees=5, differs=2, unable=1)}
    reports = [CheckReport("Add", accepted=4, refused=1, answers=answers), CheckReport("Mul")]
    table = report_table(reports)
    assert len(table.columns) == len(COUNTS) + 3 and table.row_count == 2
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    assert "1 (25%)" in capture.get() and "5 of 7" in capture.get()
