"""The documentation as a site, in a real Chromium: from a server and from a folder, without any other host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from markdown_it import MarkdownIt

from tests.front_ends.chromium import Chromium, driving

pytestmark = pytest.mark.chromium
ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
DESKTOP = 1280
OUTSIDE = {
    "README.md": "project/introduction",
    "CHANGELOG.md": "project/changelog",
    "CONTRIBUTING.md": "project/contributing",
    "SECURITY.md": "project/security",
    "examples/README.md": "project/examples",
}
INSIDE = {
    str(page.relative_to(ROOT)): re.sub(r"\bREADME$", "index", str(page.relative_to(ROOT / "docs").with_suffix("")))
    for page in sorted((ROOT / "docs").rglob("*.md"))
}
PAGES = INSIDE | OUTSIDE
"""Pages of the repository, and what they are called in the site."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module", params=["server", "folder"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    assert (SITE / "index.html").is_file(), "there is no site: run `make docs`"
    if request.param == "folder":
        yield SITE.as_uri()
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def check_requests(chromium: Chromium, address: str) -> None:
    """No page has asked another host, and none has complained."""
    asked = chromium.requests()
    assert asked != [] and [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    assert chromium.complaints() == []


def test_a_reader_finds_the_page_on_streams(address: str) -> None:
    with driving(DESKTOP) as chromium:
        chromium.ask("url", url=f"{address}/index.html")
        chromium.click(".md-nav--primary a[href='streaming.html']")
        assert chromium.wait_for("location.pathname.endsWith('/streaming.html')")
        assert chromium.run("document.querySelector('h1').firstChild.textContent") == "Streaming"
        chromium.ask("url", url=f"{address}/debezium/reference.html")
        chromium.type("input.md-search__input", "watermark")
        found = "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href.split(/[?#]/)[0])"
        chromium.wait_for(f"{found}.length")
        assert f"{address}/streaming.html" in chromium.run(found)
        to_stream = "a.md-search-result__link[href*='/streaming.html']"
        chromium.run(f'document.querySelector("{to_stream}").click()')
        assert chromium.wait_for("location.pathname.endsWith('/streaming.html')")
        check_requests(chromium, address)


def test_every_page_is_readable_on_a_phone(address: str) -> None:
    with driving() as chromium:
        for page in PAGES.values():
            chromium.ask("url", url=f"{address}/{page}.html")
            assert chromium.run("document.documentElement.scrollWidth") <= 375, page
            # Tables and code are scrolled on their own.
            wide = "[...document.querySelectorAll('article > *')].filter(part => part.scrollWidth > innerWidth)"
            assert chromium.run(f"{wide}.filter(part => getComputedStyle(part).overflowX == 'visible').length") == 0, (
                page
            )
            shown = "[...document.images].every(image => image.complete && image.naturalWidth > 0)"
            assert chromium.wait_for(shown), page
            if chromium.run("document.querySelector('.mermaid') != null"):
                assert chromium.wait_for("document.querySelector('div.mermaid')?.clientHeight > 50"), page
            check_requests(chromium, address)


class Parts(HTMLParser):
    """The parts of a page in their order: headings, lists and their items, rows of tables, code, pictures, links."""

    COUNTED = frozenset("h1 h2 h3 h4 ul ol li tr pre blockquote img strong em a".split())

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in self.COUNTED and (tag != "a" or ("href" in given and given.get("class") != "headerlink")):
            self.found.append(tag)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site_has_the_parts_that_it_has_on_github(page: str) -> None:
    there = MarkdownIt("commonmark").enable("table").render((ROOT / page).read_text())
    article = (SITE / f"{PAGES[page]}.html").read_text().partition("<article")[2].partition("</article>")[0]
    assert len(Parts(there).found) > 1 and Parts(article).found == Parts(there).found


def test_no_file_of_the_site_names_a_script_or_a_style_of_another_host() -> None:
    pages = [page.read_text() for page in SITE.rglob("*.html")]
    assert len(pages) > len(PAGES)
    assert [
        found for page in pages for found in re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"?https?:", page)
    ] == []
