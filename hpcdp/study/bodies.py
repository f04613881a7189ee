"""Records of a store's study: what each version held, checked as others may have written it."""

from __future__ import annotations

import re
from typing import Any

from hpcdp.errors import DamagedError
from hpcdp.store.layout import Layout
from hpcdp.store.records import read_json
from hpcdp.store.root import latest_version


def read_study_record(layout: Layout, version: int) -> Any:
    try:
        return sound_study(layout, version)
    except DamagedError as error:
        raise DamagedError(f"{error}; run the study file again, which writes it anew") from None


def sound_study(layout: Layout, version: int) -> Any:
    body = read_json(layout.study(version))
    if not _is_study(body):
        raise DamagedError(f"the record {layout.study(version)} is damaged (it is no study)")
    return body


def earlier_study(layout: Layout, version: int) -> Any:
    """What a version held, None where it is damaged or missing and no longer needed."""
    try:
        return sound_study(layout, version)
    except DamagedError:
        if version == latest_version(layout):
            raise
        return None


def _is_study(body: Any) -> bool:
    """Whether a record has what `save_problem` writes; the databases' names become paths."""
    kinds = {"study": dict, "folder": str, "databases": list, "schema": dict, "source": str}
    if not isinstance(body, dict) or not all(isinstance(body.get(key), kind) for key, kind in kinds.items()):
        return False
    return all(isinstance(name, str) and re.fullmatch("[0-9a-f]{32}", name) for name in body["databases"])
