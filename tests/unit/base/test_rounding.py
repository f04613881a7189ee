"""What texts print of one-sided figures is on the safe side of the figure: every table and line of every command."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from results import changed, measured, named

from hpcdp._base.rounding import at_least, at_most, failure, gap, percent, share, shorter
from hpcdp.engine.accuracy import Statement
from hpcdp.notions.accuracy import share_radius
from hpcdp.report import audit as audit_report
from hpcdp.report import spectrum as spectrum_report
from hpcdp.report import verdict
from hpcdp.report.audit import sequential_report
from hpcdp.report.notions import show_as
from hpcdp.report.notions import text as text_of
from hpcdp.results.audit import audit
from hpcdp.results.comparison import compare
from hpcdp.results.sequential import Look, Rounds, SequentialAudit
from hpcdp.results.verdict import verify
from hpcdp.study.claims import parse_claim

SPECS = (None, ".2e", ".1e", ".4f", ".5f", "+.6f", ".4g", ".3g")
EPSILONS = tuple(np.linspace(0.0, 4.0, 33).tolist())
COUNT = len(EPSILONS)


@given(st.floats(0.0, 1.0), st.sampled_from(SPECS))
def test_printed_bounds_are_on_the_safe_side(value: float, spec: str | None) -> None:
    below, above = at_least(value, spec), at_most(value, spec)
    assert float(below) <= value <= float(above)
    # and no further away than the digits that are shown
    assert below == above or float(format(value, spec) if spec else share(value)) in (float(below), float(above))


@pytest.mark.parametrize("value", [0.05, 0.25, 1e-5, 1.0, 0.0])
def test_what_the_digits_hold_is_printed_as_it_is(value: float) -> None:
    for spec in (None, ".2e", ".3g"):
        assert float(at_least(value, spec)) == value == float(at_most(value, spec))


def test_almost_one_is_not_one() -> None:
    assert at_least(0.9999999) == "0.999999"
    assert (percent(0.95), percent(0.9999999), percent(1 - 1e-12)) == ("95 %", "99.99999 %", "99.9999999999 %")
    assert [failure(c) for c in (0.95, 0.9999999, 0.98765, 0.9999999999)] == ["0.05", "1e-07", "0.013", "1e-10"]


def columns(text: str) -> dict[str, list[str]]:
    """The first table of a text, by its heads; of equal heads the last."""
    lines = text.splitlines()
    rule = next(i for i, line in enumerate(lines) if set(line) == {"-", " "})
    end = next((i for i in range(rule, len(lines)) if not lines[i]), len(lines))
    rows = [re.split(r"\s{2,}", line.strip()) for line in (lines[rule - 1], *lines[rule + 1 : end])]
    return {head: [row[i] for row in rows[1:]] for i, head in enumerate(rows[0])}


def number(cell: str) -> float:
    """The figure of a cell such as "1.00e-04 violated" or "< 0.001*"."""
    return float(cell.removeprefix("< ").split()[0].rstrip("*"))


def all_below(cells: list[str], values: np.ndarray) -> bool:
    return all(number(c) <= v for c, v in zip(cells, values, strict=True) if c != "-")


def all_above(cells: list[str], values: np.ndarray) -> bool:
    return all(number(c) >= v for c, v in zip(cells, values, strict=True) if c != "-")


@pytest.fixture(scope="module", name="result")
def result_fixture():
    """A result whose bounds and limits are random numbers, small ones and one near 1, in place of what was counted."""
    pair = [([0.0], [1.0])]
    size = {"train": 2000, "test": 2000, "epsilons": list(EPSILONS), "etas": np.geomspace(0.1, 10, 9).tolist()}
    found = measured("gaussian", {"sigma": 1.0}, pair, seed=1, confidence=0.9999999, **size)
    rng = np.random.default_rng(2)
    lower = np.sort(np.r_[0.99999987, 10.0 ** rng.uniform(-5.0, -1.0, COUNT - 1)])[::-1]
    return changed(found, spectrum_lower=lower, spectrum_upper=lower * 1.37, lower=np.stack([[lower, lower / 2]]))


def test_show(result) -> None:
    text = text_of(result)
    shown = columns(text)
    assert all_below(shown["certified ≥"], result["spectrum_lower"])
    assert all_above(shown["approx ≤"], result["spectrum_upper"])
    limits = [r["limit"] for r in result.spectrum()]
    assert any(limit is not None for limit in limits)
    assert all(number(c) >= v for c, v in zip(shown["δ̂"], limits, strict=True) if v is not None)
    assert "100 %" not in text
    assert text.count("99.99999 %") >= 3
    points = columns(text.partition("trade-off points")[2])
    for head, name in {"radius": "radius", "α ≤": "alpha_upper", "β ≤": "beta_upper"}.items():
        assert all_above(points[head], result[name][0])
    radius = re.findall(r"([\d.e+-]+) at ε", next(x for x in text.splitlines() if x.startswith("radius: ")))
    assert len(radius) == 3
    assert all_above(radius, share_radius([EPSILONS[0], EPSILONS[16], EPSILONS[32]], 2000, 1e-7 / (2 * COUNT)))


def test_show_accuracy(result, monkeypatch) -> None:
    rng = np.random.default_rng(3)
    stated = [Statement(e, *10.0 ** rng.uniform(-4.0, -1.0, 2)) for e in EPSILONS]
    result.__dict__["accuracy"] = lambda: stated
    error = {
        "delta": 0.1,
        "pair": 0,
        "direction": "forward",
        "standard_error": 0.1,
        "resampled": 0.1,
        "method": "classes",
    }
    errors = [{"epsilon": e, **error} for e in EPSILONS]
    monkeypatch.setattr("hpcdp.report.levels.bootstrap", lambda _: errors)
    try:
        text = show_as(result, "table", {"accuracy": True})
    finally:
        del result.__dict__["accuracy"]
    shown = columns(text)
    assert all_above(shown["radius"], np.array([s.radius for s in stated]))
    assert all_above(shown["published α"], np.array([s.alpha for s in stated]))
    assert "100 %" not in text


def test_levels(result) -> None:
    found = [result.epsilon_at(delta) for delta in np.geomspace(1e-3, 0.3, 20)]
    text = show_as(result, "table", {"delta": [level.delta for level in found]})
    assert all_below(columns(text)["certified ≥"], np.array([level.lower for level in found]))
    assert all_above(columns(text)["approx ≤"], np.array([level.upper or 0.0 for level in found]))
    assert "100 %" not in text


def test_verify(result) -> None:
    judged = verify(result, parse_claim("gaussian(mu=0.5)", result.study.folder))
    text = verdict.report([judged])
    assert all_below(columns(text)["certified ≥"], result["spectrum_lower"])
    excess = (result["lower"] - judged.claimed).argmax()
    least = re.search(r"δ\s+is\s+at\s+least\s+(\S+),", text)
    assert least is not None
    assert float(least[1]) <= result["lower"].flat[excess]
    assert "100 %" not in text


def test_compare(result) -> None:
    text = spectrum_report.table(compare([named(result, "one"), named(result, "two")]))
    shown = columns(text)
    assert all_below(shown["certified ≥"], result["spectrum_lower"])
    assert all_above(shown["approx ≤"], result["spectrum_upper"])
    assert "100 %" not in text


def test_audit(result) -> None:
    found = audit(result, parse_claim("gaussian(mu=0.5)", result.study.folder))
    text = audit_report.report(found)
    shown, boxes = columns(text), sorted(found.boxes, key=lambda box: -box.margin)
    for head, name in {"α ≤": "alpha_upper", "β ≤": "beta_upper"}.items():
        assert all_above(shown[head], np.array([getattr(box, name) for box in boxes]))
    for head in ("claimed ≥", "margin"):
        assert all_below(shown[head], np.array([getattr(box, head.split()[0]) for box in boxes]))
    bounds = columns(text[text.index("certified lower bound") :])
    for i, head in enumerate(("from the boxes", "from every η")):
        assert all_below(bounds[head], np.array([found.bounds.mu[i], *(row[1 + i] for row in found.bounds.epsilon)]))
    assert "100 %" not in text


def test_sequential_audit(result) -> None:
    evidence = (19.99996, 7.00049)
    looks = [Look(1000, e, 1 / e, False) for e in evidence]
    cells = [{"pair": 0, "evidence": evidence[-1], "p_value": 1 / evidence[-1]}]
    text = sequential_report(
        SequentialAudit(result.study, "gaussian(mu=0.5)", "both", Rounds(10, 10, 10), looks, cells)
    )
    assert all_below(columns(text)["evidence"], np.array(evidence))
    assert all_above(columns(text)["p-value"], 1 / np.array(evidence))
    assert "with probability at most 1e-07 if" in " ".join(text.split())


def test_no_small_share_prints_as_0() -> None:
    assert [share(1e-10), at_least(1.239e-10), at_most(1.231e-10)] == ["1.00e-10", "1.23e-10", "1.24e-10"]
    assert [shorter(x) for x in (0.25691, 1e-3, 1e-10, 0.0)] == ["0.2569", "0.0010", "1.00e-10", "0"]
    assert [gap(x) for x in (0.1234567, 1e-10, -2.341e-11, 0.0)] == ["+0.123456", "+1.00e-10", "-2.35e-11", "+0.000000"]
