"""What a session is: pure values, no driver, no await."""

from __future__ import annotations

from holdall.state.codec import Format, Snapshot, StateSerializer
from holdall.state.log import MESSAGE, STEP_RESULT, Pending
from holdall.state.messages import MessageLog, StepResults
from holdall.state.seal import Encryption
from holdall.state.session import SessionState, check_id
from holdall.state.upgrade import upgrade

__all__ = [
    "MESSAGE",
    "STEP_RESULT",
    "Encryption",
    "Format",
    "MessageLog",
    "Pending",
    "SessionState",
    "Snapshot",
    "StateSerializer",
    "StepResults",
    "check_id",
    "upgrade",
]
