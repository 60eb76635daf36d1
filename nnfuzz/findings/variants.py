"""The part of a report.md about other reduced models that turned out to be the same finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.base.files import write_atomically
from nnfuzz.base.untrusted import below, read_text
from nnfuzz.findings.folder import REDUCED
from nnfuzz.report.templating import environment

if TYPE_CHECKING:
    from nnfuzz.records.rows import Variant

HEADING = "\n## Variants\n"


def write_variants(campaign: Path, folder: str, variants: Sequence[Variant]) -> None:
    """Puts a table of the variants at the end of a finding's reports, in place of an older one.

    folder: of the finding, below the campaign's. A single variant is the finding itself.
    """
    if len(variants) < 2:
        return
    section = environment().get_template("variants.md.jinja").render(variants=variants)
    for path in (campaign / folder / "report.md", campaign / folder / REDUCED / "report.md"):
        if path.is_file():
            text = read_text(below(campaign, str(path.relative_to(campaign))))
            renewed = text.partition(HEADING)[0] + HEADING + section
            if renewed != text:
                write_atomically(path, renewed.encode())
