"""mkdocs hook: the pages at the top of the checkout are pages of the site as well.

Links between them and docs/ are written for who reads the checkout. README.md is the start page.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.structure.files import File

TOP = {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
TOP["README.md"] = "index.md"


def on_files(files, config):
    """The files of docs/, and those of the top with links as they are in the site."""
    root = Path(config.config_file_path).parent
    for name, place in TOP.items():
        text = (root / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, place, content=linked(text)))
    return files


def on_page_markdown(markdown, page, config, files):
    """A page of docs/ with its links to the top as they are in the site."""
    up = "../" * page.file.src_uri.count("/")
    return linked(markdown.replace(f"]({up}../", f"]({up}"))


def linked(text: str) -> str:
    return re.sub(r"\]\(README\.md", "](index.md", text)
