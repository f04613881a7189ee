"""The page of a figure: its plot, and between two marks what can be computed from the kept results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper_figures.figure import Figure, Paper
from paper_figures.parts import Found, read_kept
from paper_figures.pictures import save

BEGIN, END = "<!-- computed by make.py -->", "<!-- end -->"


def read_figure(paper: Paper, figure: Figure) -> list[Found]:
    """The parts of a figure with the results kept in its folder."""
    return [read_kept(paper.place(figure), part) for part in figure.parts]


def write_results(
    figure: Figure, found: Sequence[Found], seconds: float | None, workers: int | None, folder: Path
) -> None:
    """Plot, results and fits into a folder; the time of the run where it is known."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        _write_json(folder / one.part.file("result", ".json"), one.result)
        if one.fit is not None:
            _write_json(folder / one.part.file("fit", ".json"), one.fit)
    if seconds is not None:
        _write_json(folder / "run.json", {"seconds": round(seconds), "workers": workers})
    save(figure.draw(found), folder / "plot.png")


def computed_block(paper: Paper, figure: Figure, found: Sequence[Found]) -> str:
    """What is between the marks of a page: table, rules, sizes and the time that the run took."""
    run = _read_run(paper, figure)
    lines = [BEGIN, "", *figure.table(found), "", "Pass rules:", ""]
    lines += [f"- {check}" for check in figure.judge(found)]
    lines += ["", f"{figure.method.sizes(found)} The run took {run['seconds']} s on {run['workers']} cores.", "", END]
    return "\n".join(lines)


def computed_index(paper: Paper, kept: Mapping[str, Sequence[Found]]) -> str:
    """What is between the marks of the index: every figure, from the kept results of each by name."""
    rows = []
    for figure in paper.figures.values():
        found, run = kept[figure.name], _read_run(paper, figure)
        verdict = "pass" if all(check.passed for check in figure.judge(found)) else "FAIL"
        name = f"[{figure.name.removeprefix('fig')}]({figure.name}/README.md)"
        rows.append([name, figure.shows, figure.target, verdict, f"{run['seconds']} s"])
    head = "| Fig. | shows | result | pass rules | time |\n| --- | --- | --- | --- | ---: |"
    lines = [head, *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(
        [BEGIN, "", *lines, "", "Times are wall times of the small setting on 2 cores that other work shared.", "", END]
    )


def update_page(paper: Paper, figure: Figure, found: Sequence[Found]) -> None:
    """Put the computed block into the README of a figure. ValueError: the page has no marks."""
    _put(paper.place(figure) / "README.md", computed_block(paper, figure, found))


def update_index(paper: Paper) -> None:
    """Put the table of all figures into the index. ValueError: it has no marks."""
    kept = {name: read_figure(paper, figure) for name, figure in paper.figures.items()}
    _put(paper.folder / "README.md", computed_index(paper, kept))


def _put(page: Path, block: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: needs the lines {BEGIN} and {END}")
    page.write_text(before + block + after, encoding="utf-8")


def _read_run(paper: Paper, figure: Figure) -> dict[str, Any]:
    return dict(json.loads((paper.place(figure) / "run.json").read_text(encoding="utf-8")))


def _write_json(path: Path, body: object) -> None:
    path.write_text(json.dumps(body, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
