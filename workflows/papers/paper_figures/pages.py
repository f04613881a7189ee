"""The page of a paper: of each figure, between two marks, what can be computed from the kept results; and the index."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from paper_figures.figure import Figure, Paper
from paper_figures.parts import Found
from paper_figures.pictures import save

INDEX = Path(__file__).resolve().parents[2] / "README.md"
"""The page that lists the figures of all papers."""
_END = "<!-- end -->"


def begin(name: str) -> str:
    """The mark before what is computed of a figure, or of the index."""
    return f"<!-- computed by make.py: {name} -->"


def write_results(
    paper: Paper, figure: Figure, found: Sequence[Found], seconds: float | None, workers: int | None, folder: Path
) -> None:
    """Write picture and results into a folder. Without a time, the one that the folder has of the figure stays."""
    folder.mkdir(parents=True, exist_ok=True)
    if found:
        path = folder / f"{figure.name}.json"
        run = {"seconds": None if seconds is None else round(seconds), "workers": workers}
        if seconds is None and path.exists():
            run |= {name: paper.read_results(figure, folder)[name] for name in run}
        parts = {one.part.key: {"result": one.result, **({"fit": one.fit} if one.fit else {})} for one in found}
        text = json.dumps({**run, "parts": parts}, ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")
    save(figure.draw(found), folder / f"{figure.name}.png")


def computed_block(paper: Paper, figure: Figure, found: Sequence[Found]) -> str:
    """What is between the marks of a figure: its table, rules, sizes, and the time that the run took."""
    run, checks = paper.read_results(figure), figure.judge(found)
    passed = sum(check.passed for check in checks)
    lines = [begin(figure.name), "", *figure.table(found), ""]
    lines += ["<details>", f"<summary>Pass rules: {passed} of {len(checks)} hold</summary>", ""]
    lines += [*(f"- {check}" for check in checks), "", "</details>", ""]
    if found:
        stem = figure.study or figure.name
        others = [one.part.key or "this figure" for one in found if one.part.changes]
        changed = f", changed for {', '.join(others)}" if others else ""
        took = f"The run took {run['seconds']} s on {run['workers']} cores."
        lines += [f"{figure.method.sizes(found)} {took} Study: [{stem}.toml]({stem}.toml){changed}.", ""]
    return "\n".join([*lines, _END])


def computed_index(papers: Sequence[Paper]) -> str:
    """What is between the marks of the index: a row a figure."""
    lines = ["| what it shows | paper and figure | minutes | picture |", "| --- | --- | ---: | --- |"]
    for paper in papers:
        for figure in paper.figures.values():
            minutes = round(paper.read_results(figure)["seconds"] / 60)
            place, anchor = f"papers/{paper.name}", figure.heading.lower().replace(" ", "-")
            page = f"[{paper.words}, {figure.heading}]({place}/README.md#{anchor})"
            picture = f"[picture]({place}/{figure.name}.png)"
            lines.append(f"| {figure.shows} | {page} | {minutes or '< 1'} | {picture} |")
    return "\n".join([begin("index"), "", *lines, "", _END])


def update_page(paper: Paper, figure: Figure, found: Sequence[Found]) -> None:
    """Put the computed block of a figure into the paper's page. ValueError: the page has no marks for it."""
    _put(paper.folder / "README.md", figure.name, computed_block(paper, figure, found))


def update_index(papers: Sequence[Paper]) -> None:
    """Put the table of all figures into the index. ValueError: it has no marks."""
    _put(INDEX, "index", computed_index(papers))


def _put(page: Path, name: str, block: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, mark, rest = text.partition(begin(name))
    _, end, after = rest.partition(_END)
    if not mark or not end:
        raise ValueError(f"{page}: needs the lines {begin(name)} and {_END}")
    page.write_text(before + block + after, encoding="utf-8")
