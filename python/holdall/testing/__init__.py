"""Conformance suites, for our backends and for yours."""
