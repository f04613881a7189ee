"""A way of estimating is its own files and a line of a registry: one made in a test runs, is interrupted, resumes and shows."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from commands import call, contents, show
from given_way import PARTS, GivenKind
from studies import StopAtOnce, make_study

from hpcdp import load_result
from hpcdp.analytic import GaussianShift
from hpcdp.clusters.local import open_local
from hpcdp.driver.driver import resume, run_problem
from hpcdp.engine.executors import Options
from hpcdp.engine.progress import Silent
from hpcdp.engine.stopping import Stopped
from hpcdp.errors import StudyError
from hpcdp.losses import LOSSES
from hpcdp.report.status import status
from hpcdp.study.resolving import resolve
from hpcdp.study.ways import WAYS

LEVELS = [0.0, 0.5, 1.0]
CHUNKS = 40


@pytest.fixture(scope="module", autouse=True)
def registered_fixture():
    """The way, for these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        for registry, own in zip((WAYS, LOSSES), PARTS, strict=True):
            for name, part in own.items():
                patch.setitem(registry, name, part)
        yield


@pytest.fixture(scope="module", name="knowing")
def knowing_fixture():
    """Workers that load the way with the first of its tasks."""
    with open_local(2) as place:
        yield place.client


def given_study(slope=1.0, offset=-0.5, **changes):
    sizes = {"train": 20_000, "test": 60_000, "chunk": 80_000 // CHUNKS, "keep": "none", "epsilons": LEVELS, **changes}
    pairs = [([0.0], [1.0])]
    parameters = {"slope": slope, "offset": offset}
    return make_study("gaussian", {"sigma": 1.0}, pairs, seed=11, loss="given", loss_parameters=parameters, **sizes)


@pytest.mark.slow
def test_runs_is_interrupted_resumes_and_shows(knowing, tmp_path):
    study, store, progress = given_study(-1.0, 0.5), tmp_path / "s.zarr", StopAtOnce()
    with pytest.raises(Stopped):
        run_problem(*resolve(study), store, Options(client=knowing, stop=progress.stop), progress)
    part = load_result(store)
    assert not part.complete
    assert part.cells() == []
    done = int(status(store).partition("count given")[2].split()[0])
    assert 0 < done < CHUNKS
    before = contents(store)
    whole = resume(store, client=knowing)
    after = contents(store)
    assert {path: after[path] for path in before} == before
    assert whole.complete
    assert f"count given    {CHUNKS} of {CHUNKS} chunks done" in status(store)
    anew = run_problem(*resolve(study), tmp_path / "anew.zarr", Options(client=knowing), Silent())
    assert anew.to_json() == whole.to_json() == show(store).strip()
    assert json.loads(show(store))["cells"][0]["test"] == [80_000, 80_000]
    assert "certified" in call("show", store).stdout
    assert call("verify", store, "--claim", "gaussian(mu=1)").returncode == 0
    assert call("show", store, "--accuracy").returncode == 0
    assert call("plot", store).returncode == 0


@pytest.mark.slow
def test_its_counts_are_those_of_all_samples(knowing, tmp_path):
    # L of N(0, 1) against N(1, 1) is 1/2 − x, so that δ̂ is unbiased for δ
    result = run_problem(*resolve(given_study(-1.0, 0.5)), tmp_path / "s.zarr", Options(client=knowing), Silent())
    exact = GaussianShift(1.0).delta(np.array(LEVELS), "forward")
    errors = (result["delta"][0, 0] - exact) / result["standard_error"][0, 0]
    assert np.abs(errors).max() < 4.5
    assert (result["lower"] <= exact).all()
    # a planted fault: L̂ with the sign of the other direction tells nothing
    wrong = run_problem(*resolve(given_study(1.0, -0.5)), tmp_path / "w.zarr", Options(client=knowing), Silent())
    assert wrong["delta"][0, 0, 0] < 0.5 * exact[0]


def test_what_a_plan_says_of_it(tmp_path):
    from hpcdp.driver.plan import plan

    found = plan(given_study(), 2)
    assert found.tasks == {"given": CHUNKS}
    assert found.samples == 2 * 80_000


def test_its_parameters_are_refused_like_others():
    assert isinstance(GivenKind().parameters(slope=1.0).slope, float)
    with pytest.raises(StudyError, match=r"parameters\.slope"):
        given_study("steep")


def test_every_registered_way_has_its_parts():
    from importlib import import_module

    from hpcdp.engine.task import Work

    kinds = Counter()
    for way in WAYS.values():
        planning, results = (import_module(name) for name in (way.planning, way.results))
        assert all(callable(getattr(planning, n)) for n in ("tasks", "is_done", "progress", "amounts", "worst_errors"))
        assert results.DERIVED.counts
    for work in Work.__subclasses__():
        module, _, name = work.does.partition(":")
        assert callable(getattr(import_module(module), name))
        kinds.update([work.kind])
    assert set(kinds) >= {"fit", "count", "pilot", "tally", "reuse", "literal", "given"}
    assert max(kinds.values()) == 1
