"""Studies of mechanisms on random batches: runs against the exact curve, sources, refusals and unseeded mechanisms."""

import numpy as np
import pytest
from studies import make_study, run

from hpcdp.analytic import exact
from hpcdp.errors import StudyError
from hpcdp.results.comparison import exact_of
from hpcdp.store.lease import acquire
from hpcdp.store.root import create_store
from hpcdp.study.resolving import resolve
from hpcdp.study.sampler import Sampler
from hpcdp.study.versions import save_problem

ZEROS, ODD = [0.0] * 10, [1.0] + [0.0] * 9
OWN = """
import numpy as np

def noisy(database, size, rng, *, sigma):
    return database.sum() + rng.normal(0.0, sigma, size)

def votes(database, outcomes):
    return np.array([np.count_nonzero(database == o) for o in outcomes]) * 1.0

def hidden(database, size):
    return np.random.default_rng().normal(database.sum(), 1.0, size)
"""


def own_study(folder, parameters=None, *, call="subsampled", **more):
    """Of a callable in a file of the folder, which is written once."""
    if not (folder / "own.py").exists():
        (folder / "own.py").write_text(OWN)
    given = {"mechanism": "own:noisy", "parameters": {"sigma": 1.0}, "batch": 5} if parameters is None else parameters
    sizes = {"epsilons": [0.0, 0.5], "train": 1000, "test": 1000, "chunk": 1000}
    return make_study(call, given, [(ZEROS, ODD)], seed=3, folder=folder, **(sizes | more))


@pytest.mark.parametrize(
    ("call", "parameters"),
    [
        ("toy_dpsgd", {}),
        ("toy_dpsgd", {"updates": 5, "batch": 2}),
        ("subsampled", {"mechanism": "noisy_sum", "parameters": {"sigma": 0.5}, "batch": 5}),
        ("subsampled", {"mechanism": "laplace", "parameters": {"scale": 0.5}, "batch": 1}),
    ],
)
def test_a_run_and_its_exact_curve(call, parameters, client, tmp_path):
    levels = [0.0, 0.25, 0.75]
    study = make_study(
        call, parameters, [(ZEROS, ODD)], seed=11, epsilons=levels, train=60_000, test=60_000, chunk=60_000, keep="none"
    )
    result = run(study, tmp_path / "s.zarr", client)
    curve = exact(call, parameters, np.array(ZEROS), np.array(ODD))
    np.testing.assert_allclose(exact_of(result, levels), curve.spectrum(levels), rtol=1e-12)
    for row, truth in zip(result.spectrum(), curve.spectrum(levels), strict=True):
        assert row["lower"] <= truth
        assert abs(row["delta"] - truth) < 0.02  # five standard errors of a difference of two shares, and the regret


def test_the_source_of_what_is_subsampled(tmp_path):
    problem, _ = resolve(own_study(tmp_path))
    layout = create_store(tmp_path / "s.zarr")
    lease = acquire(layout)
    save_problem(layout, problem, lease.generation, False)
    (tmp_path / "own.py").write_text(OWN + "\n# another\n")
    changed, _ = resolve(own_study(tmp_path))
    assert changed.sampler.source != problem.sampler.source
    with pytest.raises(StudyError, match=r"mechanism\.call: .* changed since the store was made"):
        save_problem(layout, changed, lease.generation, False)
    lease.release()
    built_in = own_study(tmp_path, {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5})
    assert Sampler.of(built_in).source != changed.sampler.source


REFUSED = [
    ({"batch": 5}, "mechanism.parameters: missing a required argument: 'mechanism'"),
    ({"mechanism": "own:none", "batch": 5}, "mechanism.parameters.mechanism: module 'own' has no 'none'"),
    ({"mechanism": "own:noisy", "batch": 5}, "mechanism.parameters.parameters: missing a required argument: 'sigma'"),
    (
        {"mechanism": "noisy_sum", "parameters": {"epsilon": 1.0}, "batch": 5},
        "mechanism.parameters.parameters: got an unexpected keyword argument 'epsilon'; given: epsilon; accepted by noisy_sum",
    ),
    (
        {"mechanism": "own:hidden", "batch": 5},
        "mechanism.parameters.mechanism: own:hidden takes (database, size) and no rng",
    ),
    (
        {"mechanism": "noisy_sum", "parameters": {"rng": 1}, "batch": 5},
        "mechanism.parameters.parameters.rng: hpcdp passes this argument itself",
    ),
    ({"mechanism": "nosy", "batch": 5}, "mechanism.parameters.mechanism: 'nosy' was given; accepted: a built-in"),
    ({"mechanism": "stored", "batch": 5}, "mechanism.parameters.mechanism: 'stored' was given"),
    ({"mechanism": "noisy_sum", "parameters": 3, "batch": 5}, "mechanism.parameters.parameters: 3 was given"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED)
def test_refused_before_anything_runs(parameters, message, tmp_path):
    with pytest.raises(StudyError) as caught:
        Sampler.of(own_study(tmp_path, parameters))
    assert message in str(caught.value)


def test_refused_in_trial_draws(tmp_path):
    with pytest.raises(StudyError, match="batch: 11 was given; accepted: at most the 10 rows"):
        resolve(own_study(tmp_path, {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 11}))
    gone = own_study(tmp_path, {"mechanism": "noisy_sum", "parameters": {"sigma": -1.0}, "batch": 5})
    with pytest.raises(StudyError, match=r"the mechanism raised ValueError: sigma: -1\.0 was given"):
        resolve(gone)
    (tmp_path / "own.py").write_text("def noisy(database, size, rng):\n    raise RuntimeError('no luck')\n")
    with pytest.raises(StudyError, match="the mechanism raised RuntimeError: no luck"):
        resolve(own_study(tmp_path, {"mechanism": "own:noisy", "batch": 5}))


def test_a_subsampled_mechanism_that_cannot_be_seeded(tmp_path):
    hidden = {"mechanism": "own:hidden", "batch": 5}
    (tmp_path / "own.py").write_text(OWN)
    data = own_study(tmp_path).model_dump(mode="json", exclude_none=True)

    def unseeded(call, parameters):
        section = {"call": call, "parameters": parameters, "reproducible": False}
        return type(own_study(tmp_path)).from_dict(data | {"mechanism": section}, tmp_path)

    sampler = Sampler.of(unseeded("subsampled", hidden))
    assert not sampler.reproducible
    one, two = (sampler.trial(np.zeros(10), 50, 0) for _ in range(2))
    assert (one != two).any()
    for call, parameters in (
        ("subsampled", {"mechanism": "noisy_sum", "parameters": {"sigma": 1.0}, "batch": 5}),
        ("toy_dpsgd", {}),
    ):
        with pytest.raises(StudyError, match=f"mechanism.reproducible: {call} is reproducible; leave this key out"):
            Sampler.of(unseeded(call, parameters))
