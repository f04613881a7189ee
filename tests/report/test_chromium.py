"""A page in a real Chromium: no complaint, no request but the file, no sideways scroll, scripts off, themes, print."""

import base64
from pathlib import Path

import pytest
from browser import COLOURS, Tab, colour_of, find_chromium, in_tab
from contrasts import contrast
from pages import EVIL, make_store

from hpcdp import load_result
from hpcdp.report.colours import DARK, LIGHT
from hpcdp.report.html.page import write_page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a claim that is violated, an incomplete store with an evil exception, an evil output, tapes, audits."""
    find_chromium()
    folder = tmp_path_factory.mktemp("chromium")
    stores = [
        make_store(folder / kind, kind) for kind in ("points", "broken", "words", "tape", "rows", "risk", "batches")
    ]
    write_page([load_result(store) for store in stores], folder / "page.html")
    return folder / "page.html"


async def check_colours(tab: Tab, paper: str) -> None:
    """Every piece of text, in pictures too, against the ground that it is on (AA: 4.5, whatever its size)."""
    found = await tab.value(COLOURS)
    assert len(found) > 500
    assert {colour_of(ground) for _, ground, *_ in found} >= {paper}
    for ink, ground, words, _ in found:
        assert contrast(colour_of(ink), colour_of(ground)) >= 4.5, words


@pytest.mark.promise
@pytest.mark.slow
def test_a_page_in_a_browser(page: Path, tmp_path: Path) -> None:
    async def use(tab: Tab) -> None:
        await tab.do("Emulation.setScriptExecutionDisabled", value=True)
        await tab.resize(390)
        await tab.open(page.as_uri())
        assert tab.requests() == [page.as_uri()]
        assert tab.complaints() == []
        assert await tab.width() == 390
        await tab.picture(tmp_path / "telephone.png")
        await tab.do("Emulation.setScriptExecutionDisabled", value=False)
        await tab.open(page.as_uri())
        text = await tab.value("document.body.innerText")
        for words in ("violated", "INCOMPLETE", EVIL, "finite-sample", "To repeat it", "Assumptions and warnings"):
            assert words in text
        assert await tab.value("document.scripts.length") == 0
        sizes = await tab.value(
            "[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect()).map(r => r.height)"
        )
        assert min(sizes) > 5.0  # text of pictures is text, and is shown
        for theme, colours in (("light", LIGHT), ("dark", DARK)):
            await tab.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            await check_colours(tab, colours["paper"])
        await tab.resize(1200)
        assert await tab.width() <= 1200  # of which the bar at its side takes some
        await tab.do(
            "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
        )
        await check_colours(tab, LIGHT["paper"])  # whatever the screen has, paper is white
        printed = await tab.do("Page.printToPDF", printBackground=True)
        (tmp_path / "page.pdf").write_bytes(base64.b64decode(printed["data"]))
        assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")
        assert tab.complaints() == []

    in_tab(use, tmp_path / "profile")


@pytest.mark.slow
def test_what_notebooks_show_runs_nothing_and_fits_a_telephone(page: Path, tmp_path: Path) -> None:
    """Fragments in a page of their own, without a policy that would stop them; a wide table is moved within its own frame."""
    results = [load_result(page.parent / kind / f"{kind}.zarr") for kind in ("points", "words", "broken", "tape")]
    place = tmp_path / "notebook.html"
    head = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    place.write_text(head + "".join(one._repr_html_() or "" for one in results))

    async def use(tab: Tab) -> None:
        await tab.resize(390)
        await tab.open(place.as_uri())
        assert tab.requests() == [place.as_uri()]
        assert tab.complaints() == []
        assert EVIL[:20] in await tab.value("document.body.innerText")
        assert await tab.value("document.scripts.length") == 0
        assert await tab.width() == 390
        assert await tab.value("[...document.querySelectorAll('table')].some(t => t.offsetWidth > 390)")
        lines = await tab.value("[...document.querySelectorAll('td data')].map(d => d.getClientRects().length)")
        assert len(lines) > 20
        assert set(lines) == {1}, "no number breaks"

    in_tab(use, tmp_path / "profile")
