"""Pictures: certified curves nowhere above what the bounds imply, log axes, what is not resolved, titles, colours."""

from pathlib import Path

import matplotlib.colors
import numpy as np
import pytest
from analytic_curves import CURVES
from results import changed, measured, named, unmeasured
from some_slow import some_slow

import hpcdp.report.plots
from hpcdp.notions.epsilon_at import implied_lower, outline
from hpcdp.report import colours
from hpcdp.report.plots import draw, draw_comparison
from hpcdp.report.plots_methods import draw_audit
from hpcdp.results.audit import audit
from hpcdp.results.comparison import compare
from hpcdp.study.claims import parse_claim
from hpcdp.study.file import Study

ROUNDING = 1e-12  # of a vertex, and of the line between two
PAIR = [([0.0], [1.0])]
GRIDS = ([0.0, 1.0, 3.0], [0.25, 2.5], [1.0], [0.0, 0.1, 4.0, 6.0])


def on_grid(result, epsilons, lower, delta=None):
    """A result of one pair with these bounds at these ε."""
    body = result.study.to_dict()
    body["estimate"]["epsilons"] = list(epsilons)
    many = len(epsilons)
    arrays = {"epsilon": np.asarray(epsilons), "spectrum_lower": np.asarray(lower)}
    arrays["spectrum_delta"] = np.asarray(lower if delta is None else delta)
    arrays["spectrum_upper"] = np.minimum(1.0, arrays["spectrum_delta"] + 0.01)
    for key in ("pair", "direction", "lower_pair", "lower_direction"):
        arrays[f"spectrum_{key}"] = np.zeros(many, np.int64)
    cells = {key: np.broadcast_to(arrays[f"spectrum_{key}"], (1, 2, many)) for key in ("delta", "lower", "upper")}
    exceed = np.stack([np.ceil(1e9 * cells["delta"]).astype(np.int64), np.zeros((1, 2, many), np.int64)], axis=-1)
    counts = {"exceed": exceed, "test": np.full((1, 2, many, 2), 10**9)}
    rest = {key: np.zeros((1, 2, many)) for key in ("level", "training_delta", "standard_error")}
    found = changed(result, **arrays, **cells, **counts, **rest)
    object.__setattr__(found, "study", Study.from_dict(body))
    return found


@pytest.fixture(scope="module", name="template")
def template_fixture():
    return measured("gaussian", {"sigma": 1.0}, PAIR, seed=3, train=500, test=500, epsilons=[0.0, 1.0])


@pytest.fixture(autouse=True)
def _no_store(monkeypatch):
    """Results of these tests have no store, from which databases would be read for exact curves."""
    monkeypatch.setattr(hpcdp.report.plots, "exact_of", lambda *_: None)


def certified(axis):
    """Vertices of each certified line that is drawn; the region's upper edge is the line, all else of it is at 0."""
    lines = [line.get_xydata() for line in axis.get_lines() if line.get_gid() == "certified"]
    regions = [c.get_paths()[0].vertices for c in axis.collections if c.get_gid() == "certified"]
    assert len(lines) == len(regions) >= 1
    for line, region in zip(lines, regions, strict=True):
        np.testing.assert_array_equal(region[1 : len(line) + 1], line)
        assert (np.delete(region[:, 1], slice(1, len(line) + 1)) == 0.0).all()
    return lines


def excess(lines, delta, log):
    """How far drawn certified lines are above δ, at 1,000 levels and at their vertices; on their own axis, linear or not."""
    worst = -np.inf
    for line in lines:
        levels = np.concatenate([np.linspace(*line[[0, -1], 0], 1000), line[:, 0]])
        with np.errstate(divide="ignore"):
            there, back = (np.log, np.exp) if log else (np.asarray, np.asarray)
            drawn = back(np.interp(levels, line[:, 0], np.maximum(there(line[:, 1]), -1e9)))
        worst = max(worst, float((drawn - delta(levels)).max()))
    return worst


EXACT = ("gaussian .8", "laplace .37", "counts", "dp-sgd", "subsampled")


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("name", some_slow(EXACT, lambda name: name != "counts"))
def test_between_levels_nothing_is_drawn_above_delta(template, name, log):
    """Where exact values stand for the bounds; the chords between them, the fault that this is for, are above."""
    curve = CURVES[name]
    chords = []
    for grid in GRIDS:
        values = curve.spectrum(np.array(grid))
        axis = draw(on_grid(template, grid, values), log=log).axes[0]
        assert axis.get_yscale() == ("log" if log else "linear")
        assert excess(certified(axis), curve.spectrum, log) <= ROUNDING
        chords.append(excess([np.column_stack([grid, values])], curve.spectrum, False))
    assert max(chords) > 0.1


def test_an_outline_is_what_bounds_imply_and_nowhere_above():
    rng = np.random.default_rng(5)
    for _ in range(300):
        many = int(rng.integers(1, 6))
        known = np.sort(rng.uniform(0.0, 6.0, many))
        lower = rng.uniform(0.0, 1.0, many) ** rng.integers(1, 9) * (rng.random() > 0.1)
        if rng.random() < 0.1:
            lower[0] = 1.0
        start, stop = (known[0], known[-1]) if many > 1 and rng.random() < 0.5 else (0.0, known[-1] + 2.0)
        x, y = outline(known, lower, start, stop)
        assert (x[0], x[-1]) == (start, stop)
        assert (np.diff(x) >= 0.0).all()
        np.testing.assert_allclose(y, implied_lower(known, lower, x), rtol=0.0, atol=ROUNDING)
        levels = np.linspace(start, stop, 500)
        assert (np.interp(levels, x, y) <= implied_lower(known, lower, levels) + ROUNDING).all()


def marks(axis, kind):
    return np.concatenate([line.get_xdata() for line in axis.get_lines() if line.get_gid() == kind] or [[]])


def test_a_logarithmic_axis_ends_at_one_and_marks_bounds_of_zero(template):
    result = on_grid(template, [0.0, 1.0, 2.0, 3.0], [0.4, 0.1, 0.0, 0.0], [0.5, 0.2, 0.05, 0.01])
    axis = draw(result, log=True).axes[0]
    bottom, top = axis.get_ylim()
    assert 1e-4 < bottom < 0.01
    assert top == 1.0
    assert marks(axis, "edge").tolist() == [2.0, 3.0]
    high = on_grid(template, [0.0, 1.0], [0.99, 0.9], [1.0, 0.99])
    for log in (False, True):
        assert draw(high, log=log).axes[0].get_ylim()[1] == 1.0
    assert marks(draw(high, log=True).axes[0], "edge").size == 0
    one = draw(on_grid(template, [2.0], [0.01], [0.0204]), log=True).axes[0]
    assert one.get_ylim()[0] < 0.01
    assert marks(one, "edge").size == 0


def test_a_claim_below_a_logarithmic_axis_is_named_and_marked(template):
    result = named(on_grid(template, [0.0, 1.0], [0.9, 0.8], [0.95, 0.9]), claim="dp(epsilon=0.1)")
    for log, words in ((True, "claimed: dp(epsilon=0.1), below this axis"), (False, "claimed: dp(epsilon=0.1)")):
        axis = draw(result, log=log).axes[0]
        assert words in [text.get_text() for text in axis.get_legend().get_texts()]
        assert marks(axis, "below").size == log
    assert marks(draw(named(template, claim="dp(epsilon=3)"), log=True).axes[0], "below").size == 0


def test_what_is_not_resolved_is_its_limit_in_every_picture():
    result = measured("gaussian", {"sigma": 1.0}, PAIR, seed=7, train=2000, test=6000, epsilons=[0.0, 1.0, 6.0, 7.0])
    sure, limits = result.resolution.rows, result.resolution.limits
    assert sure.tolist() == [True, True, False, False]
    several = compare([named(result, "a"), named(result, "b")])
    for log in (False, True):
        for figure in (draw(result, log=log), draw_comparison(several, log=log)):
            axis = figure.axes[0]
            shown = [line for line in axis.get_lines() if line.get_gid() == "limit"]
            for line in shown:
                np.testing.assert_array_equal(line.get_xydata(), np.column_stack([[6.0, 7.0], limits[2:]]))
            points = [box.lines[0].get_xydata() for box in axis.containers]
            assert len(points) == len(shown) == (1 if len(axis.containers) == 1 else 2)
            for xy in points:
                np.testing.assert_array_equal(xy[:, 0], [0.0, 1.0])
            texts = [text.get_text() for text in axis.get_legend().get_texts()]
            limit = "δ̂ not significantly above 0: limit of the learned sets"
            assert {"certified: δ is on or above the line", limit} <= set(texts)
            assert any("approximate" in text for text in texts)


def test_pictures_of_little(template):
    """One ε, nothing resolved, nothing counted."""
    one = on_grid(template, [0.0], [0.2])
    assert draw(one).axes[0].get_xlim()[0] < 0.0 < 1.0 < draw(one).axes[0].get_xlim()[1]
    none = measured("gaussian", {"sigma": 1.0}, PAIR, seed=7, train=200, test=600, epsilons=[5.0, 9.0])
    assert not none.resolution.rows.any()
    empty = unmeasured(template.study)
    for log in (False, True):
        for result in (one, none, empty):
            figure = draw(result, log=log)
            figure.canvas.draw()
            assert len(marks(figure.axes[0], "limit")) == (2 if result is none else 0)
    assert "INCOMPLETE" in draw(empty).axes[0].get_title()


def test_the_picture_of_an_audit_zooms_on_the_box():
    result = measured("gaussian", {"sigma": 1.0}, PAIR, seed=7, train=2000, test=6000, epsilons=[0.0], etas=[0.5, 1.0])
    for text, verdict in (("dp(epsilon=0.2)", "violation"), ("gaussian(mu=2)", "no violation found")):
        found = audit(result, parse_claim(text, Path()))
        whole, near = draw_audit(found).axes
        box = found.worst
        ends = np.array([near.get_xlim(), near.get_ylim()])
        middle, corner = np.array([box.alpha, box.beta]), np.array([box.alpha_upper, box.beta_upper])
        if box.orientation == "reverse":
            middle, corner = middle[::-1], corner[::-1]
        np.testing.assert_allclose(np.diff(ends, axis=1)[:, 0], 6.0 * (corner - middle))
        np.testing.assert_allclose(ends.mean(axis=1), middle)
        title = whole.get_title()
        assert title.startswith(f"test: {text}: {verdict}\npair 0, {box.orientation}; ")
        assert title.endswith("certified at 95 %")


def test_a_title_names_claim_verdict_pair_and_confidence(template):
    found = named(on_grid(template, [0.0, 1.0], [0.3, 0.2]), "ward", "dp(epsilon=1)")
    title = draw(found).axes[0].get_title()
    assert title == "ward: dp(epsilon=1): violation\npair 0, both directions; all bounds certified together at 95 %"
    pairs, sizes = [([0.0], [0.1]), ([0.0], [9.0])], {"train": 500, "test": 500, "epsilons": [0.5]}
    title = draw(measured("laplace", {"scale": 2.0}, pairs, seed=2, **sizes)).axes[0].get_title()
    last = "most exposed: pair 1; all bounds certified together at 95 %"
    assert title.endswith(f"\nlargest of 2 pairs and both directions\n{last}")


def lightness(colours):
    """CIE L* of colours, (colours,)."""
    rgb = np.array([matplotlib.colors.to_rgb(colour) for colour in colours])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    found = linear @ [0.2126, 0.7152, 0.0722]
    return np.where(found > 216 / 24389, 116.0 * np.cbrt(found) - 16.0, found * 24389 / 27)


def test_colours_differ_in_lightness_alone():
    """A just noticeable difference is about 1 of L*; series of one picture are at least ten apart."""
    fixed = (colours.EXACT, colours.CERTIFIED, colours.CLAIM, colours.BOX)
    for palette in (fixed, *(colours.shades(many) for many in range(2, 7))):
        seen = lightness(palette)
        assert (np.diff(seen) >= 10.0).all(), seen
        assert seen.max() < 90.0


def test_a_dollar_in_a_claim_is_a_dollar(template, tmp_path):
    """As in the path of a file with a claimed curve."""
    path = tmp_path / r"a$\frac{$.csv"
    path.write_text("epsilon,delta\n0,0.9\n1,0.8\n")
    figure = draw(named(template, claim=f"file({path})"), tmp_path / "p.png")
    assert r"$\frac{$.csv" in figure.axes[0].get_title()
