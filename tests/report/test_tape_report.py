"""What pages say of random tapes: the estimate, what is certified up to the leftover, and what is certified, never mixed.

Each printed figure is compared with the arrays, these with a literal reference from the recorded sums, and with exact truths.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import call, show, write_study
from matplotlib.colors import to_hex
from results import changed, unmeasured
from studies import TAPED, make_study
from studies import run as run_study

from hpcdp.analytic import exact
from hpcdp.analytic._curve import DIRECTIONS
from hpcdp.engine.derived import Records
from hpcdp.importance.result import DRAWN, LEARNED, LEFT_OUT, UNLEARNED
from hpcdp.report.colours import CERTIFIED, ESTIMATED, UP_TO_LEFTOVER
from hpcdp.report.notions import show_as, text
from hpcdp.report.plots import draw
from hpcdp.report.spectrum import csv_text
from hpcdp.report.verdict import report
from hpcdp.results.load import assemble, pair_entries
from hpcdp.results.ranking import rank
from hpcdp.results.result import Result
from hpcdp.results.risk import bootstrap, risk_levels
from hpcdp.results.shown import NOT_SEPARABLE, VIOLATION
from hpcdp.results.verdict import verify
from hpcdp.study.claims import parse_claim

EPSILONS, AIM = [0.0, 1.0, 2.0, 3.0], 3.0
ALONE, OTHER = "reverse", "forward"
CELL = {
    "pair", "direction", "epsilon", "delta", "lower", "upper", "standard_error", "lower_up_to_leftover", "leftover",
    "sums", "unit", "draws", "resolved", "certified",
}  # fmt: skip


def _study(pairs: Any = (([0.0], [1.0]),), **others: Any) -> Any:
    given: dict[str, Any] = {"tape": True, "train": 8192, "epsilons": EPSILONS, "certify": [AIM], "seed": 5}
    given |= {"target": {"epsilon": AIM, "relative_error": 0.1, "most": 1_000_000}}
    return make_study("gaussian", {"sigma": 1.0}, [*pairs], loss="auto", **{**given, **others})


def _run(folder: Path, study: Any) -> Any:
    return run_study(study, folder / "s.zarr", lambda: None)  # type: ignore[arg-type,return-value]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return _run(tmp_path_factory.mktemp("tape"), _study())


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The same with a direction asked for, which alone has bounds."""
    target = {"epsilon": AIM, "direction": ALONE, "relative_error": 0.1, "most": 1_000_000}
    return _run(tmp_path_factory.mktemp("tape"), _study(target=target))


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Result:
    target = {"epsilon": 0.5, "relative_error": 0.2, "most": 100_000}
    given = {"train": 4096, "epsilons": [0.0, 0.5], "certify": [0.5], "target": target, "seed": 6}
    return _run(tmp_path_factory.mktemp("tape"), _study([([0.0], [1.0]), ([0.0], [0.2])], **given))


@pytest.mark.slow
def test_rows_follow_from_the_recorded_sums_and_hold(result: Result) -> None:
    _check_rows(result, (ALONE, OTHER))


@pytest.mark.slow
def test_rows_of_a_direction_that_is_asked_for_alone(alone: Result) -> None:
    _check_rows(alone, (ALONE,))
    others = [cell for cell in json.loads(alone.to_json())["cells"] if cell["direction"] == OTHER]
    assert others
    for cell in others:
        assert (cell["lower"], cell["lower_up_to_leftover"]) == (0.0, 0.0)
        assert cell["leftover"] == {"draws": 0, "hits": 0, "limit": 1.0}


def _check_rows(result: Result, bounded: tuple[str, ...]) -> None:
    """Literally, from what JSON tells of a cell; that bounds hold fails with probability at most .05."""
    assert 0.05 * (1.0 - 1e-12) <= result["level"].sum() <= 0.05 * (1.0 + 1e-12)
    curve = exact("gaussian", result.study.mechanism.parameters, np.array([0.0]), np.array([1.0]))
    column = EPSILONS.index(AIM)
    for cell in json.loads(result.to_json())["cells"]:
        (p, q), (p2, q2), (n, m) = cell["sums"]["weights"], cell["sums"]["spreads"], cell["draws"]
        c = math.exp(cell["epsilon"])
        assert cell["delta"] == pytest.approx(max(0.0, p / n - c * q / m), rel=1e-12, abs=1e-18)
        variance = p2 / n**2 + c * c * q2 / m**2
        whole = [
            (squares / n - (total / n) ** 2) / n for squares, total in zip(cell["sums"]["squares"], (p, q), strict=True)
        ]
        assert variance <= 1.01 * (whole[0] + c * c * whole[1])  # of draws that are one stratum
        assert cell["standard_error"] == pytest.approx(math.sqrt(variance), rel=1e-9)
        truth = float(curve.delta(np.array([cell["epsilon"]]), cell["direction"])[0])
        assert cell["lower"] <= truth
        assert cell["lower_up_to_leftover"] - c * cell["leftover"]["limit"] <= cell["lower"] * (1 + 1e-9) + 1e-15
        assert cell["lower"] <= cell["lower_up_to_leftover"]
        assert cell["certified"] == (cell["epsilon"] == AIM and cell["direction"] in bounded)
        if not cell["certified"]:
            assert cell["sums"]["logs"] is None
            continue
        place = (0, ["forward", "reverse"].index(cell["direction"]), column)
        level, (rate, kappa), unit = float(result["level"][place]), result["rates"][place], cell["unit"]
        assert unit == 2.0**-40
        assert all(type(total) is int for total in cell["sums"]["logs"])
        cost = math.log(20.0 / level)
        low = (math.exp((cell["sums"]["logs"][0] * unit - cost) / n) - 1.0) / rate
        high = (1.0 - math.exp(-(cell["sums"]["logs"][1] * unit + cost) / m)) / kappa
        assert cell["lower_up_to_leftover"] == pytest.approx(max(0.0, low - c * high), rel=1e-6)
        left = cell["leftover"]
        if left["draws"]:
            assert left["hits"] == 0  # there is no hidden region
            assert left["limit"] == pytest.approx(1.0 - (0.9 * level) ** (1.0 / left["draws"]), rel=1e-9)
    assert result["lower"][0, :, column].max() > 0.25 * truth_at(AIM)


def truth_at(epsilon: float) -> float:
    curve = exact("gaussian", {"sigma": 1.0}, np.array([0.0]), np.array([1.0]))
    return float(curve.delta(np.array([epsilon]), "forward")[0])


def test_bounds_at_other_levels_are_implied(result: Result) -> None:
    """A set limits P and Q, and so δ at every ε: p − e^ε·(q + r) with the same p, q and r."""
    for direction in (0, 1):
        for name in ("lower", "lower_up_to_leftover"):
            values = result[name][0, direction]
            slopes = np.diff(values) / np.diff(np.exp(EPSILONS))
            assert (slopes <= 0.0).all()
            assert np.allclose(slopes, slopes[0], rtol=1e-9)


def test_json_has_what_it_promises_and_nothing_else(result: Result) -> None:
    found = json.loads(result.to_json())
    known = {"name", "complete", "confidence", "pairs", "cells", "spectrum", "tradeoff", "accuracy", "warnings"}
    assert set(found) == known
    assert found["accuracy"] == found["tradeoff"] == []
    for cell in found["cells"]:
        assert set(cell) == CELL
        assert set(cell["leftover"]) == {"draws", "hits", "limit"}
        assert set(cell["sums"]) == {"weights", "squares", "spreads", "logs"}
        assert all(type(v) is int for v in (*cell["draws"], cell["leftover"]["draws"], cell["leftover"]["hits"]))
    for row in found["spectrum"]:
        within = [c["lower_up_to_leftover"] for c in found["cells"] if c["epsilon"] == row["epsilon"]]
        assert row["lower_up_to_leftover"] == max(within)
        assert within[["forward", "reverse"].index(row["lower_up_to_leftover_direction"])] == max(within)
    assert show(result.store).strip() == result.to_json()


def test_the_table_tells_of_the_leftover(result: Result) -> None:
    direction = int(result["spectrum_lower_up_to_leftover_direction"][-1])
    left = {name: result[f"leftover_{name}"][0, direction, -1] for name in ("draws", "hits", "limit")}
    name = ("forward", "reverse")[direction]
    found = re.search(rf"pair 0, {name}: no hit in ([\d,]+) plain draws of (D′?): r ≤ (\S+)", text(result))
    assert left["hits"] == 0
    assert found[2] == ("D′", "D")[direction]
    assert int(found[1].replace(",", "")) == left["draws"]
    assert left["limit"] <= float(found[3]) <= 1.01 * left["limit"]
    assert "X alone is no bound on δ" in " ".join(text(result).split())
    assert "only that draws are independent" not in " ".join(text(result).split())
    assert "radius" not in text(result)


def test_footnotes_say_what_numbers_rest_on(result: Result) -> None:
    alone = " ".join(text(changed(result, tape_by_rows=[0], tape_seen=[4_321])).split())
    words = "one output a call: the numbers are of calls for one output; whether calls for many have the same"
    assert words in alone
    assert words not in " ".join(text(result).split())
    assert "Checked on n = 4,321 outputs without a difference" in alone
    for page in (alone, " ".join(text(result).split())):
        assert "output i is a function of its database and of its own noise; nothing kept from other outputs" in page
    assert "nothing is gained by proposals: plain draws were counted" in text(changed(result, tape_gain=[1.0]))
    assert "nothing is gained" not in text(result)


def _pages(result: Result) -> list[str]:
    return [
        text(result),
        show_as(result, "table", {"delta": [1e-3]}),
        show_as(result, "table", {"renyi": [2.0], "zcdp": True}),
        show_as(result, "table", {"risk": [1.0]}),
        report([verify(result, "gaussian(mu=1)")]),
        show_as(result, "table", {"accuracy": True}),
    ]


@pytest.mark.slow
def test_every_page_says_which_direction_has_no_bounds(result: Result, alone: Result) -> None:
    words = f"{OTHER}: δ̂ alone, without bounds: the whole failure probability and all plain draws are for the other direction"
    assert all(words in " ".join(page.split()) for page in _pages(alone))
    assert not any("without bounds" in page for page in _pages(result))


def test_a_violation_in_a_direction_without_bounds_is_none(alone: Result) -> None:
    """δ̂ of both directions is far above the claim: the bound of the one refutes it, and nothing does where that is not drawn."""
    claim = f"dp(epsilon={AIM},delta=1e-10)"
    assert verify(alone, claim).verdict == VIOLATION
    delta = alone["delta"].copy()
    delta[0, DIRECTIONS.index(ALONE)] = delta[:, :, :-1] = 0.0  # but for the other direction at the ε to certify
    found = verify(changed(alone, lower=np.zeros_like(delta), delta=delta), claim)
    assert found.verdict == NOT_SEPARABLE
    assert (found.separation.direction, found.separation.epsilon, found.separation.test) == (OTHER, AIM, None)
    assert "That direction has no bound (target.direction)" in " ".join(report([found]).split())


def test_every_page_says_what_was_declared(result: Result) -> None:
    mechanism = result.study.mechanism.model_copy(update={"impossible": "laws:never"})
    study = result.study.model_copy(update={"mechanism": mechanism})
    declared = Result(study, result.store, True, result.pairs, result.arrays, [], 1)
    for page in _pages(declared):
        assert "DECLARED, not measured (mechanism.impossible): D′ gives no output of the set laws:never" in page
        assert "only that draws are independent" not in page
    assert "DECLARED" not in text(result)


def test_a_leftover_that_is_empty_at_small_epsilons_alone_is_told_with_them(result: Result) -> None:
    """Else a note says that all of a direction is certified, where larger ε have a leftover."""
    first = result["spectrum_lower_up_to_leftover_direction"][0]
    limit, draws = result["leftover_limit"].copy(), result["leftover_draws"].copy()
    limit[0, first, :], draws[0, first, :] = 0.0, 0
    directions = np.full_like(result["spectrum_lower_up_to_leftover_direction"], first)
    own = {"spectrum_lower_up_to_leftover_direction": directions, "leftover_draws": draws}
    everywhere = text(changed(result, **own, leftover_limit=limit))
    assert "no weight is above the cut-off, so r = 0: X is certified" in " ".join(everywhere.split())
    directions = np.where(np.arange(directions.size) == 0, first, 1 - first)
    limit[0, first, 1:], draws[0, first, 1:] = 1e-6, 1000
    own = {"spectrum_lower_up_to_leftover_direction": directions, "leftover_draws": draws}
    partly = text(changed(result, **own, leftover_limit=limit))
    words = f"at ε ≤ {result['epsilon'][0]:g} no weight is above the cut-off, so r = 0 there: X is certified"
    assert words in " ".join(partly.split())


def test_hits_of_the_leftover_warn(result: Result) -> None:
    hits = np.zeros_like(result["leftover_hits"])
    direction = int(result["spectrum_lower_up_to_leftover_direction"][-1])  # the one whose leftover is told
    hits[0, direction] = 7
    hidden = changed(result, leftover_hits=hits)
    assert f"WARNING: pair 0, {('forward', 'reverse')[direction]}: 7 of" in text(hidden)
    assert "7 hits in" in text(hidden)
    assert "WARNING" not in text(result)
    assert any("7 of" in words for words in json.loads(hidden.to_json())["warnings"])
    assert json.loads(result.to_json())["warnings"] == []


def test_what_is_up_to_the_leftover_violates_nothing(result: Result) -> None:
    """δ̂ and X are above this claim, what is certified is not."""
    some = changed(result, lower=np.zeros_like(result["lower"]), spectrum_lower=np.zeros(len(EPSILONS)))
    claim = f"dp(epsilon={AIM},delta=1e-10)"
    assert verify(result, claim).verdict == VIOLATION
    found = verify(some, claim)
    assert found.verdict == NOT_SEPARABLE
    assert "plain draws for the leftover" in " ".join(report([found]).split())
    assert found.to_dict()["separation"]["leftover"] == found.separation.leftover
    place = (0, ("forward", "reverse").index(found.separation.direction), -1)
    left = some["leftover_limit"][place]
    assert left > 0.0  # else no draws would be needed
    hits = np.ones_like(result["leftover_hits"])
    hidden = verify(changed(some, leftover_hits=hits), claim)
    assert hidden.separation.leftover is None
    assert "Plain draws hit the leftover" in " ".join(report([hidden]).split())


def test_epsilon_at_names_all_three(result: Result) -> None:
    level = result.epsilon_at(1e-4)
    assert 0.0 < level.lower <= level.up_to_leftover
    assert level.to_dict()["lower_up_to_leftover"] == level.up_to_leftover
    tiny = result.epsilon_at(1e-10)
    assert tiny.found == "beyond the grid"
    assert tiny.lower > AIM
    page = " ".join(show_as(result, "table", {"delta": [level.delta, tiny.delta]}).split())
    for words in ("up to the leftover ≥", "by itself no limit", "together with them"):
        assert words in page
    nothing = changed(result, lower=np.zeros_like(result["lower"]))
    assert nothing.epsilon_at(1e-4).lower == 0.0
    assert nothing.epsilon_at(1e-4).up_to_leftover == level.up_to_leftover


def test_divergences_and_risk_take_the_certified_row_alone(result: Result) -> None:
    more = changed(result, lower_up_to_leftover=np.full_like(result["lower"], 0.9))
    assert more.renyi([1.0, 2.0]) == result.renyi([1.0, 2.0])
    assert more.zcdp() == result.zcdp()
    assert risk_levels(more, [1.0]) == risk_levels(result, [1.0])
    for order, found in zip((2.0, 4.0), result.renyi([2.0, 4.0]), strict=True):
        assert 0.0 < found.lower <= order / 2.0  # of N(0, 1) and N(1, 1)
    assert 0.0 < result.zcdp().lower <= 0.5


def test_the_picture_has_three_marks_in_three_colours(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    figure = draw(result, path)
    axis = figure.axes[0]
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert axis.get_yscale() == "log"
    lines = {line.get_gid(): line for line in axis.get_lines()}
    shown = {name: to_hex(lines[name].get_color()) for name in ("certified", "up to the leftover", "estimate")}
    assert shown == {"certified": CERTIFIED, "up to the leftover": UP_TO_LEFTOVER, "estimate": ESTIMATED}
    assert len(set(shown.values())) == 3
    regions = [to_hex(c.get_facecolor()[0]) for c in axis.collections if c.get_gid() == "certified"]
    assert regions == [CERTIFIED]
    seen = result["spectrum_lower_up_to_leftover"] > 0.0
    assert np.array_equal(lines["up to the leftover"].get_ydata(), result["spectrum_lower_up_to_leftover"][seen])
    known = lines["certified"].get_ydata()
    assert max(known) <= result["spectrum_lower"].max()
    bars = axis.containers[0].lines[2][0].get_segments()
    place = (result["spectrum_pair"], result["spectrum_direction"], np.arange(len(EPSILONS)))
    lengths = [bar[1][1] - bar[0][1] for bar in bars]
    assert np.allclose(lengths, 2.0 * (result["spectrum_upper"] - result["delta"][place]))
    words = " ".join(entry.get_text() for entry in axis.get_legend().get_texts())
    for kind in (
        "certified: δ is on or above",
        "up to the leftover (finite-sample)",
        "whisker to approx ≤ (approximate)",
    ):
        assert kind in words
    assert draw(result, log=False).axes[0].get_yscale() == "linear"


@pytest.mark.slow
def test_pairs_that_were_left_out_are_told(raced: Result) -> None:
    stages = raced["tape_stage"].tolist()
    assert stages == [DRAWN, LEFT_OUT]
    assert "1 of 2 pairs were left out of the test" in text(raced)
    assert "heuristic" in text(raced)
    assert {cell["pair"] for cell in raced.cells()} == {0}
    assert "most exposed: pair 0" in text(raced)


def test_a_store_that_is_not_done(result: Result) -> None:
    nothing = unmeasured(_study())
    assert nothing["tape_stage"].tolist() == [UNLEARNED]
    assert nothing.cells() == []
    assert nothing.spectrum() == []
    records = Records(result.store)
    index = records.index
    index.spans.clear()
    arrays = assemble(records.problem, index)
    learned = Result(result.study, result.store, False, pair_entries(records.problem), arrays, [], 1)
    assert learned["tape_stage"].tolist() == [LEARNED]
    assert learned.cells() == []
    assert next(entry.get_text() for entry in draw(learned).axes[0].get_legend().get_texts()).startswith("no entry")
    for some in (nothing, learned):
        assert "INCOMPLETE" in text(some)
        assert csv_text(some).startswith("pair,direction,epsilon,delta,lower,upper,")
        assert csv_text(some).splitlines()[0] == csv_text(result).splitlines()[0]
        assert json.loads(some.to_json())["cells"] == []


def test_claims_are_ranked_and_errors_resampled(result: Result) -> None:
    claims = [parse_claim(f"gaussian(mu={mu})", Path()) for mu in (1.0, 3.0)]
    found = rank(result, claims)
    assert found.fits[0].claim == "gaussian(mu=1.0)"
    assert found.steps[0].separable
    for error in bootstrap(result):
        assert error["resampled"] == pytest.approx(error["standard_error"], rel=0.5)


def taped(folder: Path, epsilon: float, **changes: Any) -> Path:
    """A study with a tape, a claim, and an ε to certify."""
    target = {"epsilon": epsilon, "relative_error": 0.1, "most": 1_000_000, **changes.pop("target", {})}
    own = {"claim": "gaussian(mu=1)", "epsilons": [epsilon], "certify": [epsilon], "target": target}
    return write_study(folder, **{**TAPED, "call": "gaussian", "parameters": {"sigma": 1.0}, **own, **changes})


def plan_words(*found: Any, **changes: Any) -> str:
    return " ".join(call("plan", taped(*found, **changes)).stdout.split())


@pytest.mark.parametrize(("target", "level"), [({}, 0.025), ({"direction": ALONE}, 0.05)])
def test_plans_say_what_a_certificate_takes(target: dict[str, str], level: float, tmp_path: Path) -> None:
    """A direction that is asked for alone has all of the level."""
    words = plan_words(tmp_path, AIM, claim="gaussian(mu=0.6)", target=target)
    found = re.search(r"a certificate takes about (\S+) plain draws", words)
    curve = exact("gaussian", {"sigma": 1.0}, np.array([0.0]), np.array([0.6]))
    delta = float(curve.delta(np.array([AIM]), "forward")[0])
    # within 5 %: three digits are printed
    assert float(found[1]) == pytest.approx(math.log(1.0 / (0.9 * level)) * math.exp(AIM) / (0.28 * delta), rel=0.05)
    assert "does not allow it" in words
    assert (f", {ALONE} alone (target.direction), a certificate" in words) == bool(target)


def test_audits_say_that_they_are_of_plain_draws(tmp_path: Path) -> None:
    file = taped(tmp_path, 1.0)
    for given in (["audit", file], ["audit", file, "--sequential"], ["plan", file, "--truth", "gaussian(mu=2)"]):
        found = call(*given, code=2)
        assert "estimate.tape: audits, sequential ones too, are of plain draws; given: true" in found.stderr
        assert "hpcdp verify" in found.stderr
    planned = call("plan", file).stdout
    assert not [words for words in ("radius", "validation tallies") if words in planned]
    assert all(words in planned for words in ("leftover", "levels"))
