"""The documentation as it was built by `make docs`: it asks no other host for anything, its search finds what people look for, and the gallery shows the reports."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from report.browser import Browser

ROOT = Path(__file__).parents[2]
WORDS = {"friction": "fit/", "delay": "faq/", "URDF": "robot/"}
"""What people look for, and a page that has it."""


@pytest.fixture(scope="module")
def site() -> Path:
    if not (ROOT / "site" / "index.html").is_file():
        pytest.skip("the documentation has not been built; make docs builds it and runs these tests")
    return ROOT / "site"


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def browser(tmp_path: Path, address: str) -> Iterator[Browser]:
    browser = Browser(tmp_path, 1400, 900, server=address)
    yield browser
    browser.close()


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = [p for p in site.rglob("*.html") if p.parent.name != "gallery" or p.name == "index.html"]
    assert len(pages) > 20
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]*src="?(?:https?:)?//[^">]*', text), page
        assert not re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect|preload)"[^>]*href="?(?:https?:)?//[^">]*', text), page
    assert not any(re.search(r"@import|url\((?:https?:)?//", css.read_text(encoding="utf-8")) for css in site.rglob("*.css"))


@pytest.mark.parametrize("word, page", WORDS.items())
def test_the_index_of_the_search_has(site: Path, word: str, page: str) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    places = {e["location"].partition("#")[0] for e in entries if re.search(rf"\b{word}\b", e["title"] + " " + e["text"])}
    assert page in places, places


@pytest.mark.parametrize("word, page", WORDS.items())
def test_the_search_finds(browser: Browser, address: str, word: str, page: str) -> None:
    browser.open(f"{address}/")
    browser.run("document.querySelector('[data-md-toggle=search]').click(); document.querySelector('[data-md-component=search-query]').focus()")
    browser.call("Input.insertText", text=word)
    browser.until("document.querySelectorAll('.md-search-result__item').length > 2")
    found = browser.run("Array.from(document.querySelectorAll('.md-search-result__item'), (item) => item.querySelector('a').pathname)")
    assert f"/{page}" in found, found
    assert found[0] != "/reference/", "pages that explain come before signatures"
    assert not browser.problems


def test_the_gallery_shows_the_reports(browser: Browser, address: str) -> None:
    browser.open(f"{address}/gallery/")
    assert browser.run("document.querySelectorAll('iframe.report').length") == 4
    assert browser.run("document.querySelectorAll('table td').length") > 100
    browser.until("(document.querySelector('iframe.report').contentDocument || {}).readyState === 'complete'")
    assert "Calibrated" in browser.run("document.querySelector('iframe.report').contentDocument.querySelector('main').textContent")
    assert not browser.problems


@pytest.mark.parametrize("page", ["", "mechanics/", "reference/", "peers/"])
@pytest.mark.parametrize("width", [390, 1400])
def test_pages_fit_into_the_screen(browser: Browser, address: str, page: str, width: int) -> None:
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600)
    browser.open(f"{address}/{page}")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert not browser.problems


def test_formulas_are_drawn(browser: Browser, address: str) -> None:
    browser.open(f"{address}/estimation/")
    assert browser.run("document.querySelectorAll('math').length") > 10
    assert browser.run("Math.min(...Array.from(document.querySelectorAll('math'), (m) => m.getBoundingClientRect().height))") > 5
    assert "FORMULA" not in browser.run("document.body.textContent") and "$" not in browser.run("document.querySelector('article').textContent")
