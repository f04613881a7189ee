"""What can be read off a result, by name: the options of `hpcdp show` choose among these, and packages offer more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hpcdp._base.plugins import load_plugin
from hpcdp.errors import StudyError
from hpcdp.report import audit, verdict
from hpcdp.report.exposed import read_rows
from hpcdp.report.levels import read_accuracy, read_levels, read_renyi, read_risk
from hpcdp.report.pure import read_covers, read_interval, read_published_renyi, read_pure, read_pure_rows
from hpcdp.report.sentences import BY_ITSELF, sentence_of, shared_words
from hpcdp.report.spectrum import read_spectrum, read_tradeoff
from hpcdp.report.tables import Reading, wrapped, write
from hpcdp.results.audit import Audit
from hpcdp.results.result import Result
from hpcdp.results.shown import Shown
from hpcdp.results.verdict import Verdict, judge

NOTIONS: Mapping[str, Callable[..., Reading]] = {
    "spectrum": read_spectrum,
    "tradeoff": read_tradeoff,
    "pure": read_pure,
    "interval": read_interval,
    "covers": read_covers,
    "delta": read_levels,
    "renyi": read_renyi,
    "risk": read_risk,
    "accuracy": read_accuracy,
    "rows": read_rows,
}
"""Functions of a result, and of what an option gives. Those that a result has where nothing is asked for: `Result.notions`."""

GROUP = "hpcdp.notions"
"""The entry points of notions that other packages offer: a `hpcdp.report.tables.Notion` each."""

_TOGETHER = ({"renyi", "zcdp"}, {"rows", "pure"})  # options that may be given together
_BY_EPSILON = ("delta", "accuracy", "rows", "renyi", "zcdp", "risk")
_PURE = ("pure", "interval")


def show_as(result: Result, form: str, options: Mapping[str, Any] | None = None, contents: bool = False) -> str:
    """What `hpcdp show` prints; StudyError where a result has no such thing or form. contents: what is in rows too."""
    asked = {name: value for name, value in (options or {}).items() if value}
    if not asked:
        audits = audit.worst_first(result.sequential_audits)
        alone = audit.stand_alone(audits, result)
        readings = [NOTIONS[name](result) for name in result.notions if not alone]
        readings += [audit.read_sequential(played, result) for played in audits]
        ending = [BY_ITSELF] * (len(audits) > 1) + [audit.NOTHING_ELSE] * alone
        ending += [*audit.unnamed_words(result), *shared_words(result)]
        csv = NOTIONS["covers" if "covers" in result.notions else "spectrum"](result).csv
        verdict = judge(result, result.claim) if result.notions and form == "table" and not alone else None
        head: list[str] = []
        if verdict is not None:
            words = wrapped([sentence_of(result, verdict).text])
            head = [f"{result.name}: {verdict.claim.text}: {verdict.text}", *words, "", ""]
        return "\n".join(head) + write(readings, form, ending, result.to_dict, csv)
    refuse_together(asked)
    return write(_asked_for(result, asked, form, contents), form, shared_words(result))


def refuse_together(options: Mapping[str, Any]) -> None:
    """StudyError where notions are asked for that are not shown together. options: see `show_as`."""
    asked = [name for name, value in options.items() if value]
    if len(asked) > 1 and not any({*asked} <= names for names in _TOGETHER):
        given = "both" if len(asked) == 2 else "all"
        raise StudyError(f"{', '.join(f'--{name}' for name in asked)}: accepted: one of them; given: {given}")


def _asked_for(result: Result, asked: Mapping[str, Any], form: str, contents: bool) -> list[Reading]:
    """The readings of what is asked for."""
    if "notion" in asked:
        return [load_plugin(GROUP, asked["notion"]).read(asked["notion"], result)]
    has_entries, pure = "spectrum" in result.notions, [name for name in result.notions if name in _PURE]
    if "rows" in asked and ("pure" in asked or pure == ["pure"]):
        _refuse(pure != ["pure"], "rows", "--pure of a study that has [pure]")
        return [read_pure_rows(result)]
    if "pure" in asked:
        _refuse(not pure, "pure", 'a study that has [pure] or loss = "histogram"; of others: --delta 0')
        return [NOTIONS[pure[0]](result)]
    published = [read_published_renyi(result, asked["renyi"])] if "renyi" in asked and pure == ["interval"] else []
    if published and not has_entries and "zcdp" not in asked:
        return published
    for name in asked:
        _refuse(not has_entries and name in _BY_EPSILON, name, "counts by ε, of which this store has none")
    if "renyi" in asked or "zcdp" in asked:
        own = read_renyi(result, asked.get("renyi", ()), "zcdp" in asked)
        return [*published, own] if form == "table" else [own]
    if "rows" in asked:
        return [read_rows(result, contents=contents)]
    (name,) = asked
    return [NOTIONS[name](result, asked[name])]


def _refuse(is_wrong: bool, name: str, accepted: str) -> None:
    if is_wrong:
        raise StudyError(f"--{name}: accepted with {accepted}")


def text(result: Result) -> str:
    """A result as `run` and `show` print it."""
    return show_as(result, "table").rstrip("\n")


def words_of(value: Shown) -> str:
    """The table of a result, an audit or a verdict; what else there is reads as Python writes it."""
    if isinstance(value, Result):
        return text(value)
    if isinstance(value, Audit):
        return audit.report(value)
    return verdict.report([value]) if isinstance(value, Verdict) else repr(value)
