"""Run the studies of a figure, on this machine or on a cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures.catalogue import Figure
from figures.parts import Found, Part, read_study
from hpcdp.claims import parse_claim
from hpcdp.clusters import connect, default_workers, parse_place
from hpcdp.driver import run
from hpcdp.errors import StudyError
from hpcdp.fit import rank
from hpcdp.repeats import repeat
from hpcdp.store.studies import is_store

if TYPE_CHECKING:
    from distributed import Client

    from hpcdp.study import Study


@dataclass(frozen=True)
class Place:
    """Where studies run: on a client, or (client None) on a cluster that each run starts. workers: None where it is not known."""

    cluster: str
    workers: int | None
    client: Client | None

    def run(self, study: Study, store: Path) -> Any:
        """The result of a study; what the store holds already is used."""
        return run(study, store, cluster=self.cluster, workers=self.workers, client=self.client)


@contextmanager
def open_place(cluster: str, workers: int | None) -> Iterator[Place]:
    """Worker processes of this machine, somebody's scheduler, or the profile of a cluster (`hpcdp run --cluster`)."""
    where = parse_place(cluster)
    if where.profile is not None:
        yield Place(cluster, workers, None)
        return
    with connect(where, workers, None, 0, print) as place:
        yield Place(cluster, workers or (default_workers() if cluster == "local" else None), place.client)


def run_figure(figure: Figure, place: Place, stores: Path, paper: bool) -> tuple[list[Found], float | None]:
    """Run every study of a figure into stores/NAME.zarr; also the seconds, None where a store was there before.

    Raises:
        StudyError: a study is wrong, or studies are to be repeated on a cluster that each run starts.
        RunFailed: a run ended without all its cells.
    """
    studies = [read_study(figure.name, part, paper) for part in figure.parts]
    is_new = not any(is_store(stores / f"{study.name}.zarr") for study in studies)
    start = time.perf_counter()
    if figure.repetition is not None:
        found = [_repeat(figure, part, study, place, paper) for part, study in zip(figure.parts, studies, strict=True)]
    else:
        found = [_run(figure, part, study, place, stores) for part, study in zip(figure.parts, studies, strict=True)]
    return found, time.perf_counter() - start if is_new else None


def _run(figure: Figure, part: Part, study: Study, place: Place, stores: Path) -> Found:
    result = place.run(study, stores / f"{study.name}.zarr")
    ranking = rank(result, [parse_claim(claim, study.folder) for claim in figure.claims]) if figure.claims else None
    return Found(part, study, json.loads(result.to_json()), ranking.to_dict() if ranking is not None else None)


def _repeat(figure: Figure, part: Part, study: Study, place: Place, paper: bool) -> Found:
    if place.client is None:
        raise StudyError(
            f"--cluster: {figure.name} is many short runs, so a profile will not do, which submits jobs for each; "
            "accepted: local (on a node, with --workers), a scheduler's address or file"
        )
    plan = figure.repetition
    assert plan is not None
    repeats = repeat(study, plan.seeds, plan.paper_sizes if paper else plan.sizes, client=place.client)
    body = {
        "name": study.name,
        "seeds": list(repeats.seeds),
        "sizes": [list(size) for size in repeats.sizes],
        "epsilon": repeats.epsilon.tolist(),
        "estimates": repeats.estimates.tolist(),
    }
    return Found(part, study, body)
