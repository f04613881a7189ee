"""The command of make.py: run, check, draw, describe."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from paper_figures.figure import Figure, Paper
from paper_figures.methods import Place
from paper_figures.pages import update_index, update_page, write_results
from paper_figures.parts import Found

from hpcdp import RunFailed
from hpcdp.clusters import connect, default_workers, parse_place
from hpcdp.errors import HpcdpError

PAPERS = ("eureka", "fdp", "local", "histogram", "at_risk")
"""Folders of papers."""


def read_paper(name: str) -> Paper:
    """The figures of a paper, from its catalogue."""
    return import_module(f"{name}.figures.catalogue").PAPER


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command's options; `paper` is the paper itself, `figures` its chosen figures."""
    parser = argparse.ArgumentParser(prog="make.py", description="Run, check and draw figures of a paper.")
    parser.add_argument("paper", choices=PAPERS, metavar="PAPER", help=f"one of: {', '.join(PAPERS)}")
    parser.add_argument("figures", nargs="+", metavar="FIGURE", help="all, or names of figures, such as fig4a")
    parser.add_argument("--paper", action="store_true", dest="large", help="the sizes of the paper, for a cluster")
    parser.add_argument(
        "--store", type=Path, default=Path("runs"), metavar="FOLDER", help="of the stores (default: runs)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="of pictures and results (default: runs, and the paper's name)"
    )
    parser.add_argument("--cluster", default="local", metavar="WHERE", help="as of hpcdp run (default: local)")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: one a core)")
    parser.add_argument(
        "--kept", action="store_true", help="run nothing: judge and draw the results kept beside the studies"
    )
    parser.add_argument(
        "--update", action="store_true", help="write results, pictures and page in the paper's own folder"
    )
    options = parser.parse_args(arguments)
    options.out = options.out or Path("runs") / options.paper
    options.paper = paper = read_paper(options.paper)
    unknown = [name for name in options.figures if name not in paper.figures and name != "all"]
    if unknown:
        parser.error(f"no figure {unknown[0]!r} of {paper.name}; accepted: all, {', '.join(paper.figures)}")
    if options.large and (options.update or options.kept):
        parser.error("--paper: the pages show the small setting; leave out --update and --kept")
    names = list(paper.figures) if "all" in options.figures else options.figures
    options.figures = [paper.figures[name] for name in names]
    return options


def main(arguments: list[str]) -> int:
    """Make the figures; returns the exit code: 1 where a pass rule fails, 2 of a wrong command or study."""
    options = read_options(arguments)
    paper: Paper = options.paper
    try:
        if options.kept:
            passed = [_finish(figure, paper.read_kept(figure), None, None, options) for figure in options.figures]
        else:
            passed = []
            with open_place(options.cluster, options.workers, options.store) as place:
                for figure in options.figures:
                    print(f"{figure.name}: {figure.shows}", flush=True)
                    found, seconds = run_figure(paper, figure, place, options.large)
                    passed.append(_finish(figure, found, seconds, place.workers, options))
        if options.update:
            update_index([read_paper(name) for name in PAPERS])
    except RunFailed as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    except HpcdpError as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 2
    return 0 if all(passed) else 1


@contextmanager
def open_place(cluster: str, workers: int | None, stores: Path) -> Iterator[Place]:
    """Worker processes of this machine, somebody's scheduler, or the profile of a cluster (`hpcdp run --cluster`)."""
    where = parse_place(cluster)
    if where.profile is not None:
        yield Place(cluster, workers, None, stores)
        return
    with connect(where, workers, None, 0, print) as place:
        known = workers or (default_workers() if cluster == "local" else None)
        yield Place(cluster, known, place.client, stores)


def run_figure(paper: Paper, figure: Figure, place: Place, large: bool) -> tuple[list[Found], float | None]:
    """Run every study of a figure; also the seconds, None where a store was there before. large: at the paper's sizes.

    Raises:
        StudyError: a study is wrong, or studies are to be repeated on a cluster that each run starts.
        RunFailed: a run ended without all its results.
    """
    place.known.clear()
    start = time.perf_counter()
    found = [figure.method.run(part, paper.read_study(figure, part, large), place, large) for part in figure.parts]
    return found, None if place.known else time.perf_counter() - start


def _finish(
    figure: Figure, found: list[Found], seconds: float | None, workers: int | None, options: argparse.Namespace
) -> bool:
    """Judge, print and draw a figure; returns whether all its rules hold."""
    checks = figure.judge(found)
    print("\n".join(figure.table(found)))
    for check in checks:
        print(f"{figure.name} {check}")
    folder = options.paper.folder if options.update else options.out / "paper" if options.large else options.out
    write_results(options.paper, figure, found, seconds, workers, folder)
    if options.update:
        update_page(options.paper, figure, found)
    words = f"{seconds:.0f} s, " if seconds is not None else ""
    print(f"{words}plot: {folder / figure.name}.png\n", flush=True)
    return all(check.passed for check in checks)
