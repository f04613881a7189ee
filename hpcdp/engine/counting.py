"""What tasks do for a method: learn series, count chunks of them, and record both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hpcdp.engine.context import Context
from hpcdp.engine.method import Learned, Prints, method_of
from hpcdp.engine.outcomes import Failure, NewFile, Report
from hpcdp.engine.series import Count, Learn, Series, record_name
from hpcdp.errors import DamagedError, MechanismError
from hpcdp.store.arrays import bytes_of, read_state
from hpcdp.store.copies import MOST_SENT


def learn(context: Context, work: Learn, report: Report) -> None:
    """Learn series: store their states where tasks share them, and record what learning shows."""
    method = method_of(context.problem)
    learned = method.learn_all(context, work.series, report)
    files: dict[Series, NewFile] = {}
    for series, one in learned.items():
        state = one.state() if work.keeps else one.file
        if state is None or (context.layout.is_copy and bytes_of(state) > MOST_SENT):
            continue  # it is learned again where it is needed, from the same draws
        columns = () if method.serves_any(context) else series.columns
        files[series] = NewFile.of_state(context.layout, context.layout.counter(series.key, columns), state)
    alone = [series for series, one in learned.items() if one.file is not None]  # whose record is named by its key
    for group in ([s for s in learned if s not in alone], *([series] for series in alone)):
        _record_learned(context, {s: learned[s] for s in group}, {s: files[s] for s in group if s in files}, report)


def count(context: Context, work: Count, report: Report) -> None:
    """Count a range of chunks, and record the sums of each series that got all of them."""
    method, chunks = method_of(context.problem), range(work.start, work.stop)
    counters = _counters(context, work.series, report)
    prints: Prints = {}
    sums = method.count(context, counters, chunks, report, prints) if counters else {}
    if not sums:
        return
    first, series = work.series[0], [*sums]
    whole = {law: [*own.values()] for law, own in prints.items() if len(own) == len(chunks)}
    body = {
        "stage": first.stage.name,
        "start": work.start,
        "stop": work.stop,
        "samples": first.samples(chunks),
        "columns": list(first.columns),
        "laws": _laws(series),
        "entries": [{"key": one.key, **values} for one, values in sums.items()],
        "fingerprints": whole,
    }
    report.add("counts", record_name("counts", series, chunks), body)


def _laws(series: Iterable[Series]) -> list[str]:
    """What a record rests on: it is of no use once samples of one of these are taken out of use."""
    return sorted({law for one in series for law in one.laws})


def _record_learned(
    context: Context,
    learned: Mapping[Series, Learned],
    files: Mapping[Series, NewFile],
    report: Report,
) -> None:
    """Record what learning showed, and which states are stored."""
    if not learned:
        return
    laws = _laws(learned)
    body = {
        "columns": list(next(iter(learned)).columns),
        "laws": laws,
        "entries": [{"key": s.key, "stored": s in files, **one.facts} for s, one in learned.items()],
        "fingerprints": {law: context.training_prints[law] for law in laws if law in context.training_prints},
    }
    report.add("fits", record_name("fits-stored" if files else "fits", [*learned]), body, [*files.values()])


def _counters(context: Context, series: Sequence[Series], report: Report) -> dict[Series, Any]:
    """What counts each series: restored where a task stored it, else learned here, and what that shows recorded."""
    method = method_of(context.problem)
    counters: dict[Series, Any] = {}
    learned: dict[Series, Learned] = {}
    for one in series:
        try:
            counter = restored(context, one)
            if counter is None:
                new = method.learn(context, one)
                counter = new.counter
                if new.records_facts:
                    learned[one] = new
            counters[one] = counter
        except (MechanismError, DamagedError) as error:
            report.failures.append(Failure.of(method.describe_series(context.problem, [one]), error))
    _record_learned(context, learned, {}, report)
    return counters


def restored(context: Context, series: Series) -> Any | None:
    """What was stored of a learned series; None where there is nothing, or nothing sound: it can be learned again."""
    method = method_of(context.problem)
    columns = () if method.serves_any(context) else series.columns
    try:
        state = read_state(context.layout.counter(series.key, columns))
    except DamagedError:
        return None
    return method.restore(context, series, state)
