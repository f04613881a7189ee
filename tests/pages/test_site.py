"""The documentation site: built strictly, complete, readable without a network, in the folders where readers look for it."""

import asyncio
import re
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import COLOURS, Tab, colour_of, find_chromium, in_tab
from contrasts import contrast
from followed import slug
from loaded import load_script
from study_keys import place_of

ROOT = Path(__file__).resolve().parents[2]
BUILDER = load_script("site_build", ROOT / "docs" / "site" / "build.py")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert BUILDER.build(folder) == 0
    return folder / "html"


class Loads(HTMLParser):
    """What a browser fetches of a page by itself, where its links lead, and which places it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.add(given.get("id") or "")
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.fetched.append(given["src"] or "")
        if tag == "link" and given.get("rel") not in ("search", "next", "prev", "index", "author", "copyright"):
            self.fetched.append(given.get("href") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")


@pytest.mark.slow
def test_the_site_is_whole_and_needs_no_network(site: Path) -> None:
    pages = {path: Loads(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    assert (site / "docs" / "gallery.html") in pages
    for path, page in pages.items():
        for target in page.fetched:
            assert not re.match(r"(https?:)?//", target), f"{path}: {target}"
            assert target.startswith("data:") or (path.parent / target.partition("?")[0]).is_file(), f"{path}: {target}"
        for target in page.links:
            if re.match(r"\w+:|#$", target):
                continue
            file, _, place = target.partition("#")
            found = (path.parent / file).resolve() if file else path
            assert found.exists(), f"{path}: {target}"
            assert not place or found not in pages or place in pages[found].places, f"{path}: {target}"


@pytest.mark.slow
def test_every_public_name_command_and_key_has_its_place(site: Path) -> None:
    import hpcdp
    from hpcdp.cli.arguments import make_parser
    from hpcdp.study.schema import described

    api = Loads((site / "docs" / "api.html").read_text(encoding="utf-8")).places
    assert {f"hpcdp.{name}" for name in hpcdp.__all__ if not name.startswith("_")} <= api
    commands = Loads((site / "docs" / "commands.html").read_text(encoding="utf-8")).places
    assert {name for name, _ in BUILDER._commands(make_parser())} <= commands
    keys = Loads((site / "docs" / "study-keys.html").read_text(encoding="utf-8")).places
    assert {place_of(key) for key in described()} <= keys


async def check_page(tab: Tab, page: str) -> None:
    """On a telephone and a screen nothing is too wide but in a box of its own; no fault; contrast AA in both themes."""
    for width in (390, 1280):
        tab.events.clear()
        await tab.resize(width)
        await tab.open(page)
        assert [url for url in tab.requests() if not url.startswith(("file:", "data:"))] == [], page
        assert await tab.width() <= width, f"{page} at {width}"
        grounds = set()
        for theme in ("light", "dark"):
            await tab.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
            found = await tab.value(COLOURS)
            assert len(found) > 20, page
            grounds.add(await tab.value("getComputedStyle(document.body).backgroundColor"))
            for ink, ground, words, _ in found:
                assert contrast(colour_of(ink), colour_of(ground)) >= 4.5, f"{page}, {theme}: {words}"
        assert len(grounds) == 2, f"{page} has one theme"
        assert (said := tab.complaints()) == [], f"{page}: {said}"


FAULTS = {
    "": None,
    "<p style='width: 500px'>wide</p>": "at 390",
    "<style>@media (min-width: 1000px) { p { width: 1400px } }</style>": "at 1280",
    "<p style='color: #777'>pale</p>": "pale",
    "<p style='opacity: 0.5'>faint</p>": "faint",
    "<script>console.error('broken')</script>": "broken",
    "<script>nothing.there</script>": "nothing is not defined",
    "<img src='http://127.0.0.1:9/x.png' alt=''>": "127.0.0.1",
    "<style>body { background: #fff !important; color: #000 !important; }</style>": "one theme",
}


@pytest.mark.slow
def test_faults_of_a_page_are_seen(tmp_path: Path) -> None:
    """Of a page that has none but these: the first, which has no fault, passes."""
    find_chromium()
    style = "body { background: #fff; color: #000; }"
    style += "@media (prefers-color-scheme: dark) { body { background: #111; color: #fff; } }"
    head = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>"

    async def use(tab: Tab) -> None:
        for number, (fault, said) in enumerate(FAULTS.items()):
            page = tmp_path / f"{number}.html"
            page.write_text(f"{head}<style>{style}</style>{'<p>Words.</p>' * 30}{fault}")
            with nullcontext() if said is None else pytest.raises(AssertionError, match=said):
                await check_page(tab, page.as_uri())

    in_tab(use, tmp_path / "profile")


@pytest.mark.slow
def test_a_page_in_a_browser(site: Path, tmp_path: Path) -> None:
    find_chromium()
    in_tab(lambda tab: check_page(tab, (site / "docs" / "study-keys.html").as_uri()), tmp_path)


@pytest.mark.release
def test_every_page_in_a_browser(site: Path, tmp_path: Path) -> None:
    """And a search, which finds pages."""
    find_chromium()

    async def use(tab: Tab) -> None:
        for page in sorted(site.rglob("*.html")):
            await check_page(tab, page.as_uri())
        await check_page(tab, f"{(site / 'search.html').as_uri()}?q=laplace")
        await asyncio.sleep(2.0)  # a result a moment
        assert await tab.value("document.querySelectorAll('#search-results li').length") > 20
        assert tab.complaints() == []

    in_tab(use, tmp_path)


def test_every_page_is_in_the_menu_and_no_two_share_a_name() -> None:
    names = BUILDER.page_names()
    generated = {"docs/commands", "docs/study-keys", "docs/api", "docs/gallery"}
    listed = [page for pages in BUILDER.SECTIONS.values() for page in pages]
    pages = {name.removesuffix(".md") for page, name in names.items() if not page.startswith("workflows/")}
    assert sorted(listed) == sorted((pages | generated) - {"index"})
    files = [Path(name).name for name in names.values()]
    assert len(set(files)) == len(files)


def test_the_entry_of_mathematics_leads_to_all_its_pages() -> None:
    """To each page and each of its chapters, and the menu has them in one part."""
    entry = ROOT / "docs" / "mathematics.md"
    parts = sorted((ROOT / "docs").glob("mathematics-*.md"))
    assert len(parts) > 5
    links = set(re.findall(r"\]\(([^)]+)\)", entry.read_text(encoding="utf-8")))
    chapters = {
        f"{page.name}#{slug(head)}" for page in parts for head in re.findall(r"^## (.+)$", page.read_text(), re.M)
    }
    assert {page.name for page in parts} | chapters <= links
    (menu,) = [pages for pages in BUILDER.SECTIONS.values() if "docs/mathematics" in pages]
    assert {f"docs/{page.stem}" for page in [entry, *parts]} <= set(menu)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", ["[there](nowhere.md)", "[there](study.md#no-such-place)", "![a picture](images/none.png)"]
)
def test_a_dead_link_fails_the_build(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a site of two pages, which takes a second."""

    def two_pages(source: Path) -> None:
        (source / "docs").mkdir(parents=True)
        (source / "index.md").write_text("# Home\n\n```{toctree}\ndocs/study\ndocs/which\n```\n")
        (source / "docs" / "study.md").write_text("# The study file\n\n## A place\n")
        (source / "docs" / "which.md").write_text(f"# Which\n\n[a](study.md#a-place) {fault}\n")
        (source / "conf.py").write_text((ROOT / "docs" / "site" / "conf.py").read_text())

    monkeypatch.setattr(BUILDER, "stage", two_pages)
    assert BUILDER.build(tmp_path) != 0
    assert "which.md" in capfd.readouterr().err
