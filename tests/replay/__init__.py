"""Replay: sources, strategies, figures, reports."""
