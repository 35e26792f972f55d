"""The one contract of all that eats bytes, and what a dialect brings."""

from __future__ import annotations

import pytest

from streamnorm import Transcoder, decoder
from streamnorm._core.codec import Checker, Decoder, Dialect, Encoder, Feed
from streamnorm._registry import DIALECTS
from streamnorm.sse import SSEDecoder

FEEDS: dict[str, Feed[object]] = {
    "framing": SSEDecoder(),
    "a decoder": decoder("openai_chat"),
    "another": decoder("anthropic"),
    "one that finds out": decoder(),
    "a transcoder": Transcoder("anthropic", "openai_chat"),
    "one that changes nothing": Transcoder("anthropic", "anthropic"),
}


@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
def test_all_that_eats_bytes_shares_one_contract(feed: Feed[object]) -> None:
    assert feed.feed(b"") == []
    assert isinstance(feed.close(), list)
    assert isinstance(feed.abort(OSError()), list)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_dialect_makes_what_bears_its_name(dialect: Dialect) -> None:
    assert dialect.decoder is not None
    assert dialect.encoder is not None
    reader, writer = dialect.decoder(), dialect.encoder()
    assert isinstance(reader, Decoder)
    assert isinstance(writer, Encoder)
    assert dialect.checker is not None
    assert isinstance(dialect.checker(), Checker)
    assert reader.dialect == writer.dialect == dialect.name
