"""Makes a site of the pages as they are: MkDocs calls these functions.

The pages are written for GitHub. Links out of docs/ lead to copies of the files in the site; headings get GitHub's
anchors; what is in lists is indented by four spaces, as MkDocs needs it. The scripts that Material for MkDocs would
load from another host are those of scripts.py.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPTS = ROOT / "build" / "docs" / "scripts"
PAGES = {
    "README.md": "project/introduction.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/examples.md",
}
"""Pages outside docs/, and what they are called in the site."""
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"(?:[-*+]|\d+\.) +")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings GitHub's anchors, and take scripts from the site alone."""
    config.mdx_configs["toc"]["slugify"] = slugify
    config.extra["polyfills"] = ["scripts/iframe-worker.js"]
    [version] = re.findall(r'^__version__ = "(.+)"$', (ROOT / "pyspark_pravega/__init__.py").read_text(), re.MULTILINE)
    config.copyright = f"Version {version}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and files outside docs/ that are linked to, and the scripts."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "site.css", abs_src_path=str(HERE / "site.css")))
    for script in read_scripts():
        files.append(File.generated(config, f"scripts/{script.name}", abs_src_path=str(script)))
    outside = {find_outside(link, place_of(page)) for page in files.documentation_pages() for link in links_of(page)}
    for path in sorted(path for path in outside if path is not None and path not in PAGES):
        if not (ROOT / path).is_file():
            raise PluginError(f"A page links to {path}, which is no file. The site can show files only.")
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where files are in the site, and indent lists as MkDocs needs it."""
    here = posixpath.dirname(page.file.src_uri)

    def lead(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place_of(page.file)), link[2]))
        inside = path.removeprefix("docs/") if path.startswith("docs/") else PAGES.get(path, f"files/{path}")
        return f"{link[1]}{posixpath.relpath(inside, here or '.')}{link[3]}"

    parts = _CODE.split(markdown)
    return indent_lists("".join(part if number % 2 else _LINK.sub(lead, part) for number, part in enumerate(parts)))


def read_scripts() -> list[Path]:
    """Return the scripts that were fetched. Without them, a site would ask other hosts."""
    lines = (line.split("\t") for line in (HERE / "scripts.lock").read_text().splitlines() if not line.startswith("#"))
    scripts = [SCRIPTS / line[-1] for line in lines]
    if missing := [script.name for script in scripts if not script.is_file()]:
        raise PluginError(f"{SCRIPTS} lacks {', '.join(missing)}. Run `make docs`, which fetches them.")
    return scripts


def place_of(file: File) -> str:
    """Return where a page is in the repository."""
    return next((place for place, called in PAGES.items() if called == file.src_uri), f"docs/{file.src_uri}")


def links_of(file: File) -> list[str]:
    """Return the files that a page links to."""
    prose = _CODE.sub("", file.content_string)
    return [link[1] for link in _LINK.findall(prose)]


def find_outside(link: str, place: str) -> str | None:
    """Return the path in the repository of what a page at a place links to; None if it is in docs/."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(place), link))
    return None if path.startswith("docs/") else path


def slugify(heading: str, separator: str) -> str:
    """Return GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def indent_lists(markdown: str) -> str:
    """Indent what is in lists by four spaces for each list, and separate lists from the paragraph before."""
    lines: list[str] = []
    starts: list[int] = []  # for each list that is open, where the text of its items begins
    fenced = was_in_list = False
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        spaces = len(line) - len(text)
        fence, item = text.startswith("```"), None if fenced else _ITEM.match(text)
        if text and not fenced:
            continues = bool(lines and lines[-1].strip()) and item is None and not fence
            while starts and spaces < starts[-1] and not continues:
                starts.pop()
        depth, start = len(starts), starts[-1] if starts else 0
        if item is not None:
            if not was_in_list and lines and lines[-1].strip():
                lines.append("")
            starts.append(spaces + item.end())
        if text:
            was_in_list = bool(starts)
        lines.append(" " * (4 * depth + max(spaces - start, 0)) + text if depth and text else line)
        fenced ^= fence
    return "\n".join(lines)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the script that draws diagrams, on pages that have any."""
    if 'class="mermaid"' not in output:
        return output
    script = posixpath.relpath("scripts/mermaid.min.js", posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{script}"></script></head>', 1)
