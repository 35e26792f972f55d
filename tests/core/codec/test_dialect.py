"""The one contract of all that eats bytes, and what a dialect brings."""

from __future__ import annotations

import pytest
from msgspec import structs

from streamnorm import Transcoder
from streamnorm._core.codec import Checker, Decoder, Dialect, Encoder, Feed
from streamnorm._registry import DIALECTS
from streamnorm.codec import decoder
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
    reader = dialect.decoder()
    assert isinstance(reader, Decoder)
    assert reader.dialect == dialect.name
    if dialect.variant_of is not None:  # may be read alone
        return
    assert dialect.encoder is not None
    writer = dialect.encoder()
    assert isinstance(writer, Encoder)
    assert writer.dialect == dialect.name
    assert dialect.checker is not None
    assert isinstance(dialect.checker(), Checker)


def test_dialect_without_bodies_loads_its_streams_alone() -> None:
    bare = structs.replace(DIALECTS["anthropic"], body=None)
    bare.load()
    assert bare.codec is None
