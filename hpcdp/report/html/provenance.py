"""Where a result comes from, as the store says it and as it may be handed on: without databases, paths or texts of others."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from hpcdp._base.asked import option
from hpcdp._base.files import to_toml
from hpcdp._base.raised import readable
from hpcdp.errors import DamagedError, StudyError
from hpcdp.keys import digest_array, digest_json
from hpcdp.losses.counts import audit_etas
from hpcdp.report.audit import stand_alone
from hpcdp.results.load import Exported
from hpcdp.results.result import Result
from hpcdp.store.records import foreign, read_records
from hpcdp.store.root import open_latest
from hpcdp.study.claims import factors_of
from hpcdp.study.pairs import LEFT_OUT
from hpcdp.study.stored import read_study_record

_LISTS: dict[str, list[Any]] = {  # so that what is left is a study still
    "pairs.given.d": [LEFT_OUT],
    "pairs.given.d_prime": [LEFT_OUT],
    "pairs.relative.databases": [[LEFT_OUT]],
    "pairs.relative.values": [LEFT_OUT],
}
_LONGEST = 20_000  # characters of a list in a text
_PATHS = ("file", "files", "folder")  # keys whose values are paths, however short
_READ = re.compile(r"\s*(file|store)\s*\((.*)\)\s*", re.DOTALL)
_RAISED = re.compile(r"^(.*? raised [^\s:]+)")
_PATH = re.compile(r"(?:(?<= )~|\S*[/\\]).*(?= raised )")  # to its end, as folders have spaces too
_RUNS, _FAILED, _DATABASES = 20, 20, 20  # that a page lists


_RUN = ("begin", "end", "python", "platform", "commit", "packages", "failed", "stopped")
_KEYS = ("study", "left_out", "seed", "digests", "runs", "earlier", "commands")
"""Of a run: when it was, with which versions, what failed, and why it ended early. Of a result: its study as the text of a file,
keys that are not in it, what has which digest, the last runs, how many before them are not listed, and what computes it again."""


def provenance_of(result: Result, show_rows: bool) -> dict[str, Any]:
    """Of a result in a store, JSON values by `_KEYS`. show_rows: with inline databases, local paths, and what was raised."""
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
    bodies = [record for _, record in read_records(layout, "runs") if not isinstance(record, DamagedError)]
    with foreign(layout.root):
        runs = [_run(record, show_rows) for record in bodies[-_RUNS:]]
    told = to_toml(text), [*private, *long], result.study.seed, digests, runs, len(bodies) - len(runs)
    return dict(zip(_KEYS, (*told, _commands(result, show_rows)), strict=True))


def _exported(result: Exported, show_rows: bool) -> dict[str, Any]:
    """As it was written into a copy."""
    if show_rows:
        raise StudyError(
            f"{option('show_rows', True)}: accepted with a store; given: {result.address}, an exported copy, which says "
            "no more than it was given"
        )
    with foreign(result.address):
        entries = {key: result.head["provenance"][key] for key in _KEYS}
        digests = [(str(what), str(digest)) for what, digest in entries["digests"]]
        return entries | {"digests": digests, "runs": [{key: run[key] for key in _RUN} for run in entries["runs"]]}


def _run(body: Mapping[str, Any], show_rows: bool) -> dict[str, Any]:
    begin, failed = body["begin"], [readable(line) for line in body["failed"]]
    stopped = body.get("stopped")
    shown = failed[:_FAILED] if show_rows else [failure_words(line) for line in failed[:_FAILED]]
    shown += [f"… and {len(failed) - _FAILED:,} more"] if len(failed) > _FAILED else []
    why = None if stopped is None else readable(str(stopped)) if show_rows else stop_words(str(stopped))
    end, noted = body["end"]["time"] if "end" in body else None, [begin[key] for key in _RUN[2:6]]
    return dict(zip(_RUN, (begin["time"], end, *noted, shown, why), strict=True))


def _commands(result: Result, show_rows: bool) -> list[str]:
    """Those that compute the same again, or go on with sequential audits."""
    name, audits = result.name, result.sequential_audits
    compute = "risk" if "covers" in result.notions else "run"
    if result.study.estimate.etas == audit_etas():  # which the command chose, not the study's file
        compute = "audit" if result.study.study.claim is not None else "audit --claim CLAIM"
    commands = [] if stand_alone(audits, result) else [f"hpcdp {compute} {name}.toml --store {name}.zarr"]
    for audit in audits:
        claim = audit.claim if show_rows else short_claim(audit.claim)
        words = ["hpcdp", "audit", f"{name}.toml", "--claim", claim, "--sequential"]
        words += ["--orientation", audit.orientation] * (audit.orientation != "both")
        words += ["--batch", str(audit.rounds.batch), "--budget", str(audit.rounds.budget)]
        commands.append(shlex.join([*words, "--store", f"{name}.zarr"]))
    return [*commands, f"hpcdp report {name}.zarr -o {name}.html"]


def redacted(study: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A study as `Study.to_dict` has it, and the keys of what is left out of it."""
    gone: list[str] = []
    public = _without(study, "", gone)
    if (claim := study["study"].get("claim")) is not None:
        public["study"]["claim"] = short_claim(claim)
        gone = [key for key in gone if key != "study.claim"]
        gone += ["study.claim: its folders"] if short_claim(claim) != claim else []
    return public, sorted(dict.fromkeys(gone))


def shortened(study: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A study for a text, and the keys of its lists that are too long for one, in whose place it says how long they are."""
    gone: list[str] = []
    return _short(study, "", gone), gone


def _short(value: Any, key: str, gone: list[str]) -> Any:
    if isinstance(value, list) and len(json.dumps(value)) > _LONGEST:
        gone.append(f"{key}, {len(value):,} entries")
        return f"{LEFT_OUT}: {len(value):,} entries"
    if isinstance(value, Mapping):
        return {name: _short(item, f"{key}.{name}" if key else name, gone) for name, item in value.items()}
    return value


def reads_files(claim: str) -> bool:
    """Whether a claim is of a file or a store."""
    return any(_READ.fullmatch(factor) for factor in factors_of(claim))


def short_claim(text: str) -> str:
    """A claim whose files and stores have lost their folders."""
    if not reads_files(text):
        return text
    factors = [(factor, _READ.fullmatch(factor)) for factor in factors_of(text)]
    return "*".join(factor if match is None else f"{match[1]}({_last(match[2])})" for factor, match in factors)


def _last(path: str) -> str:
    bare = path.strip()
    mark = bare[:1] if bare[:1] in ("'", '"') and bare[1:].endswith(bare[:1]) else ""
    return f"{mark}{PurePath(bare.strip(mark or None).replace(chr(92), '/')).name}{mark}"


def _without(value: Any, key: str, gone: list[str]) -> Any:
    is_data = key.startswith("pairs.") and ".parameters." in key and isinstance(value, list)
    if value is None or value == []:
        return value
    if key in _LISTS:
        gone.append(key)
        return _LISTS[key]
    if is_data or key.rpartition(".")[2] in _PATHS or (isinstance(value, str) and _is_path(value)):
        gone.append(key)
        return LEFT_OUT
    if isinstance(value, Mapping):
        return {name: _without(item, f"{key}.{name}" if key else name, gone) for name, item in value.items()}
    if isinstance(value, list):
        return [_without(item, key, gone) for item in value]
    return value


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith("~")


def failure_words(line: str) -> str:
    """What failed, up to the name of what was raised: its text may hold rows, and names files."""
    raised = _RAISED.match(line)
    return f"{_PATH.sub(LEFT_OUT, raised[1]) if raised else line.partition(': ')[0]} (its text is left out)"


def stop_words(text: str) -> str:
    """Why a run ended early, without paths."""
    return " ".join(LEFT_OUT if _is_path(word) else word for word in readable(text).split())
