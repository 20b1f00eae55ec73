"""Tests read as claims; `tests.checker` and the like are imported by name."""
