"""A merged finding's reports name its variants."""

from nnfuzz.findings.variants import HEADING, write_variants
from nnfuzz.records.rows import Variant

ONE = Variant("Asin (float16)", "no asin", 1, 2, "findings/one")
TWO = Variant("Acos (float16)", "no a|cos", 2, 3, "duplicates/two")


def test_the_table_is_put_at_the_end_and_replaced(tmp_path):
    (tmp_path / "findings/one/reduced").mkdir(parents=True)
    reports = [tmp_path / "findings/one" / name for name in ("report.md", "reduced/report.md")]
    for path in reports:
        path.write_text("# Report\n")
    write_variants(tmp_path, "findings/one", [ONE])
    assert reports[0].read_text() == "# Report\n"
    write_variants(tmp_path, "findings/one", [ONE, TWO])
    write_variants(tmp_path, "findings/one", [ONE, TWO])
    for path in reports:
        text = path.read_text()
        assert text.startswith("# Report\n" + HEADING) and text.count(HEADING) == 1
        assert "| Acos (float16) | no a\\|cos | `duplicates/two` |" in text


def test_what_is_not_written_is_not_missed(tmp_path):
    write_variants(tmp_path, "findings/gone", [ONE, TWO])
    assert not list(tmp_path.iterdir())
