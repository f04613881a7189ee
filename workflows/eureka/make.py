"""Run, check and draw figures of the Eureka paper: python workflows/eureka/make.py fig4a fig9c

Exit code 1: a pass rule fails. 2: a wrong command or study.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from figures.catalogue import FIGURES, Figure
from figures.pages import read_figure, update_index, update_page, write_results
from figures.parts import FOLDER, Found
from figures.running import open_place, run_figure

from hpcdp.driver import RunFailed
from hpcdp.errors import HpcdpError


def read_options(arguments: list[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(prog="make.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("figures", nargs="+", metavar="FIGURE", help=f"all, or some of: {', '.join(FIGURES)}")
    parser.add_argument("--paper", action="store_true", help="the sizes of the paper, for a cluster")
    parser.add_argument(
        "--store", type=Path, default=Path("runs"), metavar="FOLDER", help="of the stores (default: runs)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/eureka"),
        metavar="FOLDER",
        help="of plots and results (default: runs/eureka)",
    )
    parser.add_argument("--cluster", default="local", metavar="WHERE", help="as of hpcdp run (default: local)")
    parser.add_argument("--workers", type=int, metavar="N", help="worker processes (default: one a core)")
    parser.add_argument(
        "--kept", action="store_true", help="run nothing: judge and draw the results kept beside the studies"
    )
    parser.add_argument("--update", action="store_true", help="write results, plot and page of the figure's own folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.figures if name not in FIGURES and name != "all"]
    if unknown:
        parser.error(f"no figure {unknown[0]!r}; accepted: all, {', '.join(FIGURES)}")
    if options.paper and (options.update or options.kept):
        parser.error("--paper: the pages show the small setting; leave out --update and --kept")
    return options


def main(arguments: list[str]) -> int:
    """Make the figures; returns the exit code."""
    options = read_options(arguments)
    chosen = list(FIGURES.values()) if "all" in options.figures else [FIGURES[name] for name in options.figures]
    try:
        if options.kept:
            passed = [_finish(figure, read_figure(figure), None, None, options) for figure in chosen]
        else:
            passed = []
            with open_place(options.cluster, options.workers) as place:
                for figure in chosen:
                    print(f"{figure.name}: {figure.shows}", flush=True)
                    found, seconds = run_figure(figure, place, options.store, options.paper)
                    passed.append(_finish(figure, found, seconds, place.workers, options))
        if options.update:
            update_index()
    except RunFailed as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 1
    except HpcdpError as error:
        print(f"make.py: {error}", file=sys.stderr)
        return 2
    return 0 if all(passed) else 1


def _finish(
    figure: Figure, found: list[Found], seconds: float | None, workers: int | None, options: argparse.Namespace
) -> bool:
    """Judge, print and draw a figure; returns whether all its rules hold."""
    checks = figure.judge(found)
    print("\n".join(figure.table(found)))
    for check in checks:
        print(f"{figure.target} {check}")
    folder = options.out / (f"{figure.name}-paper" if options.paper else figure.name)
    if options.update:
        folder = FOLDER / figure.name
    write_results(figure, found, seconds, workers, folder)
    if options.update:
        update_page(figure, found)
    print(f"{f'{seconds:.0f} s, ' if seconds is not None else ''}plot: {folder / 'plot.png'}\n", flush=True)
    return all(check.passed for check in checks)


if __name__ == "__main__":  # worker processes import this file
    sys.exit(main(sys.argv[1:]))
