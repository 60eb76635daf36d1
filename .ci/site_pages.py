"""mkdocs hook: pages at the top of the checkout, and pages made from the code, belong to the site.

Links between the top and docs/ are written for who reads the checkout. README.md is the start page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

TOP = {name: name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")}
TOP["README.md"] = "index.md"


def on_files(files, config):
    """The files of docs/, those of the top with links as they are in the site, and made ones."""
    root = Path(config.config_file_path).parent
    for name, place in TOP.items():
        text = (root / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, place, content=linked(text)))
    sys.path.insert(0, str(root))
    from scripts.make.pages import PAGES

    for place, made in PAGES.items():
        files.append(File.generated(config, place, content=made()))
    return files


def on_page_markdown(markdown, page, config, files):
    """A page of docs/ with its links to the top as they are in the site; bugs get pictures, and
    are not searched.
    """
    if page.file.src_uri.startswith("bugs/"):
        from scripts.make.pages import pictured

        page.meta["search"] = {"exclude": True}
        markdown = pictured(markdown, Path(page.file.abs_src_path).parent)
    up = "../" * page.file.src_uri.count("/")
    return linked(markdown.replace(f"]({up}../", f"]({up}"))


def linked(text: str) -> str:
    return re.sub(r"\]\(README\.md", "](index.md", text)
