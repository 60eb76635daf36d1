import json

from nnfuzz.report.finding_folder import folder_name, write_finding
from nnfuzz.report.overview import campaign_overview


def test_overview_links_every_finding(finding_of, tmp_path):
    for bug in ("value", "raise"):
        finding = finding_of(f"planted,bug={bug}")
        folder = tmp_path / "findings" / folder_name(finding.failure)
        write_finding(folder, finding)
    (tmp_path / "summary.json").write_text(json.dumps({"tests": 12}))
    (tmp_path / "findings" / "broken").mkdir()
    (tmp_path / "findings" / "broken" / "finding.json").write_text("{")
    (tmp_path / "findings" / ".partial-x").mkdir()
    page = campaign_overview(tmp_path)
    assert "2 unique findings in 12 tests." in page
    assert "| planted: wrong value at Tanh after Add (O1 only) | 2 | O1 |" in page
    assert "broken is not a finding" in page and "partial" not in page
    links = [line.split("](")[1].split(")")[0] for line in page.splitlines() if "](" in line]
    assert len(links) == 2 and all((tmp_path / link).is_file() for link in links)


def test_reduced_findings_are_shown_instead(finding_of, tmp_path):
    finding = finding_of("planted,bug=value")
    folder = write_finding(tmp_path / "findings" / "f", finding)
    write_finding(folder / "reduced", finding)
    assert "findings/f/reduced/report.md" in campaign_overview(tmp_path)


def test_empty_campaign(tmp_path):
    assert "0 unique findings." in campaign_overview(tmp_path)
