"""A study file beside a store: what keys mean that it leaves out, what may change from version to version, and no more."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcdp._base.asked import option
from hpcdp._base.files import parse_toml, read_bytes
from hpcdp.errors import DamagedError, StudyError
from hpcdp.losses import kind_of, named_code, validate_parameters
from hpcdp.store.root import is_store, open_layout
from hpcdp.study.at_risk import AtRisk
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Header, Study
from hpcdp.study.mechanism import FunctionCall, MechanismSection, ProgramCall
from hpcdp.study.section import ALWAYS, Section
from hpcdp.study.stored import whole_versions


def going_on(study: Study, root: Path) -> Study:
    """The study for the store at a path, if any: what the file leaves out and the store lacks means what absence means there."""
    held = _held(root)
    return following(study, held[-1], held[:-1]) if held else study


def _held(root: Path) -> list[dict[str, Any]]:
    """The studies of a store's versions that are whole, the latest last; none without a store, or where the latest is damaged."""
    if not is_store(root):
        return []
    with contextlib.suppress(DamagedError):  # the run says so, and writes it anew
        return [body["study"] for body in whole_versions(open_layout(root))]
    return []


def following(study: Study, stored: dict[str, Any], earlier: Sequence[dict[str, Any]] = ()) -> Study:
    """The study of a file, for a store that holds this one and held earlier ones."""
    if (study.at_risk is None) != (stored.get("at_risk") is None):
        return study
    for name in ("study",) if study.at_risk is not None else ("study", "mechanism", "estimate"):
        section, known = getattr(study, name), stored[name]
        update = {
            k: known.get(k, key.absent)
            for k, key in section.keys().items()
            if key.absent is not ALWAYS and k not in section.model_fields_set and (key.kept or k not in known)
        }
        study = study.model_copy(update={name: section.model_copy(update=update)})
    if study.at_risk is not None:
        return study
    kept = stored["estimate"]
    given = _with_loss_of_store(study, [*(body["estimate"] for body in earlier if "estimate" in body), kept])
    study = study.model_copy(update={"estimate": given})
    if _mean_the_same(given.default_loss, given.parameters, kept):
        study = study.model_copy(update={"estimate": given.model_copy(update={"parameters": kept["parameters"]})})
    return study


def may_be_either(given: Estimate, kept: dict[str, Any]) -> bool:
    """Whether a file names no loss, and a store's is the default or what takes its place: either may follow the other."""
    default = Estimate.model_fields["loss"].default
    return "loss" not in given.model_fields_set and kept["loss"] in (default, kind_of(default).otherwise)


def _with_loss_of_store(study: Study, held: Sequence[dict[str, Any]]) -> Estimate:
    """[estimate] with the loss and sizes of a store, where the file names none. held: [estimate] of each version."""
    given, kept, default = study.estimate, held[-1], Estimate.model_fields["loss"].default
    if given.loss == default and any(estimate["loss"] == default for estimate in held):
        given = given.without_loss_named()  # to write the default out says no more than to leave it out
    if not may_be_either(given, kept):
        return given
    if study.is_drawn_for_cells:
        given = given.with_loss(default if any(estimate["loss"] == default for estimate in held) else kept["loss"])
    if (kept["train"], kept["test"]) != kind_of(default).sizes:
        return given
    left_out = {"train", "test"} - given.model_fields_set
    return given.model_copy(update={key: kept[key] for key in left_out})


def holds_loss(root: Path, name: str) -> bool:
    """Whether there is a store at a path whose study names this loss."""
    held = _held(root)
    return bool(held) and held[-1].get("estimate", {}).get("loss") == name


def _mean_the_same(loss: str, parameters: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether a loss's parameters, with the defaults that either leaves out, are those of a stored study."""
    old, stored = kept["loss"], kept["parameters"]
    if loss != (old if isinstance(old, str) else old[0]) or named_code(loss, parameters) or named_code(loss, stored):
        return False
    with contextlib.suppress(ValueError):
        return validate_parameters(loss, parameters) == validate_parameters(loss, stored)
    return False


_SHOWN = 80  # characters of a value in a message
_MOST_FILES = 100  # that are read to find a study's
_MOST_STUDY = 1 << 20  # bytes of one of them


def refuse_changes(root: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """StudyError naming every key in which `new` is more than an addition to `old` (contract of the study file)."""
    before, after = old["study"], new["study"]
    if "at_risk" in before or "at_risk" in after:
        _refuse_other_pairs(root, old, new)
        return
    changed = [
        words
        for section, model in (("study", Header), ("mechanism", MechanismSection), ("estimate", Estimate))
        for words in _changed_keys(section, model, before[section], after[section])
    ]
    changed += _changes("pure", before.get("pure"), after.get("pure"))
    changed += _changed_pairs(old, new)
    if changed:
        changed += _left_out(before["estimate"], after["estimate"])
        file = _file_of(old)
        own = f", that of {file}, which has the same name" if file else ""
        raise StudyError(
            f"{root} holds another study{own}; changed: {'; '.join(changed)}; accepted: databases of pairs.relative or "
            "distributions added, changed or removed; more given pairs, epsilons, etas, test or train samples; for anything else "
            f"give {'another study.name or ' if file else ''}another {option('store')}"
        )


def _left_out(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What to do about the default loss, written out for a store that was made with what takes its place."""
    is_default = new["loss"] == Estimate.model_fields["loss"].default
    other = kind_of(new["loss"]).otherwise if is_default else None
    if other is None or old["loss"] != other:
        return []
    return [f"a file that leaves estimate.loss out goes on with the store's {other}"]


def _refuse_other_pairs(root: Path, old: dict[str, Any], new: dict[str, Any]) -> None:
    """The same where one of both is a study with [at_risk]."""
    before, after = (body["study"].get("at_risk") for body in (old, new))
    changed = _changed_keys("study", Header, old["study"]["study"], new["study"]["study"])
    if before is None or after is None:
        changed.append(f"at_risk (the store's study has {'none' if before is None else 'it'})")
    else:
        changed += _changed_keys("at_risk", AtRisk, before, after)
        if not changed and old["databases"] != new["databases"]:
            changed.append(f"the rows of {after['population']['file']}")
    if changed:
        raise StudyError(
            f"{root} holds another study; changed: {'; '.join(changed)}; accepted: more pairs, another cover or confidence; for "
            f"anything else give another {option('store')}"
        )


def _changed_keys(section: str, model: type[Section], old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What changed in a section that may not, key by key, in words."""
    changes = []
    for name, key in model.keys().items():
        a: Any
        b: Any
        a, b = (values.get(name, None if key.absent is ALWAYS else key.absent) for values in (old, new))
        where = f"{section}.{name}"
        if key.may == "stay":
            changes += _changes(where, a, b)
        elif key.may == "grow" and (b or 0) < (a or 0):
            changes.append(f"{describe_change(where, a, b)} (may only grow)")
        elif key.may == "gain" and not (key.added is not None and tuple(a) == key.added()):
            left_out = sorted(set(a) - set(b))
            changes += [f"{where} without {_brief(left_out)} (points may only be added)"] if left_out else []
    return changes


def _changes(key: str, old: Any, new: Any) -> list[str]:
    """The keys below this one whose values differ, with both values; of tables those of their keys."""
    if key == "mechanism.call" and isinstance(old, dict) != isinstance(new, dict):
        old, new = (_told(call) for call in (old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        kept = {**ProgramCall.keys(), **FunctionCall.keys()} if key == "mechanism.call" else {}
        names = [k for k in dict.fromkeys([*old, *new]) if k not in kept or kept[k].may != "change"]
        return [words for k in names for words in _changes(f"{key}.{k}", old.get(k), new.get(k))]
    is_handed_on = ".parameters." in key  # to code that may tell 1, 1.0 and true apart, as keys of laws and models do
    return [] if (same(old, new) if is_handed_on else old == new) else [describe_change(key, old, new)]


def _told(call: Any) -> Any:
    """A mechanism's call by what tells it from others."""
    return {k: call[k] for k in ("command", "function") if k in call} if isinstance(call, dict) else call


def same(old: Any, new: Any) -> bool:
    """Whether both are one in a record, where 1, 1.0 and true are three."""
    return json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def describe_change(key: str, old: Any, new: Any) -> str:
    return f"{key} ({_brief(old)} in the store, {_brief(new)} given)"


def _brief(value: Any) -> str:
    text = "none" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def _file_of(body: dict[str, Any]) -> Path | None:
    """The study file from which a stored study came, where one in its folder still says the same."""
    folder = Path(body["folder"])
    try:
        if folder.stat().st_uid != os.geteuid():  # the record, and what lies there, may be a stranger's
            return None
        paths = sorted(folder.glob("*.toml"))[:_MOST_FILES]
    except (OSError, ValueError):
        return None
    for path in paths:
        with contextlib.suppress(StudyError, ValueError, OSError):
            study = Study.from_dict(parse_toml(read_bytes(path, _MOST_STUDY).decode()), folder.resolve())
            if following(study, body["study"]).to_stored() == body["study"]:
                return path
    return None


def _changed_pairs(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    a, b = old["study"]["pairs"], new["study"]["pairs"]
    kinds = [next(k for k, value in p.items() if value is not None) for p in (a, b)]
    if kinds[0] != kinds[1]:
        return [f"pairs ({kinds[0]} became {kinds[1]})"]
    if kinds[0] == "given":
        pairs = [list(zip(s["databases"][::2], s["databases"][1::2], strict=True)) for s in (old, new)]
        return [] if set(pairs[0]) <= set(pairs[1]) else ["pairs.given (pairs may only be added)"]
    if kinds[0] == "distributional":
        return []  # Δ may change freely, as T may: a pair's records are keyed by what it is
    if kinds[0] == "domain":
        return _changes("pairs.domain", a["domain"], b["domain"])
    before, after = a["relative"], b["relative"]
    changed = _changes("pairs.relative.relation", before["relation"], after["relation"])
    changed += [] if before["values"] == after["values"] else ["pairs.relative.values"]  # which rows hold, perhaps
    added = after["rows"] == "all" or (before["rows"] != "all" and set(before["rows"]) <= set(after["rows"]))
    words = f"{describe_change('pairs.relative.rows', before['rows'], after['rows'])} (rows may only be added)"
    return changed + ([] if added else [words])
