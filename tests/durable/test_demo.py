"""`holdall demo`: a real SIGKILL, and an honest account of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdall.cli import main
from holdall.cli.demo import Worker, reconcile
from holdall.cli.demo_worker import n_steps, recorded


@pytest.mark.parametrize("seed", [1, 2])
def test_the_demo_loses_nothing_and_does_nothing_twice(
    seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A worker is killed by signal 9, another finishes: every step has one effect, and all messages are there."""
    assert main(["demo", "--seed", str(seed), "--json", "--keep", str(tmp_path / "demo")]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["ok"] is True
    assert report["killed_by_signal"] == 9
    assert report["killed_pid"] != report["resumed_pid"]
    assert (report["lost_steps"], report["redone_steps"]) == ([], [])
    assert report["steps"] == report["effects"] == n_steps()
    assert report["messages"] == len(recorded()["messages"])
    effects = [json.loads(line) for line in (tmp_path / "demo" / "effects.jsonl").read_text().splitlines()]
    assert {effect["pid"] for effect in effects} <= {report["killed_pid"], report["resumed_pid"]}
    assert [effect["step"] for effect in effects] == list(range(1, n_steps() + 1))
    assert main(["demo", "--keep", str(tmp_path / "demo")]) == 2


def test_the_demo_reads_well(capfd: pytest.CaptureFixture[str]) -> None:
    """The text names both processes, the signal and the verdict."""
    assert main(["demo", "--seed", "3"]) == 0
    out = capfd.readouterr().out
    assert "SIGKILL to process" in out
    assert "resumes:" in out
    assert "Nothing lost, nothing done twice" in out


def workers(folder: Path, effects: list[tuple[int, int]], saved: int, recorded_at_kill: int, again: list[int]) -> dict:
    """The account of a made-up demo of three steps: who acted, what was acknowledged, what was done again."""
    (folder / "effects.jsonl").write_text("".join(json.dumps({"step": s, "pid": p}) + "\n" for s, p in effects))
    first = [{"event": "resumed", "recorded": 0}]
    for step in range(1, saved + 1):
        first += [{"event": "started", "step": step}, {"event": "saved", "step": step}]
    first.append({"event": "started", "step": saved + 1})
    second = [{"event": "resumed", "recorded": recorded_at_kill}]
    second += [{"event": "started", "step": step} for step in again]
    second.append({"event": "end", "steps": 3, "messages": 6, "messages_expected": 6})
    return reconcile(folder, Worker(1, first, -9), Worker(2, second, 0))


def test_the_account_tells_a_kill_between_effect_and_record(tmp_path: Path) -> None:
    """The effect is there, the record is not: named, and not counted as done twice."""
    report = workers(tmp_path, [(1, 1), (2, 1), (3, 2)], saved=1, recorded_at_kill=1, again=[2, 3])
    assert report["killed_between_effect_and_record"] == [2]
    assert report["ok"] is True


@pytest.mark.parametrize(
    ("effects", "saved", "recorded_at_kill", "again", "name", "steps"),
    [
        pytest.param([(1, 1), (2, 1), (2, 2), (3, 2)], 1, 1, [2, 3], "steps_with_two_effects", [2], id="twice"),
        pytest.param([(1, 1), (3, 2)], 1, 1, [2, 3], "steps_without_effect", [2], id="missing"),
        pytest.param([(1, 1), (2, 1), (3, 2)], 2, 1, [2, 3], "lost_steps", [2], id="lost"),
        pytest.param([(1, 1), (2, 1), (3, 2)], 2, 2, [2, 3], "redone_steps", [2], id="redone"),
    ],
)
def test_the_account_hides_nothing(
    tmp_path: Path,
    effects: list[tuple[int, int]],
    saved: int,
    recorded_at_kill: int,
    again: list[int],
    name: str,
    steps: list[int],
) -> None:
    """Whatever went wrong is named, and the demo fails."""
    report = workers(tmp_path, effects, saved, recorded_at_kill, again)
    assert report[name] == steps
    assert report["ok"] is False
