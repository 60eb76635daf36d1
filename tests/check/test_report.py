"""The result of checking an operator spec, as a table and as lines."""

from rich.console import Console

from nnfuzz.check.report import COLUMNS, MOST_PROBLEMS, CheckReport, listing, report_table


def test_problems_are_listed_once_and_not_without_end():
    report = CheckReport("Add")
    assert report.ok and report.refused_share == 0
    for number in range(2 * MOST_PROBLEMS):
        report.problem(f"problem {number // 2}")
    report.problem("one more")
    assert not report.ok and len(report.problems) == MOST_PROBLEMS


def test_lines_say_problems_examples_and_notes():
    report = CheckReport("Add", accepted=4, refused=1, problems=["wrong"], example="refused: Add()")
    report.notes["onnx.reference differs"] += 2
    assert report.refused_share == 0.25
    assert listing([report, CheckReport("Mul")]) == [
        "Add: wrong",
        "Add: refused: Add()",
        "Add: note: onnx.reference differs (2 times)",
    ]


def test_the_table_has_a_row_for_each_operator():
    reports = [CheckReport("Add", accepted=4, refused=1), CheckReport("Mul")]
    table = report_table(reports)
    assert [column.header for column in table.columns] == COLUMNS and table.row_count == 2
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    assert "1 (25%)" in capture.get()
