"""How many words a page of docs/ has without its blocks: `python -m tests.support.words` prints each, and their sum."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def words_of(page: Path) -> int:
    """Words outside of fenced blocks, indented ones too. What only draws a table is none."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return len([word for word in text.split() if not re.fullmatch(r"\||:?-{3,}:?", word)])


if __name__ == "__main__":
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "workflows").rglob("*.md"))]
    counts = {page.relative_to(ROOT): words_of(page) for page in pages}
    for page, count in sorted(counts.items(), key=lambda found: -found[1]):
        print(f"{count:7,} {page}")
    print(f"{sum(counts.values()):7,} in all")
