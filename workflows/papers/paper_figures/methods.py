"""How the study of a part is run: once, through a store, or under many seeds and sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from paper_figures.parts import Found, Part

from hpcdp.driver.driver import run
from hpcdp.driver.repeats import repeat
from hpcdp.errors import StudyError
from hpcdp.results.ranking import rank
from hpcdp.store.root import is_store
from hpcdp.study.claims import parse_claim

if TYPE_CHECKING:
    from distributed import Client

    from hpcdp.study.file import Study


@dataclass(frozen=True)
class Place:
    """Where studies run, and into which folder of stores.

    client: None on a cluster that each run starts. workers: None where it is not known. known: stores that a run found.
    """

    cluster: str
    workers: int | None
    client: Client | None
    stores: Path
    known: list[Path] = field(default_factory=list)

    def run(self, study: Study, name: str) -> Any:
        """The result of a study; what the store of this name holds already is used."""
        store = self.stores / f"{name}.zarr"
        if is_store(store):
            self.known.append(store)
        return run(study, store, cluster=self.cluster, workers=self.workers, client=self.client)

    def require_client(self, study: Study) -> Client:
        """The client of workers that many short tasks can be sent to.

        Raises:
            StudyError: each run starts a cluster of its own.
        """
        if self.client is None:
            raise StudyError(
                f"--cluster: {study.name} is many short runs, so a profile will not do, which submits jobs for each; "
                "accepted: local (on a node, with --workers), a scheduler's address or file"
            )
        return self.client


class Method(Protocol):
    """How the parts of a figure are run."""

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """Run a part's study; paper: at the sizes of the paper."""

    def sizes(self, found: Sequence[Found]) -> str:
        """Samples and seeds of the small setting, as a sentence of the page."""


@dataclass(frozen=True)
class Once:
    """Through a store, as `hpcdp run` does. claims: ranked by their fit."""

    claims: tuple[str, ...] = ()

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """The result as `hpcdp show --format json` prints it."""
        result = place.run(study, study.name)
        ranking = rank(result, [parse_claim(claim, study.folder) for claim in self.claims]) if self.claims else None
        return Found(part, study, json.loads(result.to_json()), ranking.to_dict() if ranking is not None else None)

    def sizes(self, found: Sequence[Found]) -> str:
        """Those of the studies."""
        settings = sorted({(one.study.estimate.train, one.study.estimate.test) for one in found})
        words = " or ".join(f"{train:,} for training and {test:,} for testing" for train, test in settings)
        seeds = ", ".join(str(seed) for seed in sorted({one.study.study.seed for one in found}))
        return f"Samples per database: {words}; seed {seeds}."


ONCE = Once()


@dataclass(frozen=True)
class Repeated:
    """Under several seeds and at several sizes (training and test samples per database), as `hpcdp.repeat` does."""

    seeds: tuple[int, ...]
    small: tuple[int, ...]
    paper: tuple[int, ...]

    def run(self, part: Part, study: Study, place: Place, paper: bool) -> Found:
        """The spectra of all seeds and sizes."""
        client = place.require_client(study)
        repeats = repeat(study, self.seeds, self.paper if paper else self.small, client=client)
        body = {
            "name": study.name,
            "seeds": list(repeats.seeds),
            "sizes": [list(size) for size in repeats.sizes],
            "epsilon": repeats.epsilon.tolist(),
            "estimates": repeats.estimates.tolist(),
        }
        return Found(part, study, body)

    def sizes(self, found: Sequence[Found]) -> str:
        """All of them."""
        sizes = ", ".join(f"{size:,}" for size in self.small)
        return f"Samples per database: {sizes} for training and as many for testing, {len(self.seeds)} seeds."
