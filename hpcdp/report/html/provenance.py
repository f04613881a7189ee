"""Where a result comes from: its study, digests, versions and times, all of them from the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcdp._base.asked import option
from hpcdp._base.raised import readable
from hpcdp.errors import DamagedError, StudyError
from hpcdp.keys import digest_array, digest_json
from hpcdp.report.html.batches import commands_of
from hpcdp.report.html.redacted import failure_words, redacted, shortened, stop_words
from hpcdp.report.html.toml import to_toml
from hpcdp.report.sequential import stand_alone
from hpcdp.results.exported import Exported
from hpcdp.results.result import Result
from hpcdp.store.records import foreign, read_records
from hpcdp.store.root import open_latest
from hpcdp.study.stored import read_study_record

_RUNS, _FAILED, _DATABASES = 20, 20, 20  # that a page lists


@dataclass(frozen=True)
class Run:
    """A run of the study: when, with which versions, what failed, and why it ended early."""

    begin: str
    end: str | None
    python: str
    platform: str
    commit: str | None
    packages: Mapping[str, str]
    failed: Sequence[str]
    stopped: str | None


@dataclass(frozen=True)
class Provenance:
    """study: as the text of a study file. left_out: keys that are not in it. digests: what, and its digest. runs: the last ones.

    earlier: how many runs before them are not listed. commands: that compute the same again.
    """

    study: str
    left_out: Sequence[str]
    seed: int
    digests: Sequence[tuple[str, str]]
    runs: Sequence[Run]
    earlier: int
    commands: Sequence[str]


def provenance_of(result: Result, show_rows: bool) -> Provenance:
    """Of a result in a store. show_rows: with inline databases, local paths, and what was raised."""
    if isinstance(result, Exported):
        return _exported(result, show_rows)
    layout, version = open_latest(result.store)
    body, given = read_study_record(layout, version), result.study.to_dict()
    study, private = (given, []) if show_rows else redacted(given)
    text, long = shortened(study)
    arrays = {name: digest_array(values) for name, (_, values) in result.arrays.items()}
    digests = [
        ("study, as it is handed on here", digest_json(study)),
        ("source of the mechanism", body["source"]),
        ("results", digest_json(arrays)),
        *body.get("sources", {}).items(),
    ]
    if show_rows:  # the digest of few rows tells them to who guesses them
        many = body["databases"]
        digests += [(f"database {number}", digest) for number, digest in enumerate(many[:_DATABASES])]
        digests += [(f"databases {_DATABASES} to {len(many) - 1}", digest_json(many[_DATABASES:]))] * (
            len(many) > _DATABASES
        )
    bodies = [found for _, found in read_records(layout, "runs") if not isinstance(found, DamagedError)]
    with foreign(layout.root):
        runs = [_run(found, show_rows) for found in bodies[-_RUNS:]]
    return Provenance(
        to_toml(text),
        [*private, *long],
        result.study.seed,
        digests,
        runs,
        len(bodies) - len(runs),
        _commands(result, show_rows),
    )


def _exported(result: Exported, show_rows: bool) -> Provenance:
    """As it was written into a copy."""
    if show_rows:
        raise StudyError(
            f"{option('show_rows', True)}: accepted with a store; given: {result.address}, an exported copy, which says "
            "no more than it was given"
        )
    with foreign(result.address):
        found = dict(result.head["provenance"])
        digests = [(str(what), str(digest)) for what, digest in found["digests"]]
        return Provenance(**found | {"digests": digests, "runs": [Run(**run) for run in found["runs"]]})


def _run(body: Mapping[str, Any], show_rows: bool) -> Run:
    begin, failed = body["begin"], [readable(line) for line in body["failed"]]
    stopped = body.get("stopped")
    shown = failed[:_FAILED] if show_rows else [failure_words(line) for line in failed[:_FAILED]]
    return Run(
        begin["time"],
        body["end"]["time"] if "end" in body else None,
        begin["python"],
        begin["platform"],
        begin["commit"],
        dict(begin["packages"]),
        [*shown, *([f"… and {len(failed) - _FAILED:,} more"] if len(failed) > _FAILED else [])],
        None if stopped is None else readable(str(stopped)) if show_rows else stop_words(str(stopped)),
    )


def _commands(result: Result, show_rows: bool) -> list[str]:
    name, audits = result.name, result.sequential_audits
    compute = "risk" if result.study.at_risk is not None else "run"
    return [
        *([] if stand_alone(audits, result) else [f"hpcdp {compute} {name}.toml --store {name}.zarr"]),
        *commands_of(audits, show_rows),
        f"hpcdp report {name}.zarr -o {name}.html",
    ]
