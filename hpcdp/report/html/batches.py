"""What a page says of a sequential audit: a sentence, a table of looks, one of pairs, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict

from hpcdp._base.rounding import at_least, at_most, percent
from hpcdp.report.html.listed import PAIRS, POINTS
from hpcdp.report.html.marks import ASSUMED, COUNT, FINITE, GIVEN
from hpcdp.report.html.redacted import short_claim
from hpcdp.report.html.sentence import Sentence
from hpcdp.report.html.tables import Column, Table, make_table, thousands
from hpcdp.report.sequential import few_looks
from hpcdp.results.sequential import SequentialAudit


def sequential_sentence(audit: SequentialAudit) -> Sentence:
    """What an audit says of its claim, and what it does not say."""
    last, sure = audit.looks[-1], percent(audit.confidence)
    evidence, needed = at_least(last.evidence, ".4g"), f"{audit.needed:g}"
    drawn = f"{last.samples:,} samples per database, training included"
    if last.refuted:
        words = (
            f"The claim {audit.claim} is violated, certified at confidence {sure} (finite-sample, however often one looked): "
            f"after {drawn}, the evidence against it is at least {evidence}, and {needed} refutes it; this does not say by how "
            "much it is violated, nor that anything else about the mechanism is as claimed."
        )
    else:
        so_far = "was" if audit.ended else "has so far been"
        words = (
            f"The claim {audit.claim} {so_far} not refuted at confidence {sure} by {drawn}: the evidence against it is "
            f"{evidence}, and {needed} would refute it; this does not say that the claim holds: no number of samples shows that "
            "a mechanism is private."
        )
    return Sentence(audit.verdict, words)


def unfinished_lines(audits: Sequence[SequentialAudit]) -> list[str]:
    """Of audits that ended before their claim was refuted and their budget drawn."""
    return [
        f"UNFINISHED: the sequential audit of {audit.claim} has drawn {audit.looks[-1].samples:,} of "
        f"{audit.rounds.rounds * audit.rounds.batch:,} samples per database. A violation counts; all else may change. Go on with "
        'the command under "To repeat it".'
        for audit in audits
        if not audit.ended
    ]


def looks_table(audit: SequentialAudit) -> Table:
    """The evidence after each batch, or after some of many batches."""
    looks = few_looks(audit.looks, POINTS)
    columns = [
        Column("samples", "samples per database", COUNT, thousands),
        Column("evidence", "evidence ≥", FINITE, lambda value: at_least(value, ".4g")),
        Column("p_value", "p-value ≤", FINITE, lambda value: at_most(value, ".4g")),
        Column("refuted", "claim refuted", FINITE, lambda value: "refuted" if value else ""),
    ]
    made = make_table(
        f"Sequential audit of {audit.claim}, orientation {audit.orientation}", columns, [asdict(look) for look in looks]
    )
    return Table(
        made.caption,
        made.columns,
        made.rows,
        len(audit.looks) - len(looks),
        "audit --sequential --format json has every look",
    )


def pairs_table(audit: SequentialAudit) -> Table:
    """The evidence of each pair alone, the largest first."""
    columns = [
        Column("pair", "pair", GIVEN),
        Column("evidence", "evidence ≥", ASSUMED, lambda value: at_least(value, ".4g")),
        Column("p_value", "p-value ≤", ASSUMED, lambda value: at_most(value, ".4g")),
    ]
    entries = sorted(audit.cells, key=lambda cell: -cell["evidence"])
    caption = f"Each pair alone, of {audit.claim}: assumed that it was named before the draws, not for its evidence"
    return make_table(caption, columns, entries, PAIRS, "audit --sequential --format json has every pair")


def commands_of(audits: Sequence[SequentialAudit], show_rows: bool) -> list[str]:
    """The commands that compute sequential audits again, or go on with them."""
    found = []
    for audit in audits:
        claim = audit.claim if show_rows else short_claim(audit.claim)
        words = ["hpcdp", "audit", f"{audit.name}.toml", "--claim", claim, "--sequential"]
        words += ["--orientation", audit.orientation] * (audit.orientation != "both")
        words += ["--batch", str(audit.rounds.batch), "--budget", str(audit.rounds.budget)]
        found.append(shlex.join([*words, "--store", f"{audit.name}.zarr"]))
    return found
