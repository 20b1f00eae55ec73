# One command each. The environment is .venv in this folder; make it anew by removing it.
PY := .venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: build test full lint bench wheel wheel-2014

.venv/bin/maturin:
	python3 -m venv .venv
	.venv/bin/pip install -q 'maturin>=1.9.4,<2'

# Compiled once: for the extras pip looks at what is installed then, and finds nothing to do where they are there.
build: .venv/bin/maturin
	.venv/bin/maturin develop --release
	.venv/bin/pip install -q 'holdall[dev]'

test: build
	cargo test
	$(PY) -m pytest

full: build
	PROPTEST_CASES=20000 cargo test --release
	HOLDALL_PROFILE=full $(PY) -m pytest

# BUILT=1: as it is installed, which CI has just done.
lint: $(if $(BUILT),,build)
	cargo fmt --check
	cargo clippy --all-targets --features python -- -D warnings
	.venv/bin/ruff check . && .venv/bin/ruff format --check .
	.venv/bin/mypy && $(PY) -m mypy.stubtest holdall._native --ignore-disjoint-bases --allowlist .ci/stubtest.txt

bench: build
	.venv/bin/pip install -q 'holdall[bench]'
	$(PY) -m benches

wheel: .venv/bin/maturin
	.venv/bin/maturin build --release --out dist

# For glibc 2.17 and newer, wherever it is built.
wheel-2014: .venv/bin/maturin
	.venv/bin/pip install -q ziglang
	PATH="$(CURDIR)/.venv/bin:$$PATH" .venv/bin/maturin build --release --zig --compatibility manylinux2014 --out dist
