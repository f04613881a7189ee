"""Pictures on pages, which blocks of the page made: `python tests/support/illustrated.py PAGE…` makes those of pages anew.

A comment `picture: FILE` before a picture names the file in the folder of the page's blocks that it is: the same bytes, or, of a
report, its first screen as a browser shows it, with a digest of all that the report says of results.
"""

import hashlib
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

from browser import Tab, in_tab
from followed import ROOT, Follower
from PIL import Image
from PIL.PngImagePlugin import PngInfo

ENDINGS = (".png", ".svg", ".html")
AGAIN = {"docs/claims.md": {"turnstile/report.html"}}  # of a copy: that of its store once more
_SHOWN = re.compile(r"^<!-- picture: (?P<made>\S+) -->\n!\[(?P<words>[^\]]+)\]\((?P<picture>\S+)\)$", re.M)
_SIZE = (820, 1000)  # of the screen that shows a report
_COLOURS = 256


def shown_on(page: str) -> dict[str, Path]:
    """Of each file that blocks of a page make and the page shows: where its picture is."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return {m["made"]: (ROOT / page).parent / m["picture"] for m in _SHOWN.finditer(text)}


def is_picture_of(picture: Path, made: Path) -> bool:
    """Whether a picture is that of a file: the same bytes, or of a report its digest."""
    if made.suffix != ".html":
        return picture.read_bytes() == made.read_bytes()
    with Image.open(picture) as image:
        return image.info.get("report") == _digest(made)


def _digest(report: Path) -> str:
    """Of a report but for its date, and its provenance, which has times and versions."""
    said, mark, _ = report.read_text(encoding="utf-8").partition('<section aria-labelledby="r0-provenance">')
    assert mark
    said = re.sub("<dt>Date</dt><dd>[0-9-]+</dd>", "", said)
    return hashlib.sha256(said.encode()).hexdigest()


def write_picture(made: Path, picture: Path) -> None:
    """Write the picture of a file."""
    picture.parent.mkdir(exist_ok=True)
    if made.suffix != ".html":
        shutil.copyfile(made, picture)
        return

    async def look(tab: Tab) -> None:
        await tab.resize(*_SIZE)
        await tab.do("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        await tab.open(made.as_uri())
        await tab.picture(screen)

    with tempfile.TemporaryDirectory() as folder:
        screen = Path(folder, "screen.png")
        in_tab(look, Path(folder, "profile"))
        image = Image.open(io.BytesIO(screen.read_bytes())).convert("RGB")
        image = image.crop((0, 0, min(_SIZE[0], image.width), min(_SIZE[1], image.height))).quantize(_COLOURS)
    said = PngInfo()
    said.add_text("report", _digest(made))
    image.save(picture, optimize=True, pnginfo=said)


def main(pages: list[str]) -> None:
    """Follow pages, and write what they show."""
    with tempfile.TemporaryDirectory() as base:
        follower = Follower(Path(base))
        for page in pages:
            for made, picture in shown_on(page).items():
                write_picture(follower.follow(page) / made, picture)
                print(picture.relative_to(ROOT), picture.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
