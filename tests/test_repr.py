"""What the public objects say of themselves in a debugger: figures, no address, no secret."""

from __future__ import annotations

from typing import Any

import pytest

import holdall
from holdall.state import Encryption

KEY = b"0123456789abcdef"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        pytest.param(
            holdall.ContextWindowPacker(1_000, output_reserve=10, strategy="stable"),
            "ContextWindowPacker(max_tokens=1000, output_reserve=10, strategy='stable', budget=990)",
            id="packer",
        ),
        pytest.param(
            holdall.ContextWindowManager(1_000, output_reserve=10),
            "ContextWindowManager(max_tokens=1000, tokenizer=Tokenizer('o200k_base'), budget=990, summary_tokens=99, low_water=0.6)",
            id="manager",
        ),
        pytest.param(
            holdall.StateSerializer("json"), "<StateSerializer: json, log msgpack, compression None>", id="serializer"
        ),
    ],
)
def test_a_repr_gives_the_figures(shown: Any, said: str) -> None:
    assert repr(shown) == said


def test_a_repr_gives_no_key_away() -> None:
    pytest.importorskip("cryptography")
    encryption = Encryption({"k1": KEY}, "k1")
    for shown in (encryption, holdall.StateSerializer(encryption=encryption)):
        assert KEY.decode() not in repr(shown)
    assert repr(holdall.StateSerializer(encryption=encryption)).endswith("encrypted>")
