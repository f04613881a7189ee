"""The documentation site: built strictly, complete, readable without a network, in the folders where readers look for it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from loaded import load_script
from study_keys import place_of

ROOT = Path(__file__).resolve().parent.parent
MOST_WORDS = 1500  # of a how-to, without blocks


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
    from hpcdp.cli._arguments import make_parser
    from hpcdp.study.schema import described

    api = Loads((site / "docs" / "api.html").read_text(encoding="utf-8")).places
    assert {f"hpcdp.{name}" for name in hpcdp.__all__ if not name.startswith("_")} <= api
    commands = Loads((site / "docs" / "commands.html").read_text(encoding="utf-8")).places
    assert {name for name, _ in BUILDER._commands(make_parser())} <= commands
    keys = Loads((site / "docs" / "study-keys.html").read_text(encoding="utf-8")).places
    assert {place_of(key) for key in described()} <= keys


def test_every_page_is_in_the_menu_and_no_two_share_a_name() -> None:
    names = BUILDER.page_names()
    generated = {"docs/commands", "docs/study-keys", "docs/api", "docs/gallery"}
    listed = [page for pages in BUILDER.SECTIONS.values() for page in pages]
    pages = {name.removesuffix(".md") for page, name in names.items() if not page.startswith("workflows/")}
    assert sorted(listed) == sorted((pages | generated) - {"index"})
    files = [Path(name).name for name in names.values()]
    assert len(set(files)) == len(files)
    folders = {page.split("/")[1] for page in names if page.startswith("workflows/")}
    assert folders == set(BUILDER.GALLERY)


@pytest.mark.parametrize("page", BUILDER.SECTIONS["How to"])
def test_how_tos_are_short(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / f"{page}.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(text.split()) <= MOST_WORDS


def test_links_lead_to_the_new_names_and_blocks_stay() -> None:
    names = {"README.md": "index.md", "docs/a.md": "docs/a.md", "workflows/x/README.md": "workflows/x/x.md"}
    rest = "[c](https://d/README.md) [e](#f)\n```text\n[a](../README.md)\n```\n"
    text = "[a](../README.md#quickstart) [b](../workflows/x/README.md) " + rest
    said = "[a](../index.md#quickstart) [b](../workflows/x/x.md) " + rest
    assert BUILDER.relink(text, "docs/a.md", names) == said


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
