"""The tables of docs/wild.md, from the cases and their kept results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cases import EXPECTED, Case

START, END = "<!-- written by workflows/wild/make.py -->\n", "<!-- end -->\n"
HEAD = (
    "| release | claim | certified | verdict | seconds | draws | bug |\n| --- | --- | --- | --- | ---: | ---: | --- |\n"
)


def write_page(page: Path, cases: list[Case]) -> None:
    """Replace what stands between the two marks of the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(START)
    page.write_text(f"{before}{START}\n{tables(cases)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def tables(cases: list[Case]) -> str:
    """The table of releases, that of cases that are not shown, and each check."""
    shown = [case for case in cases if case.results()]
    hidden = [
        f"| {_release(case, next(iter(case.releases)))} | {case.told['bug']} [{_short(case)}] | {_why(case)} |"
        for case in cases
        if not case.results()
    ]
    links = [f"[{_short(case)}]: {case.told['reference']}" for case in cases]
    rows = [_row(case, side, runs) for case in shown for side, runs in case.results().items()]
    parts = [HEAD + "\n".join(rows), "## Not shown"]
    parts.append("| release | bug | why |\n| --- | --- | --- |\n" + "\n".join(hidden))
    parts += ["## The checks", *map(_check, shown), "\n".join(dict.fromkeys(links))]
    return "\n\n".join(parts) + "\n"


def _release(case: Case, side: str) -> str:
    return f"{case.told['library']} {case.told[side]}"


def _short(case: Case) -> str:
    """A short name of the public reference."""
    parts = case.told["reference"].split("/")
    return str(case.told.get("named") or f"{parts[4]} {parts[-1]}")


def _why(case: Case) -> str:
    return str(case.told.get("not_shown", "not run yet"))


def _row(case: Case, side: str, runs: list[dict[str, Any]]) -> str:
    """One release: the weakest bound of its seeds, and how many agree with what is expected."""
    weakest = min(runs, key=lambda run: run["lower"] - run["claimed"])
    certified = f"δ({weakest['epsilon']:g}) ≥ {weakest['lower']:.3g}; claimed {weakest['claimed']:.3g}"
    right = sum((run["verdict"] == "violation") == (side == "red") for run in runs)
    verdict = f"**{EXPECTED[side]}**" if side == "red" else EXPECTED[side]
    seconds = sorted(run["seconds"] for run in runs)[(len(runs) - 1) // 2]
    bug = f"[{case.name}](#{case.name}) [{_short(case)}]" if side == case.sides[0] else "mended"
    cells = [
        _release(case, side),
        f"`{case.study['study']['claim']}`",
        certified,
        f"{verdict} in {right} of {len(runs)}",
    ]
    return f"| {' | '.join([*cells, f'{seconds:.0f}', f'{case.draws:,}', bug])} |"


def _check(case: Case) -> str:
    """A case's section: the bug, the check and its picture."""
    folder = f"../workflows/wild/{case.name}"
    study = (case.folder / "study.toml").read_text(encoding="utf-8")
    green = case.told.get("green_because")
    text = f"{case.told['bug']} [{_short(case)}]" + (f" No green release: {green}." if green else "")
    return (
        f"### {case.name}\n\n{text} [Mechanism]({folder}/mechanism.py), [plot]({folder}/plot.png).\n\n"
        f"<!-- not run: make wild runs it -->\n```toml\n{study}```"
    )
