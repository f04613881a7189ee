"""The command of a paper's make.py: run, check, draw, describe."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hpcdp import RunFailed
from hpcdp.errors import HpcdpError
from paper_figures.figure import Figure, Paper
from paper_figures.pages import read_figure, update_index, update_page, write_results
from paper_figures.parts import Found
from paper_figures.running import open_place, run_figure


def read_options(paper: Paper, arguments: list[str]) -> argparse.Namespace:
    """The command's options."""
    names = ", ".join(paper.figures)
    parser = argparse.ArgumentParser(prog="make.py", description=f"Run, check and draw figures of {paper.words}.")
    parser.add_argument("figures", nargs="+", metavar="FIGURE", help=f"all, or some of: {names}")
    parser.add_argument("--paper", action="store_true", help="the sizes of the paper, for a cluster")
    parser.add_argument(
        "--store", type=Path, default=Path("runs"), metavar="FOLDER", help="of the stores (default: runs)"
    )
    out = Path("runs") / paper.name
    parser.add_argument(
        "--out", type=Path, default=out, metavar="FOLDER", help=f"of plots and results (default: {out})"
    )
    parser.add_argument("--cluster", default="local", metavar="WHERE", help="as of hpcdp run (default: local)")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: one a core)")
    parser.add_argument(
        "--kept", action="store_true", help="run nothing: judge and draw the results kept beside the studies"
    )
    parser.add_argument("--update", action="store_true", help="write results, plot and page of the figure's own folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.figures if name not in paper.figures and name != "all"]
    if unknown:
        parser.error(f"no figure {unknown[0]!r}; accepted: all, {names}")
    if options.paper and (options.update or options.kept):
        parser.error("--paper: the pages show the small setting; leave out --update and --kept")
    return options


def main(paper: Paper, arguments: list[str]) -> int:
    """Make the figures; returns the exit code: 1 where a pass rule fails, 2 of a wrong command or study."""
    options = read_options(paper, arguments)
    names = list(paper.figures) if "all" in options.figures else options.figures
    chosen = [paper.figures[name] for name in names]
    try:
        if options.kept:
            passed = [_finish(paper, figure, read_figure(paper, figure), None, None, options) for figure in chosen]
        else:
            passed = []
            with open_place(options.cluster, options.workers, options.store) as place:
                for figure in chosen:
                    print(f"{figure.name}: {figure.shows}", flush=True)
                    found, seconds = run_figure(paper, figure, place, options.paper)
                    passed.append(_finish(paper, figure, found, seconds, place.workers, options))
        if options.update:
            update_index(paper)
    except RunFailed as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    except HpcdpError as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 2
    return 0 if all(passed) else 1


def _finish(
    paper: Paper,
    figure: Figure,
    found: list[Found],
    seconds: float | None,
    workers: int | None,
    options: argparse.Namespace,
) -> bool:
    """Judge, print and draw a figure; returns whether all its rules hold."""
    checks = figure.judge(found)
    print("\n".join(figure.table(found)))
    for check in checks:
        print(f"{figure.target} {check}")
    folder = options.out / (f"{figure.name}-paper" if options.paper else figure.name)
    if options.update:
        folder = paper.place(figure)
    write_results(figure, found, seconds, workers, folder)
    if options.update:
        update_page(paper, figure, found)
    print(f"{f'{seconds:.0f} s, ' if seconds is not None else ''}plot: {folder / 'plot.png'}\n", flush=True)
    return all(check.passed for check in checks)
