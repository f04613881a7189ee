"""Run the studies of a figure, on this machine or on a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcdp.clusters import connect, default_workers, parse_place
from paper_figures.figure import Figure, Paper
from paper_figures.methods import Place
from paper_figures.parts import Found, read_study


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
        RunFailed: a run ended without all its cells.
    """
    place.known.clear()
    start = time.perf_counter()
    found = [
        figure.method.run(part, read_study(paper.place(figure), part, large), place, large) for part in figure.parts
    ]
    return found, None if place.known else time.perf_counter() - start
