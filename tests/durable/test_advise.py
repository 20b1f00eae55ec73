"""`advise`: each threshold turns the answer, and every answer says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdall
from holdall import ArgumentError, Workload, advise
from holdall.cli.main import main
from holdall.durable.advise import (
    COLD_AFTER_DAYS,
    EXACT_VECTORS,
    OPTIMISTIC_WRITERS,
    PGVECTOR_VECTORS,
    SQLITE_WRITES_PER_S,
    STABLE_ABOVE_TURNS,
    document,
)
from holdall.durable.conflict import STRATEGIES
from holdall.durable.policies import PER_STEP_ABOVE_USD

QUESTIONS = ["history", "store", "tiers", "checkpoints", "vectors", "concurrency"]


def answer(question: str, **workload: Any) -> str:
    return next(one.answer for one in advise(Workload(**workload)) if one.question == question)


@pytest.mark.parametrize(
    ("question", "expected", "workload"),
    [
        ("history", "full", {"turns": 128, "tokens_per_turn": 500}),
        ("history", "optimal", {"turns": 129, "tokens_per_turn": 500}),
        ("history", "stable", {"turns": 129, "tokens_per_turn": 500, "has_cache_pricing": True}),
        ("history", "optimal", {"turns": STABLE_ABOVE_TURNS, "tokens_per_turn": 5000, "has_cache_pricing": True}),
        ("history", "full", {"turns": 129, "tokens_per_turn": 500, "window": 1_000_000}),
        ("store", "sqlite", {}),
        ("store", "memory", {"survives": "nothing"}),
        ("store", "redis", {"survives": "nothing", "hosts": 2}),
        ("store", "redis", {"survives": "process", "hosts": 2}),
        ("store", "postgres", {"survives": "power", "hosts": 2}),
        ("store", "postgres", {"survives": "process", "hosts": 2, "needs_sql": True}),
        ("store", "postgres", {"needs_sql": True}),
        ("store", "sqlite", {"writes_per_s": SQLITE_WRITES_PER_S}),
        ("store", "postgres", {"writes_per_s": SQLITE_WRITES_PER_S + 1}),
        ("store", "dynamodb", {"is_serverless": True}),
        ("store", "dynamodb", {"regions": 2, "hosts": 4}),
        ("tiers", "one store", {}),
        ("tiers", "hot and warm", {"turns": STABLE_ABOVE_TURNS + 1}),
        ("tiers", "hot, warm and cold", {"kept_days": COLD_AFTER_DAYS + 1}),
        ("tiers", "one store", {"kept_days": COLD_AFTER_DAYS + 1, "survives": "nothing"}),
        ("checkpoints", "every 10 steps", {"step_cost_usd": PER_STEP_ABOVE_USD}),
        ("checkpoints", "per step", {"step_cost_usd": PER_STEP_ABOVE_USD + 0.001}),
        ("checkpoints", "per phase", {"has_phases": True}),
        ("checkpoints", "per step", {"has_phases": True, "step_cost_usd": 1.0}),
        ("checkpoints", "per transaction", {"has_transactions": True, "step_cost_usd": 1.0}),
        ("vectors", "none", {}),
        ("vectors", "embedded, exact", {"vectors": EXACT_VECTORS}),
        ("vectors", "pgvector", {"vectors": EXACT_VECTORS + 1}),
        ("vectors", "qdrant", {"vectors": PGVECTOR_VECTORS + 1}),
        ("vectors", "qdrant", {"vectors": EXACT_VECTORS + 1, "survives": "process"}),
        ("vectors", "pinecone", {"vectors": 5, "is_managed": True}),
        ("concurrency", "optimistic", {}),
        ("concurrency", "optimistic", {"writers": OPTIMISTIC_WRITERS}),
        ("concurrency", "lock", {"writers": OPTIMISTIC_WRITERS + 1}),
        ("concurrency", "lock", {"writers": 2, "step_s": 60.0}),
        ("concurrency", "merge", {"writers": 2, "step_s": 60.0, "writes_overlap": False}),
    ],
)
def test_each_threshold_turns_the_answer(question: str, expected: str, workload: dict[str, Any]) -> None:
    assert answer(question, **workload) == expected


@given(
    st.builds(
        Workload,
        turns=st.integers(1, 10**6),
        tokens_per_turn=st.integers(0, 10**6),
        hosts=st.integers(1, 1000),
        regions=st.integers(1, 9),
        writes_per_s=st.floats(0, 1e6),
        survives=st.sampled_from(["nothing", "process", "power"]),
        needs_sql=st.booleans(),
        is_serverless=st.booleans(),
        kept_days=st.floats(0, 1e4),
        step_cost_usd=st.floats(0, 1e3),
        writers=st.integers(1, 100),
        writes_overlap=st.booleans(),
        vectors=st.integers(0, 10**9),
    )
)
def test_every_workload_gets_every_answer_with_its_grounds(workload: Workload) -> None:
    """One answer for each question, and no empty field; what is durable is never kept in memory alone."""
    found = advise(workload)
    assert [one.question for one in found] == QUESTIONS
    assert all(all(one) for one in found)
    by = {one.question: one.answer for one in found}
    if workload.survives != "nothing" or workload.hosts > 1:
        assert by["store"] != "memory"
    if workload.survives == "power":
        assert by["store"] != "redis"
    if workload.hosts > 1:
        assert by["store"] not in ("memory", "sqlite")
    json.dumps(document(workload))


def test_what_is_advised_exists() -> None:
    """The names in `use` are names of this library."""
    for workload in (Workload(), Workload(writers=3), Workload(writers=3, writes_overlap=False), Workload(writers=30)):
        assert answer("concurrency", writers=workload.writers, writes_overlap=workload.writes_overlap) in STRATEGIES
    for name in (
        "CheckpointManager",
        "ContextWindowPacker",
        "OptimisticStateStore",
        "PerPhase",
        "PerStep",
        "PerTransaction",
        "Periodic",
        "TieredStateManager",
        "state_store",
    ):
        assert hasattr(holdall, name), name


@pytest.mark.parametrize(
    "bad",
    [
        {"turns": 0},
        {"turns": 1.5},
        {"turns": True},
        {"step_cost_usd": -0.1},
        {"writes_per_s": float("nan")},
        {"kept_days": float("inf")},
        {"survives": "fire"},
        {"needs_sql": "yes"},
        {"writers": "2"},
    ],
)
def test_a_workload_is_checked(bad: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        Workload(**bad)


def test_the_command_says_what_the_function_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["advise", "--hosts", "3", "--writers", "2", "--no-writes-overlap", "--step-cost-usd", "0.05", "--json"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert said == document(Workload(hosts=3, writers=2, writes_overlap=False, step_cost_usd=0.05))
    assert main(["advise", "--cache-pricing"]) == 0
    text = capsys.readouterr().out
    for question in QUESTIONS:
        assert f"{question}: " in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_workload_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options go before what the file says; what is wrong with it is one line, and exit code 2."""
    file = tmp_path / "workload.json"
    file.write_text('{"hosts": 4, "vectors": 10}')
    assert main(["advise", "--workload", str(file), "--vectors", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"] == document(Workload(hosts=4))["workload"]
    for text in ('{"host": 4}', "[]", "{", '{"hosts": 0}'):
        file.write_text(text)
        assert main(["advise", "--workload", str(file)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["advise", "--workload", str(tmp_path / "none.json")]) == 2
    assert main(["advise", "--hosts", "many"]) == 2
