"""The conformance suites, public: a third party runs them on its own backend."""

from __future__ import annotations

from holdall.testing.history import Broken, Call, check_history
from holdall.testing.semantic import SemanticConformance
from holdall.testing.store import StoreConformance

__all__ = ["Broken", "Call", "SemanticConformance", "StoreConformance", "check_history"]
