"""Figures against peers in one run. `python -m benches` prints them all."""
