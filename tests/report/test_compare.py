"""Several stores beside each other: where one is below another, on common levels, and the picture."""

import json

import numpy as np
import pytest
from commands import call
from results import measured, named, unmeasured
from studies import make_study, run

from hpcdp._base.rounding import at_most
from hpcdp.errors import StudyError
from hpcdp.report.plots import draw_comparison
from hpcdp.report.spectrum import table
from hpcdp.report.verdict import report
from hpcdp.results.comparison import compare, largest_difference
from hpcdp.results.load import load_result
from hpcdp.results.verdict import verify
from hpcdp.study.claims import parse_claim

LEVELS = [0.0, 0.5, 1.0]


def laplace(epsilon, name, seed=1, epsilons=LEVELS, size=20_000):
    pair = [([0.0], [1.0])]
    found = measured("laplace", {"epsilon": epsilon}, pair, seed=seed, train=size, test=size, epsilons=epsilons)
    return named(found, name)


@pytest.fixture(scope="module", name="three")
def three_fixture():
    return [laplace(0.6, "weak"), laplace(1.0, "plain"), laplace(1.0, "again", seed=2)]


def test_below_means_certified_above_approximate(three):
    found = compare(three)
    assert found.names == ("weak", "plain", "again")
    np.testing.assert_array_equal(found.epsilon, LEVELS)
    for i, j, k in np.ndindex(found.below.shape):
        assert found.below[i, j, k] == (three[i]["spectrum_upper"][k] < three[j]["spectrum_lower"][k])
    np.testing.assert_array_equal(found.below[0, 1], [True, True, False])
    assert not found.below[1].any()
    assert not found.below[2].any()
    text = table(found)
    assert "weak is below plain beyond the bounds at ε = 0, 0.5" in text
    assert "plain and again differ most" in text or "again and plain differ most" in text
    assert "no certificate about A" in " ".join(text.split())
    low = compare([named(one, name, spectrum_upper=np.zeros(3)) for one, name in zip(three[1:], "ab", strict=True)])
    assert not (low.below & low.below.swapaxes(0, 1)).any(), "whose limits are below what is certified"
    epsilon, difference, errors = largest_difference(found, 1, 2)
    assert errors == pytest.approx(np.abs(found.score(1, 2)).max())
    assert difference == found.delta[2, LEVELS.index(epsilon)] - found.delta[1, LEVELS.index(epsilon)]


def test_what_is_not_resolved_is_a_limit_in_every_table(three):
    """Laplace noise with ε₀ = 0.6 has δ = 0 at ε = 1: a limit is printed, and what is below another is so by that limit."""
    weak = three[0]
    row = weak.spectrum()[2]
    assert not row["resolved"]
    found = compare(three)
    assert found.limit[0, 2] == row["limit"]
    assert np.isnan(found.limit[0, :2]).all()
    bound = f"< {at_most(row['limit'])}*"
    texts = (table(found), report([verify(weak, parse_claim("dp(epsilon=1)", "."))]))
    for text in texts:
        assert bound in text
        assert "δ may be larger" in " ".join(text.split())
    spectra = found.to_dict()["spectra"]
    assert [entry["limit"] for entry in spectra[:3]] == [None, None, row["limit"]]
    upper = weak["spectrum_upper"].copy()
    upper[2] = 0.0  # a normal limit of no output alone would be below every bound
    for bound, below in ((row["limit"] / 2, False), (row["limit"] * 2, True)):
        other = named(three[1], "other", spectrum_lower=np.array([0.3, 0.2, bound]))
        assert compare([named(weak, "weak", spectrum_upper=upper), other]).below[0, 1, 2] == below


def test_scores_of_equal_mechanisms_are_standard_normal():
    # δ̂ of the better direction at each run; over 30 pairs of runs, 4 standard deviations of a standard deviation
    runs = [laplace(1.0, f"r{s}", seed=s, size=4000) for s in range(60)]
    scores = [compare([a, b]).score(0, 1)[1] for a, b in zip(runs[::2], runs[1::2], strict=True)]
    assert np.std(scores) <= 1 + 4 / np.sqrt(60)
    assert abs(np.mean(scores)) <= 4 / np.sqrt(30)


def test_common_levels_only(three):
    finer = laplace(1.0, "finer", epsilons=[0.25, 0.1 + 0.2, 0.5, 1.0, 3.0])
    coarse = laplace(0.6, "coarse", epsilons=[0.3, 1.0, 2.0])
    found = compare([finer, coarse])
    np.testing.assert_allclose(found.epsilon, [0.3, 1.0])
    for i, result in enumerate((finer, coarse)):
        rows = {round(row["epsilon"], 9): row for row in result.spectrum()}
        for k, level in enumerate((0.3, 1.0)):
            assert found.delta[i, k] == rows[level]["delta"]
            assert found.lower[i, k] == rows[level]["lower"]
    assert "Only the 2 ε" in table(found)
    with pytest.raises(StudyError, match=r"no ε in common.*far: 5"):
        compare([finer, laplace(1.0, "far", epsilons=[5.0], size=500)])
    with pytest.raises(StudyError, match="two or more"):
        compare([finer])


def test_incomplete_stores(three):
    sizes = {"train": 500, "test": 500, "epsilons": LEVELS, "keep": "none"}
    body = make_study("laplace", {"epsilon": 1.0}, [([0.0], [1.0])], seed=1, **sizes)
    empty = named(unmeasured(body), "empty")
    with pytest.raises(StudyError, match="no ε in common"):
        compare([three[0], empty])
    spectrum = three[1]["spectrum_delta"].copy()
    spectrum[1] = np.nan
    partly = named(three[1], "partly", spectrum_delta=spectrum)
    object.__setattr__(partly, "complete", False)
    found = compare([three[0], partly])
    np.testing.assert_array_equal(found.epsilon, [0.0, 1.0])
    assert "INCOMPLETE" in table(found)
    assert found.to_dict()["complete"] is False


def test_names(three):
    twin = named(three[1], "plain")
    object.__setattr__(twin, "store", twin.store.with_name("other.zarr"))
    assert compare([three[0], three[1], twin]).names == ("weak", "plain.zarr", "other.zarr")
    with pytest.raises(StudyError, match="stores that differ"):
        compare([three[1], three[1]])


@pytest.fixture(scope="module")
def stores(tmp_path_factory, client):
    folder, sizes = tmp_path_factory.mktemp("compare"), {"train": 10_000, "test": 10_000}
    for name, epsilon, levels in (("a", 0.5, LEVELS), ("b", 1.0, [*LEVELS, 1.5])):
        own = {"head": {"name": name}, "epsilons": levels, **sizes}
        study = make_study("laplace", {"epsilon": epsilon}, [([0.0], [1.0])], seed=2, **own)
        run(study, folder / f"{name}.zarr", client)
    return folder


@pytest.mark.slow
def test_command(stores, tmp_path):
    a, b = stores / "a.zarr", stores / "b.zarr"
    done = call("compare", a, b)
    assert (stores / "compare.png").read_bytes().startswith(b"\x89PNG")
    assert f"plot: {stores / 'compare.png'}" in done.stdout
    assert "a is below b beyond the bounds at ε = 0, 0.5" in done.stdout
    path = tmp_path / "new" / "c.svg"
    found = json.loads(call("compare", a, b, "-o", path, "--log", "--format", "json").stdout)
    assert path.read_text().startswith("<?xml")
    assert found["plot"] == str(path)
    assert [s["name"] for s in found["stores"]] == ["a", "b"]
    assert [(s["name"], s["epsilon"]) for s in found["spectra"]] == [(n, e) for n in "ab" for e in LEVELS]
    assert [(x["below"], x["above"], x["epsilon"]) for x in found["below"]] == [("a", "b", 0.0), ("a", "b", 0.5)]
    assert all(x["upper"] < x["lower"] for x in found["below"])
    assert ".png and .svg" in call("compare", a, b, "-o", tmp_path / "c.pdf", code=2).stderr
    assert "two or more" in call("compare", a, code=2).stderr
    assert "hpcdp: " in call("compare", a, tmp_path / "none.zarr", code=2).stderr


def test_picture(stores):
    results = [load_result(stores / f"{name}.zarr") for name in "ab"]
    axis = draw_comparison(compare(results)).axes[0]
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert [x for x in labels if x[0] in "ab"] == ["a, exact", "b, exact", "a", "b"]
    assert (axis.get_xlabel(), axis.get_ylabel(), axis.get_yscale()) == ("ε", "δ(ε)", "linear")
    drawn = {box.get_label(): box.lines[0] for box in axis.containers}
    sure = results[1].resolution.rows
    estimates = results[1]["spectrum_delta"][sure]  # all levels, not just common ones
    np.testing.assert_array_equal(drawn["b"].get_ydata(), estimates)
    assert estimates.size > 1
    logged = draw_comparison(compare(results), log=True).axes[0]
    assert logged.get_yscale() == "log"
    assert logged.get_ylim()[0] > 0
