"""holdall: the memory of LLM agents. Pack a context window exactly, keep session state without losing a write."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdall import errors
from holdall._native import (
    PRIORITY_WEIGHTS,
    ContextItem,
    PackResult,
    Recency,
    Rendition,
    Tokenizer,
    ToolSet,
    ToolsResult,
    __version__,
    count_messages,
    extractive_summary,
    fit_tools,
)
from holdall.context.packer import ContextWindowPacker
from holdall.context.report import Calibration, Dropped, Kept
from holdall.errors import (
    ArgumentError,
    ClosedError,
    ConflictError,
    DecodeError,
    DecryptError,
    EncodeError,
    HoldallError,
    LockHeldError,
    LockLostError,
    MergeConflictError,
    MessageError,
    MissingParentError,
    NewerStateError,
    NotFoundError,
    OtherLoopError,
    OutcomeUnknownError,
    RateLimitedError,
    RequiredOverflowError,
    RunningLoopError,
    SessionGoneError,
    StaleFenceError,
    StoreBusyError,
    StoreUnavailableError,
    StrategyError,
    SummarizerError,
    ThreadCycleError,
    ThreadDepthError,
    ThreadError,
    ToolSchemaError,
    TornRecordError,
    UnknownNameError,
    UnreplicatedError,
    UserDeletedError,
)

if TYPE_CHECKING:
    from holdall.context.manager import ContextWindowManager, Window
    from holdall.durable.advise import Advice, Workload, advise
    from holdall.durable.backends import (
        DynamoSessionStore,
        MemorySessionStore,
        MongoSessionStore,
        PostgresSessionStore,
        RedisSessionStore,
        S3SessionStore,
        SqliteSessionStore,
    )
    from holdall.durable.checkpoint import CheckpointManager
    from holdall.durable.conflict import LastWriterWinsStateStore, MergingStateStore, state_store
    from holdall.durable.erase import delete_user
    from holdall.durable.jsonl import export_session, import_session
    from holdall.durable.locked import LockedStateStore
    from holdall.durable.open import open as open  # noqa: A004 - public, and not in __all__: a star must not hide open()
    from holdall.durable.open import open_sync
    from holdall.durable.optimistic import OptimisticStateStore
    from holdall.durable.policies import Periodic, PerPhase, PerStep, PerTransaction, policy_for
    from holdall.durable.profiles import UserProfileStore
    from holdall.durable.rate_limit import RateLimiter
    from holdall.durable.redlock import Redlock
    from holdall.durable.run import Step, StepRun
    from holdall.durable.session_store import SessionStore
    from holdall.durable.sweep import Sweeper
    from holdall.durable.thread import ConversationThread
    from holdall.durable.tiers import TieredStateManager
    from holdall.durable.tool_cache import ToolResultCache
    from holdall.durable.ttl import TtlPolicies
    from holdall.state import Encryption, SessionState, StateSerializer
    from holdall.stores.dynamodb_lock import DynamoLock
    from holdall.stores.redis_lock import RedisLock

# Imported on first use: `import holdall` brings neither asyncio nor dataclasses nor a driver.
_LAZY = {
    "Advice": "holdall.durable.advise",
    "CheckpointManager": "holdall.durable.checkpoint",
    "ContextWindowManager": "holdall.context.manager",
    "ConversationThread": "holdall.durable.thread",
    "DynamoLock": "holdall.stores.dynamodb_lock",
    "DynamoSessionStore": "holdall.durable.backends",
    "Encryption": "holdall.state",
    "LastWriterWinsStateStore": "holdall.durable.conflict",
    "LockedStateStore": "holdall.durable.locked",
    "MemorySessionStore": "holdall.durable.backends",
    "MergingStateStore": "holdall.durable.conflict",
    "MongoSessionStore": "holdall.durable.backends",
    "OptimisticStateStore": "holdall.durable.optimistic",
    "PerPhase": "holdall.durable.policies",
    "PerStep": "holdall.durable.policies",
    "PerTransaction": "holdall.durable.policies",
    "Periodic": "holdall.durable.policies",
    "PostgresSessionStore": "holdall.durable.backends",
    "RateLimiter": "holdall.durable.rate_limit",
    "RedisLock": "holdall.stores.redis_lock",
    "RedisSessionStore": "holdall.durable.backends",
    "Redlock": "holdall.durable.redlock",
    "S3SessionStore": "holdall.durable.backends",
    "SessionState": "holdall.state",
    "SessionStore": "holdall.durable.session_store",
    "SqliteSessionStore": "holdall.durable.backends",
    "StateSerializer": "holdall.state",
    "Step": "holdall.durable.run",
    "StepRun": "holdall.durable.run",
    "Sweeper": "holdall.durable.sweep",
    "TieredStateManager": "holdall.durable.tiers",
    "ToolResultCache": "holdall.durable.tool_cache",
    "TtlPolicies": "holdall.durable.ttl",
    "UserProfileStore": "holdall.durable.profiles",
    "Window": "holdall.context.manager",
    "Workload": "holdall.durable.advise",
    "advise": "holdall.durable.advise",
    "delete_user": "holdall.durable.erase",
    "export_session": "holdall.durable.jsonl",
    "import_session": "holdall.durable.jsonl",
    "open": "holdall.durable.open",
    "open_sync": "holdall.durable.open",
    "policy_for": "holdall.durable.policies",
    "state_store": "holdall.durable.conflict",
}

__all__ = [
    "PRIORITY_WEIGHTS",
    "Advice",
    "ArgumentError",
    "Calibration",
    "CheckpointManager",
    "ClosedError",
    "ConflictError",
    "ContextItem",
    "ContextWindowManager",
    "ContextWindowPacker",
    "ConversationThread",
    "DecodeError",
    "DecryptError",
    "Dropped",
    "DynamoLock",
    "DynamoSessionStore",
    "EncodeError",
    "Encryption",
    "HoldallError",
    "Kept",
    "LastWriterWinsStateStore",
    "LockHeldError",
    "LockLostError",
    "LockedStateStore",
    "MemorySessionStore",
    "MergeConflictError",
    "MergingStateStore",
    "MessageError",
    "MissingParentError",
    "MongoSessionStore",
    "NewerStateError",
    "NotFoundError",
    "OptimisticStateStore",
    "OtherLoopError",
    "OutcomeUnknownError",
    "PackResult",
    "PerPhase",
    "PerStep",
    "PerTransaction",
    "Periodic",
    "PostgresSessionStore",
    "RateLimitedError",
    "RateLimiter",
    "Recency",
    "RedisLock",
    "RedisSessionStore",
    "Redlock",
    "Rendition",
    "RequiredOverflowError",
    "RunningLoopError",
    "S3SessionStore",
    "SessionGoneError",
    "SessionState",
    "SessionStore",
    "SqliteSessionStore",
    "StaleFenceError",
    "StateSerializer",
    "Step",
    "StepRun",
    "StoreBusyError",
    "StoreUnavailableError",
    "StrategyError",
    "SummarizerError",
    "Sweeper",
    "ThreadCycleError",
    "ThreadDepthError",
    "ThreadError",
    "TieredStateManager",
    "Tokenizer",
    "ToolResultCache",
    "ToolSchemaError",
    "ToolSet",
    "ToolsResult",
    "TornRecordError",
    "TtlPolicies",
    "UnknownNameError",
    "UnreplicatedError",
    "UserDeletedError",
    "UserProfileStore",
    "Window",
    "Workload",
    "__version__",
    "advise",
    "count_messages",
    "delete_user",
    "errors",
    "export_session",
    "extractive_summary",
    "fit_tools",
    "import_session",
    "open_sync",
    "policy_for",
    "state_store",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'holdall' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *__all__})
