"""Every golden study gives what is recorded, and the comparison sees what a fault would change."""

import golden_record
import pytest
from golden_record import differences, measure, measure_commands, recorded
from golden_studies import SEEDS, STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_gives_what_is_recorded(name):
    now = {path: value for seed in SEEDS for path, value in measure(name, seed).items()}
    before = {path: value for path, value in recorded().items() if path.split("/")[0] == name}
    assert not list(differences(before, now))


@pytest.mark.slow
@pytest.mark.promise
def test_commands_give_what_is_recorded(tmp_path):
    before = {path: value for path, value in recorded().items() if path.startswith("command ")}
    assert not list(differences(before, measure_commands(tmp_path)))


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("knn/1/cells/0", "delta", 1.00000001),
        ("knn/1/cells/0", "exceed", [1, 1]),
        ("knn/1/cells/0", "direction", "reverse"),
        ("network/1/cells/0", "delta", 1.2),
    ],
)
def test_the_comparison_sees_a_fault(path, key, value):
    before = recorded()
    old = before[path][key]
    changed = before | {path: before[path] | {key: old * value if isinstance(value, float) else value}}
    keys = [f"{path}/{key}/{n}" for n in range(2)] if isinstance(value, list) else [f"{path}/{key}"]
    assert [line.partition(": recorded ")[0] for line in differences(before, changed)] == keys


def test_the_comparison_sees_what_is_missing_or_ends_otherwise():
    before = recorded()
    changed = before | {"command verify/exit code": 0}
    del changed["pure/2/pure/certified"]
    assert len(list(differences(before, changed))) == 2
    assert before["command verify/exit code"] == 3


def test_a_command_that_prints_no_json_is_named_and_the_others_go_on(tmp_path, monkeypatch):
    shown = {name: golden_record.COMMANDS[name] for name in ("show", "refused")}  # of a store that is not there
    monkeypatch.setattr(golden_record, "COMMANDS", shown)
    now = golden_record.measure_commands(tmp_path)
    assert now["command show/exit code"] == now["command refused/exit code"] == 2
    assert now["command show/no JSON"].startswith("hpcdp: ")
    lines = list(differences(recorded(), now))
    assert "command show/name: recorded, now nothing" in lines
