"""Who is the most exposed: resolved cells only, ties named, one answer everywhere, rows ranked, contents only on request."""

import csv
import io

import numpy as np
import pytest
from results import changed, measured

from hpcdp.report.audit import report as audit_report
from hpcdp.report.exposed import NOISE, exposed_lines, find_exposure, rank_rows
from hpcdp.report.notions import show_as
from hpcdp.report.notions import text as table_of
from hpcdp.report.spectrum import csv_text
from hpcdp.report.verdict import report
from hpcdp.results.audit import audit
from hpcdp.results.verdict import careful_error, verify
from hpcdp.study.claims import parse_claim

ROWS = [0.7, 0.1, 0.1, 3.0, 2.9, 0.0]  # rows 1 and 2 are equal, so one pair; 3 and 4 are alike


@pytest.fixture(scope="module", name="result")
def result_fixture():
    pairs = {"databases": [ROWS], "rows": "all", "relation": "remove"}
    estimate = {"train": 2000, "test": 4000, "epsilons": [0.0, 0.5, 1.0], "etas": [0.5, 1.0, 2.0]}
    return measured("bounded_sum", {"lower": 0.0, "upper": 3.0, "epsilon": 3.0}, pairs, seed=4, **estimate)


def test_rows_that_chance_may_have_put_behind_are_named(result):
    found = find_exposure(result)
    assert {found.pair, *found.close} == {2, 3}  # the pairs of rows 3 and 4
    column = found.column
    best = result["delta"][:, :, column].max(axis=1)
    direction = result["delta"][:, :, column].argmax(axis=1)
    error = careful_error(result)[np.arange(best.size), direction, column]
    sure = result.resolution.cells[:, :, column].any(axis=1)
    rule = best[found.pair] - best <= NOISE * np.hypot(error, error[found.pair])
    assert set(found.close) == {p for p in np.flatnonzero(rule & sure) if p != found.pair}
    own = (3, 4) if found.pair == 2 else (4, 3)
    lines = exposed_lines(result)
    assert f"(database 0 without row {own[0]})" in lines[0]
    assert lines[1].endswith(f"approximate): row {own[1]}")
    assert len(lines) == 2


@pytest.mark.parametrize("seed", range(1, 9))
def test_no_pair_is_named_where_no_largest_estimate_is_resolved(seed):
    """Of pair 0, whose δ is larger, nothing is resolved; pair 1 does not lead by that."""
    laws = {"outcomes": [0, 1, 2], "table": [[0.85, 0.15, 0.0], [1.0, 0.0, 0.0], [0.5, 0.35, 0.15], [0.7, 0.15, 0.15]]}
    pairs, sizes = [([0], [1]), ([2], [3])], {"train": 50, "test": 50, "epsilons": [0.5, 0.6]}
    found = measured("pmf", laws, pairs, seed=seed, loss="frequency", **sizes)
    led = found.resolution.rows.any()
    assert (find_exposure(found) is not None) == led
    assert bool(exposed_lines(found)) == led
    assert ("most exposed" in table_of(found)) == led


def test_every_command_names_the_same_pair(result):
    lines = exposed_lines(result)
    claim = parse_claim("gaussian(mu=1)", ".")
    texts = (
        table_of(result),
        report([verify(result, claim)]),
        audit_report(audit(result, claim)),
        show_as(result, "table", {"delta": [0.1]}),
    )
    for text in texts:
        found = [line for line in text.splitlines() if line.startswith(("most exposed", "within noise", "next at"))]
        assert found == lines


def test_a_cell_that_tells_nothing_leads_nowhere(result):
    """One output of 4,000 in a set of pair 0 at the last ε, where nothing else is seen: half of the old ranking."""
    delta, exceed, lower = (result[name].copy() for name in ("delta", "exceed", "lower"))
    delta[..., 1:], lower[..., 1:], exceed[:, :, 1:] = 0.0, 0.0, 0
    exceed[0, 0, 1:, 0], delta[0, 0, 1:] = 1, 1 / 4000
    spectrum = result["spectrum_delta"].copy(), result["spectrum_pair"].copy(), result["spectrum_direction"].copy()
    for values, new in zip(spectrum, (1 / 4000, 0, 0), strict=True):
        values[1:] = new
    names = ("spectrum_delta", "spectrum_pair", "spectrum_direction")
    made = changed(result, delta=delta, exceed=exceed, lower=lower, **dict(zip(names, spectrum, strict=True)))
    assert made.spectrum()[2]["pair"] == 0  # the contract's rule stays
    found = find_exposure(made)
    assert (found.leads, found.of, found.column) == (1, 1, 0)
    assert found.pair == result["spectrum_pair"][0] != 0
    none = changed(made, delta=np.zeros_like(delta), spectrum_delta=np.zeros(3))
    assert find_exposure(none) is None
    assert exposed_lines(none) == []
    _, rows = rank_rows(none)
    assert all(row["delta"] is None and not row["within_noise"] for row in rows)


def test_every_row_is_ranked_once_with_its_own_figures(result):
    (epsilon, rows), found = rank_rows(result), find_exposure(result)
    assert sorted(row["row"] for row in rows) == [0, 1, 2, 3, 4, 5]
    column = found.column
    assert epsilon == result["epsilon"][column]
    known = [row for row in rows if row["delta"] is not None]
    assert len(known) >= 2
    assert [row["delta"] for row in known] == sorted((row["delta"] for row in known), reverse=True)
    for row in rows:
        (pair,) = [entry["pair"] for entry in result.pairs if row["row"] in entry["rows"]]
        assert row["lower"] == result["lower"][pair, :, column].max()
        assert row not in known or (row["pair"], row["delta"]) == (pair, result["delta"][pair, :, column].max())
    assert {row["row"] for row in rows if row["within_noise"]} == {3, 4}


def test_csv_maps_pairs_to_rows(result):
    rows = list(csv.DictReader(io.StringIO(csv_text(result))))
    named = {int(r["pair"]): (int(r["database"]), [int(x) for x in r["rows"].split()]) for r in rows}
    assert named == {p["pair"]: (p["database"], p["rows"]) for p in result.pairs}
    assert [1, 2] in [rows for _, rows in named.values()]
