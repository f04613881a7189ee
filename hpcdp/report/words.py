"""Sentences that several readings share: what numbers rest on, and what speaks against them; each is a paragraph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcdp._base.rounding import at_most, percent, share
from hpcdp.results.result import Result
from hpcdp.store.root import resume_command
from hpcdp.study.file import Study

if TYPE_CHECKING:
    pass

_ORIGIN = ("database", "rows", "distribution", "index", "view")  # of a pair, in CSV: numbers, never contents
FOR_MORE = "The risk may grow when outputs are processed further."
NO_PRIVACY = "This proves no privacy"
BY_ITSELF = "Each is a family of its own: each holds at the confidence level, not all at once."


def leading_words(result: Result, pairs: Sequence[int | None]) -> list[str]:
    """Where pairs that a table names come from; nothing of a study with one pair."""
    named = dict.fromkeys(pair for pair in pairs if pair is not None)
    return [result.describe_pair(pair) for pair in named] if len(result.pairs) > 1 else []


def over_words(result: Result) -> str:
    """Over which pairs the largest is taken, and whether entries are missing."""
    many = len(result.pairs)
    over = "both directions of 1 pair" if many == 1 else f"{many:,} pairs and both directions"
    return f"the largest over {over}{state_words(result)}"


def state_words(result: Result) -> str:
    """That entries are missing, if they are."""
    return "" if result.complete else "  (INCOMPLETE: only what has all its counts)"


def missing_words(what: str, result: Result) -> str:
    """That nothing can be said yet."""
    return f"{what}; go on with: {resume_command(result.store)}"


def estimate(delta: float, limit: float | None) -> str:
    """δ̂ as texts print it: where it may be 0, the limit of the sets that were learned (see `Method.describe_limits`)."""
    return share(delta) if limit is None else f"< {at_most(limit)}*"


def limit_words(results: Sequence[Result]) -> list[str]:
    """What "<" and "*" of `estimate` mean, if there are any; one for each method among the results."""
    marked = [result for result in results if result.resolution.warnings]
    return [*dict.fromkeys(result.method.describe_limits(percent(result.confidence)) for result in marked)]


def changed_words(result: Any) -> list[str]:
    """That code changed while the store grew, and that draws depend on each other; of a result or a sequential audit."""
    return [f"WARNING: {words}" for words in result.code_warnings]


def trust_words(study: Study, tried: str = "the first chunk of each database") -> list[str]:
    """What certified numbers rest on besides independent draws, and of which distribution they are, where that is not plain.

    tried: the outputs that a class of somebody else was tried on.
    """
    e, paragraphs = study.estimate, []
    foreign = e.foreign
    if foreign is not None:
        paragraphs.append(
            f"Certified numbers also rest on {foreign} judging each output by itself, whatever else is in its batch. That was "
            f"tried on trial outputs and on {tried}, not proved."
        )
    if not study.mechanism.reproducible:
        paragraphs.append(
            "reproducible = false: a chunk that failed is drawn anew, so that certified numbers are of the distribution of "
            "outputs given that the mechanism does not fail. Whether it fails may tell D from D′; that is not counted."
        )
    if study.pairs.distributional is not None:
        paragraphs.append(
            "Distributional DP: one row has a known value, and all other rows are random. The numbers hold for the distributions "
            "of databases of this study only."
        )
    return paragraphs


def shared_words(result: Result, sizes: bool = True) -> list[str]:
    """What all numbers of a result rest on besides independent draws, and what speaks against them.

    sizes: whether to say which numbers of samples make δ̂ significant; a verdict has numbers of its own.
    """
    grown = (
        f"This is a new estimate; the study of this store was before: {'; '.join(result.grown)}. The bounds of each "
        "estimate hold by themselves, if what was added was not chosen after a look at the results."
    )
    return [
        *result.method.describe_basis(result),
        *trust_words(result.study),
        *changed_words(result),
        *_equal_words(result),
        *(f"warning: {words}" for words in result.resolution.warnings[: None if sizes else 1]),
        *([grown] if result.grown else []),
    ]


def _equal_words(result: Result) -> list[str]:
    """That a pair compares a database with itself."""
    equal = [str(pair["pair"]) for pair in result.pairs if pair.get("equal")]
    numbers = ", ".join(equal[:6]) + (", …" if len(equal) > 6 else "")
    words = f"WARNING: D and D′ are equal in pair{'s' * (len(equal) > 1)} {numbers}: δ is 0 there, whatever the mechanism does"
    return [words] if equal else []


def origin_names(result: Result) -> list[str]:
    """Columns of a CSV file that say where a pair comes from."""
    return [key for key in _ORIGIN if any(key in entry for entry in result.pairs)]


def origin_of(pair: Mapping[str, Any]) -> dict[str, Any]:
    """These columns of a pair, rows apart by spaces."""
    columns = {key: pair.get(key, "") for key in _ORIGIN}
    return {key: " ".join(map(str, value)) if isinstance(value, list) else value for key, value in columns.items()}
