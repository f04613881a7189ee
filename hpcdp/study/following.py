"""A study file beside the store that it goes on with: what the keys mean that it leaves out."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcdp.errors import DamagedError
from hpcdp.losses import kind_of, named_code, validate_parameters
from hpcdp.store.root import is_store, latest_version, open_layout
from hpcdp.study.bodies import earlier_study
from hpcdp.study.estimate import Estimate
from hpcdp.study.file import Study
from hpcdp.study.section import ALWAYS


def going_on(study: Study, root: Path) -> Study:
    """The study for the store at a path, if there is one: keys that the file leaves out and the store lacks mean what their
    absence in a store means, so that a newer default makes no other study of it; some mean what the store says.
    """
    held = _held(root)
    return following(study, held[-1], held[:-1]) if held else study


def _held(root: Path) -> list[dict[str, Any]]:
    """The studies of a store's versions that are whole, the latest last; none without a store, or where the latest is damaged."""
    if not is_store(root):
        return []
    layout = open_layout(root)
    version = latest_version(layout)
    with contextlib.suppress(DamagedError):  # the run says so, and writes it anew
        bodies = [earlier_study(layout, number) for number in range(1, version + 1)]
        return [body["study"] for body in bodies if body is not None]
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
    given = _with_loss_of_store(study, [*(one["estimate"] for one in earlier if "estimate" in one), kept])
    study = study.model_copy(update={"estimate": given})
    if _mean_the_same(given.default_loss, given.parameters, kept):
        study = study.model_copy(update={"estimate": given.model_copy(update={"parameters": kept["parameters"]})})
    return study


def may_be_either(given: Estimate, kept: dict[str, Any]) -> bool:
    """Whether a file names no loss, and a store's is the default or what takes its place: either may follow the other."""
    default = Estimate.model_fields["loss"].default
    return "loss" not in given.model_fields_set and kept["loss"] in (default, kind_of(default).otherwise)


def _with_loss_of_store(study: Study, held: Sequence[dict[str, Any]]) -> Estimate:
    """[estimate] with the loss that a store has, where the file names none, and sizes that are left out as the store has them.

    held: [estimate] of each version. A store that was made with the default goes back to it when what took its place is left out.
    """
    given, kept, default = study.estimate, held[-1], Estimate.model_fields["loss"].default
    if given.loss == default and any(one["loss"] == default for one in held):
        given = given.without_loss_named()  # to write the default out says no more than to leave it out
    if not may_be_either(given, kept):
        return given
    if study.is_drawn_for_cells:
        given = given.with_loss(default if any(one["loss"] == default for one in held) else kept["loss"])
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
