"""Profiles, seeds and the recorded conversations that the tests read where they lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# `ci` samples, `full` is what reported figures come from: HOLDALL_PROFILE=full pytest
PROFILE = os.environ.get("HOLDALL_PROFILE", "ci")
settings.register_profile(
    "ci", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "full", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(PROFILE)

SHARED = Path(os.environ.get("HOLDALL_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether the whole load is asked for."""
    return PROFILE == "full"


@pytest.fixture(scope="session")
def recorded() -> Path:
    """The folder of recorded conversations, or a skip that says where it was looked for."""
    data = SHARED / "data"
    if not data.is_dir():
        pytest.skip(f"no recorded conversations at {data}; set HOLDALL_SHARED to the folder that holds data/")
    return data
