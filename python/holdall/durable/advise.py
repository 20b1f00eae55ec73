"""What to use for which workload: a decision matrix as code, each answer with its reason, its threshold and its figure.

Figures are of this repository's own benches (`python -m benches`, 2 shared cores) unless they say otherwise; a workload far from
theirs is a reason to measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple, get_args

from holdall.durable.policies import PER_STEP_ABOVE_USD
from holdall.errors import ArgumentError, UnknownNameError

Survives = Literal["nothing", "process", "power"]

# Full history costs nothing but tokens; above half the window, answers, tools and documents begin to lack room.
FULL_HISTORY_SHARE: Final = 0.5
# Below it one cut prefix in a session is all there is to save by keeping it.
STABLE_ABOVE_TURNS: Final = 100
# One file has one writer at a time: about this many checkpoints a second, with fsync, on the disk of the benches.
SQLITE_WRITES_PER_S: Final = 200.0
# A vector of 384 floats: 77 MB, read whole for each search in 13 ms.
EXACT_VECTORS: Final = 50_000
PGVECTOR_VECTORS: Final = 5_000_000
# Writers of one session at the same moment: up to here an update is tried again for less than a quarter of a second.
OPTIMISTIC_WRITERS: Final = 8
# A step of more seconds, done by several workers at once, is dearer to throw away than to wait for.
LOCK_ABOVE_STEP_S: Final = 5.0
COLD_AFTER_DAYS: Final = 7.0
_TIERS_FIGURE: Final = (
    "whole reads against PostgreSQL, hot in the process / in Redis: 20 messages 1.1x / .45x, 100 messages 5.5x / 1.6x"
)


def _fact(default: Any, help_text: str) -> Any:
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True)
class Workload:
    """What an agent does, as far as the advice depends on it. The defaults are a chat agent of one service.

    Attributes are documented by `holdall advise --help`, word for word.
    """

    turns: int = _fact(20, "turns of a long session: user messages and rounds of tool calls")
    tokens_per_turn: int = _fact(500, "tokens that a turn adds, tool results included")
    window: int = _fact(128_000, "tokens of the model's window, less what is kept for the answer")
    has_cache_pricing: bool = _fact(False, "the provider charges less for a prefix that it has seen")  # noqa: FBT003
    hosts: int = _fact(1, "machines with workers that share sessions")
    regions: int = _fact(1, "regions that write sessions")
    writes_per_s: float = _fact(10.0, "checkpoints a second, over all sessions")
    survives: Survives = _fact("power", "what an acknowledged write must survive: nothing, process, power")  # noqa: RUF009
    needs_sql: bool = _fact(False, "people query states with SQL")  # noqa: FBT003
    is_serverless: bool = _fact(False, "no server of one's own, connections come and go")  # noqa: FBT003
    kept_days: float = _fact(1.0, "days for which a session may be asked for again")
    step_cost_usd: float = _fact(0.002, "what a step costs to do again, in dollars")
    step_s: float = _fact(3.0, "seconds that a step takes")
    has_phases: bool = _fact(False, "steps come in phases, and only whole phases are worth keeping")  # noqa: FBT003
    has_transactions: bool = _fact(False, "several steps must be seen together or not at all")  # noqa: FBT003
    writers: int = _fact(1, "workers that write one session at the same moment")
    writes_overlap: bool = _fact(True, "these writers change the same fields, not only append")  # noqa: FBT003
    vectors: int = _fact(0, "memories or passages to search by meaning")
    is_managed: bool = _fact(False, "a managed vector service is wanted")  # noqa: FBT003

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(one.default, bool):
                if not isinstance(value, bool):
                    raise ArgumentError(f"{one.name} is {value!r}; true or false")
            elif isinstance(one.default, str):
                known = list(get_args(Survives))
                if value not in known:
                    raise UnknownNameError(
                        f"{one.name} is {value!r}; known are {', '.join(known)}",
                        what=one.name,
                        name=str(value),
                        known=known,
                    )
            else:
                self._check_number(one.name, value, is_whole=isinstance(one.default, int), is_above_0=bool(one.default))

    @staticmethod
    def _check_number(name: str, value: Any, *, is_whole: bool, is_above_0: bool) -> None:
        kinds = int if is_whole else (int, float)
        least = 1 if is_above_0 and name in ("turns", "window", "hosts", "regions", "writers") else 0
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value < math.inf:
            raise ArgumentError(f"{name} is {value!r}; a {'whole ' if is_whole else ''}number of at least {least}")


class Advice(NamedTuple):
    """One answer.

    Attributes:
        question: What was to be decided: "history", "store", "tiers", "checkpoints", "vectors", "concurrency".
        answer: What to use.
        use: How that is written.
        reason: Why, for this workload.
        threshold: What would have to change for another answer.
        figure: What the threshold rests on.
    """

    question: str
    answer: str
    use: str
    reason: str
    threshold: str
    figure: str


def advise(workload: Workload) -> list[Advice]:
    """Return what to use for a workload, one answer for each question, in a fixed order."""
    return [question(workload) for question in QUESTIONS]


def _history(w: Workload) -> Advice:
    tokens = w.turns * w.tokens_per_turn
    share = tokens / w.window
    says = f"a session of {w.turns} turns is {tokens:,} tokens, {share:.0%} of the window"
    limit = f"full history up to {FULL_HISTORY_SHARE:.0%} of the window"
    if share <= FULL_HISTORY_SHARE:
        return Advice(
            "history",
            "full",
            "ContextWindowPacker(...).pack_messages(messages)",
            f"{says}: all of it fits, and the packer returns what fits unchanged",
            limit,
            "re-pack of 300 unchanged messages: 14 us",
        )
    if w.has_cache_pricing and w.turns > STABLE_ABOVE_TURNS:
        return Advice(
            "history",
            "stable",
            'ContextWindowPacker(..., strategy="stable")',
            f"{says}, and a prefix that stays the same is charged less each time",
            f"{limit}; above it and above {STABLE_ABOVE_TURNS} turns stable, where prefixes are cached, else optimal",
            "4 coding sessions of 300 messages and more: .22x the input dollars of a sliding window at 32k, optimal 1.71x",
        )
    return Advice(
        "history",
        "optimal",
        'ContextWindowPacker(..., strategy="optimal")',
        f"{says}: something must go, and the choice by relevance keeps most of what is asked for",
        f"{limit}; above it optimal, or stable where prefixes are cached and turns exceed {STABLE_ABOVE_TURNS}",
        "evidence that survives, no model: LoCoMo .88 at 2k and .91 at 4k, BEAM .72 and QMSum .77 at 4k",
    )


def _store(w: Workload) -> Advice:
    if w.survives == "nothing" and w.hosts == 1 and not w.needs_sql:
        return Advice(
            "store",
            "memory",
            'holdall.open("memory:")',
            "nothing has to outlive the process, and no other machine shares the sessions",
            "as soon as a session must survive a restart: sqlite",
            "no I/O at all",
        )
    if w.is_serverless or w.regions > 1:
        why = "connections come and go" if w.is_serverless else f"{w.regions} regions write"
        return Advice(
            "store",
            "dynamodb",
            'holdall.open("dynamodb://...")',
            f"{why}: no pool to keep, and the service replicates; a session must be written in one region at a time",
            "one region with servers of one's own: postgres",
            "tested against an emulator, so there is no figure of its speed here: measure it",
        )
    is_light = w.hosts == 1 and w.writes_per_s <= SQLITE_WRITES_PER_S and not w.needs_sql
    if is_light:
        return Advice(
            "store",
            "sqlite",
            'holdall.open("sqlite:///sessions.db")',
            f"one machine and {w.writes_per_s:g} checkpoints a second: no server is needed, and power may fail",
            f"one host and up to {SQLITE_WRITES_PER_S:g} checkpoints a second; above: postgres, or redis",
            "1.2 KB checkpoints, each fsynced: 125 to 307 a second on the disk of the benches; 2.2x the raw floor",
        )
    if w.survives == "power" or w.needs_sql:
        why = "people query states" if w.needs_sql else "an acknowledged write must survive a power cut"
        return Advice(
            "store",
            "postgres",
            'holdall.open("postgresql://...")',
            f"{why}; {_hosts(w)} with {w.writes_per_s:g} checkpoints a second",
            "survives=process and no SQL: redis; one light host: sqlite",
            "checkpoint 1.2x the raw floor; 10 crashes of the server under load: 0 of 8,501 writes lost",
        )
    return Advice(
        "store",
        "redis",
        'holdall.open("redis://...")',
        f"{_hosts(w)} with {w.writes_per_s:g} checkpoints a second, and no write has to survive a power cut",
        "survives=power, or SQL: postgres",
        "checkpoint 1.3x the raw floor; server killed 10 times with everysec: 56 of 11,040 writes lost",
    )


def _hosts(w: Workload) -> str:
    return "one host" if w.hosts == 1 else f"{w.hosts} hosts"


def _tiers(w: Workload) -> Advice:
    if w.kept_days > COLD_AFTER_DAYS and w.survives != "nothing":
        return Advice(
            "tiers",
            "hot, warm and cold",
            "TieredStateManager(warm, hot=..., cold=...), archive_idle()",
            f"sessions are asked for again after {w.kept_days:g} days, when few of them are worked on",
            f"an archive above {COLD_AFTER_DAYS:g} days; hot copies above {STABLE_ABOVE_TURNS} turns",
            _TIERS_FIGURE,
        )
    if w.turns > STABLE_ABOVE_TURNS and w.survives != "nothing":
        return Advice(
            "tiers",
            "hot and warm",
            "TieredStateManager(warm, hot=...)",
            f"a log of {w.turns} turns is long to read again for each step",
            f"hot copies above {STABLE_ABOVE_TURNS} turns; an archive above {COLD_AFTER_DAYS:g} days",
            _TIERS_FIGURE,
        )
    return Advice(
        "tiers",
        "one store",
        "holdall.open(...)",
        "sessions are short, and nobody asks for them later: a second tier is one more thing that can fail",
        f"hot copies above {STABLE_ABOVE_TURNS} turns; an archive above {COLD_AFTER_DAYS:g} days",
        "a read is one round trip",
    )


def _checkpoints(w: Workload) -> Advice:
    limit = f"per step above ${PER_STEP_ABOVE_USD:g} a step; whole transactions and phases first"
    if w.has_transactions:
        return Advice(
            "checkpoints",
            "per transaction",
            "CheckpointManager(store, policy=PerTransaction())",
            "a session that is resumed must see all steps of a transaction, or none",
            limit,
            "a checkpoint costs what its steps added, however many they are",
        )
    if w.step_cost_usd > PER_STEP_ABOVE_USD:
        return Advice(
            "checkpoints",
            "per step",
            "CheckpointManager(store, policy=PerStep())",
            f"doing a step again costs ${w.step_cost_usd:g}, more than any checkpoint",
            limit,
            "a checkpoint is one round trip, 1.2 to 2.2x the raw floor, the same at step 1000 as at step 10",
        )
    if w.has_phases:
        return Advice(
            "checkpoints",
            "per phase",
            "CheckpointManager(store, policy=PerPhase())",
            f"a step costs ${w.step_cost_usd:g}, and half a phase is worth nothing",
            limit,
            f"a crash redoes a phase; at ${w.step_cost_usd:g} a step that is cents",
        )
    return Advice(
        "checkpoints",
        "every 10 steps",
        "CheckpointManager(store, policy=Periodic(steps=10))",
        f"a step costs ${w.step_cost_usd:g}: a crash redoes at most ten, ${10 * w.step_cost_usd:g}",
        limit,
        "ten steps of up to $0.01 are ten cents",
    )


def _vectors(w: Workload) -> Advice:
    sizes = f"exact up to {EXACT_VECTORS:,}, pgvector up to {PGVECTOR_VECTORS:,}, then a vector server"
    if w.vectors == 0:
        return Advice(
            "vectors",
            "none",
            "pack_messages(..., query=...)",
            "there is nothing to search by meaning; history is ranked by BM25 inside the packer",
            "as soon as there are memories beyond the session",
            "evidence that survives without a model: LoCoMo .91, BEAM .72, QMSum .77 at 4k",
        )
    if w.is_managed:
        return Advice(
            "vectors",
            "pinecone",
            "Pinecone, behind SemanticMemory",
            f"{w.vectors:,} vectors, and nobody is to run a server for them",
            sizes,
            "a service: there is no figure of its speed here",
        )
    if w.vectors <= EXACT_VECTORS:
        return Advice(
            "vectors",
            "embedded, exact",
            "exact search in the process, behind SemanticMemory",
            f"{w.vectors:,} vectors are read whole for each search: no index, no server, nothing missed",
            sizes,
            "384 floats, numpy: 0.4 ms for 10,000 vectors, 13 ms for 50,000 (77 MB), 68 ms for 200,000",
        )
    if w.vectors <= PGVECTOR_VECTORS and (w.needs_sql or w.survives == "power"):
        return Advice(
            "vectors",
            "pgvector",
            "pgvector, behind SemanticMemory",
            f"{w.vectors:,} vectors beside the sessions, in the database that is there already",
            sizes,
            "an HNSW index; exact search in the process would take 13 ms for each 50,000",
        )
    return Advice(
        "vectors",
        "qdrant",
        "Qdrant, behind SemanticMemory",
        f"{w.vectors:,} vectors are more than a process should read, or a session database hold",
        sizes,
        "the engine runs in the tests, its server does not: measure it",
    )


def _concurrency(w: Workload) -> Advice:
    limit = (
        f"optimistic up to {OPTIMISTIC_WRITERS} writers of one session; merge where they only append; "
        f"a lock above, or for steps above {LOCK_ABOVE_STEP_S:g} s"
    )
    figure = "8 processes on one key: no update lost, 1.07 to 1.18x the rate of a loop by hand on Redis and PostgreSQL, .9x on SQLite"
    if w.writers == 1:
        return Advice(
            "concurrency",
            "optimistic",
            "OptimisticStateStore(store)",
            "one worker at a time writes a session: the compare-and-swap is free, and catches the one that was thought dead",
            limit,
            figure,
        )
    if not w.writes_overlap:
        return Advice(
            "concurrency",
            "merge",
            'state_store(store, "merge")',
            f"{w.writers} writers append and change different fields: both can be kept, and neither waits",
            limit,
            "a clash that cannot be merged is an error that holds both sides",
        )
    if w.writers > OPTIMISTIC_WRITERS or w.step_s > LOCK_ABOVE_STEP_S:
        return Advice(
            "concurrency",
            "lock",
            'state_store(store, "lock", ...)',
            f"{w.writers} writers change the same fields in steps of {w.step_s:g} s: the work of those who lose would be thrown away",
            limit,
            "a fence keeps a holder out that was stopped past its lease: the record itself refuses it",
        )
    return Advice(
        "concurrency",
        "optimistic",
        "OptimisticStateStore(store).update(session_id, fn)",
        f"{w.writers} writers meet now and then, and doing {w.step_s:g} s again is cheaper than a lock for everybody",
        limit,
        figure,
    )


QUESTIONS: Final[tuple[Callable[[Workload], Advice], ...]] = (
    _history,
    _store,
    _tiers,
    _checkpoints,
    _vectors,
    _concurrency,
)


def document(workload: Workload) -> dict[str, Any]:
    """Return workload and advice as plain values, for JSON."""
    return {"workload": asdict(workload), "advice": [one._asdict() for one in advise(workload)]}
