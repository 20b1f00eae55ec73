# ruff: noqa: INP001, T201, PLR2004 -- a script beside the data it makes
"""Pack a .tiktoken vocabulary into the compact form that the library embeds.

    python rust/tokens/data/pack.py o200k_base.tiktoken.gz rust/tokens/data/o200k_base.bpe

The vocabularies are OpenAI's, published with tiktoken under the MIT licence; the script accepts a plain or gzipped
file and refuses one whose SHA-256 is not the one that tiktoken itself checks. README.md beside this file describes
the format and says where to get the input.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import sys
import zlib
from pathlib import Path

SHA256 = {
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
}
BYTES = 256


def halves(token: bytes, ranks: dict[bytes, int]) -> tuple[int, int]:
    """Return the ranks of the two parts whose merge gives `token` when it is encoded alone."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        merges = ((ranks.get(parts[i] + parts[i + 1]), i) for i in range(len(parts) - 1))
        _, i = min((rank, i) for rank, i in merges if rank is not None)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return ranks[parts[0]], ranks[parts[1]]


def pack(vocabulary: bytes) -> bytes:
    """Return the payload: count, the 256 single bytes in rank order, then the halves of every later token by plane."""
    ranks = {}
    for line in vocabulary.splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    tokens = sorted(ranks, key=ranks.__getitem__)
    if [ranks[token] for token in tokens] != list(range(len(tokens))):
        raise SystemExit("ranks are not 0, 1, 2, ...")
    if any(len(token) != 1 for token in tokens[:BYTES]):
        raise SystemExit("the first 256 ranks are not the single bytes")
    pairs = [halves(token, ranks) for token in tokens[BYTES:]]
    if any(max(pair) >= BYTES + n for n, pair in enumerate(pairs)):
        raise SystemExit("a token is made of later tokens")
    planes = [bytes((pair[side] >> shift) & 0xFF for pair in pairs) for side in (0, 1) for shift in (0, 8, 16)]
    return len(tokens).to_bytes(4, "little") + b"".join(tokens[:BYTES]) + b"".join(planes)


def main() -> None:
    """Read argv[1], write argv[2]."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    raw = source.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    name = SHA256.get(hashlib.sha256(raw).hexdigest())
    if name is None:
        raise SystemExit(f"{source}: not one of {', '.join(sorted(SHA256.values()))} (wrong SHA-256)")
    payload = pack(raw)
    target.write_bytes(payload)
    print(f"{name}: {len(payload)} bytes, {len(zlib.compress(payload))} deflated")


if __name__ == "__main__":
    main()
