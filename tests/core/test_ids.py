"""Ids and signatures through a narrower dialect and back."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnorm._core.text import (
    SignatureCarrier,
    Signed,
    escape_id,
    mint_id,
    read_carrier,
    tag_redacted_reasoning,
    tag_signature,
    unescape_id,
    untag_redacted_reasoning,
    untag_signature,
    unwrap_base64,
    write_carrier,
)

# Lone surrogates are gone before an id is made.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.none() | TEXT.filter(bool)


@given(TEXT | TEXT.map(lambda text: "snid_" + text))
@example("functions.get_weather:0")
@example("snid_")
@example("_5f")
@example("")
def test_escaped_id_is_restored(id: str) -> None:
    escaped = escape_id(id)
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", escaped)
    assert unescape_id(escaped) == id


@pytest.mark.parametrize("id", ["call_T1-x", "toolu_01A", "9LtW2xYq1", "-", "a_5f"])
def test_id_of_plain_characters_is_not_escaped(id: str) -> None:
    assert escape_id(id) == unescape_id(id) == id


def test_escaped_id_is_readable() -> None:
    assert escape_id("functions.f:0") == "snid_functions_2ef_3a0"


@given(st.lists(TEXT, unique=True, min_size=2, max_size=20))
def test_different_ids_stay_different(ids: list[str]) -> None:
    assert len({escape_id(id) for id in ids}) == len(ids)


def test_unescaped_foreign_id_is_unchanged() -> None:
    assert unescape_id("snid_zz_zz_") == "snid_zz_zz_"
    assert unescape_id("snid_abc") == "snid_abc"


@given(TEXT.map(lambda text: "snid_" + text) | st.from_regex(r"snid_[a-f0-9_]*", fullmatch=True))
@example("snid__zz")
@example("snid__41")
def test_foreign_id_changes_only_if_it_looks_escaped(id: str) -> None:
    assert unescape_id(id) == id or escape_id(unescape_id(id)) == id


def test_minted_id_depends_only_on_its_parts() -> None:
    assert mint_id("chatcmpl-1", "gpt", 0, 1) == mint_id("chatcmpl-1", "gpt", 0, 1)
    assert re.fullmatch(r"call_[0-9a-f]{24}", mint_id())
    ids = [mint_id(), mint_id(1), mint_id("a", "b"), mint_id("ab"), mint_id("b", "a"), mint_id("a")]
    assert len(set(ids)) == len(ids)


@given(signature=TEXT, issuer=NAMES, id=NAMES)
@example(signature="a.b", issuer="vertex.ai", id="rs.1")
@example(signature="", issuer="100%2e", id=None)
def test_tagged_signature_is_restored_with_its_issuer_and_id(
    signature: str, issuer: str | None, id: str | None
) -> None:
    signed = Signed(signature, issuer, id)
    assert untag_signature(tag_signature(*signed)) == signed


def test_tag_names_the_id_that_a_signature_is_bound_to() -> None:
    assert tag_signature("g.A", "openai", "rs_1.2") == "sn1-id.openai.rs_1%2e2.g.A"
    assert untag_signature("sn1-id.openai.rs_1%2e2.g.A") == Signed("g.A", "openai", "rs_1.2")
    assert untag_signature("sn1-id.") == Signed("", None, None)


def test_signature_without_an_id_is_tagged_as_in_earlier_versions() -> None:
    assert tag_signature("gA", "openai") == "sn1.openai.gA"
    assert tag_redacted_reasoning("gA", "openai") == "sn1-redacted.openai.gA"


def test_twice_tagged_signature_is_untagged_one_layer_at_a_time() -> None:
    once = tag_signature("s", "google")
    assert untag_signature(tag_signature(once, None)) == Signed(once)
    bound = tag_signature("s", "openai", "rs_1")
    assert untag_signature(tag_signature(bound, "google", "rs_2")) == Signed(
        bound, "google", "rs_2"
    )


@pytest.mark.parametrize("signature", ["", "EpQBCkYIDRgC", "sn", "Sn1.google.x"])
def test_foreign_signature_is_not_read_as_tagged(signature: str) -> None:
    assert untag_signature(signature) is None


@given(signature=TEXT, issuer=st.none() | TEXT.filter(bool), id=TEXT)
@example(signature="a.b", issuer="vertex.ai", id="functions.f:0")
def test_carried_signature_is_restored_with_its_target(
    signature: str, issuer: str | None, id: str
) -> None:
    carried = SignatureCarrier(signature, issuer, id)
    assert read_carrier(write_carrier(carried)) == carried
    assert untag_signature(write_carrier(carried)) is None


@given(data=TEXT, issuer=NAMES, id=NAMES)
def test_sealed_reasoning_is_restored_with_its_issuer_and_id(
    data: str, issuer: str | None, id: str | None
) -> None:
    sealed = tag_redacted_reasoning(data, issuer, id)
    assert untag_redacted_reasoning(sealed) == Signed(data, issuer, id)
    assert untag_signature(sealed) is None
    assert read_carrier(sealed) is None


def test_foreign_value_is_neither_carried_nor_sealed() -> None:
    for value in ("", "EpQBCkYIDRgC", tag_signature("s", "google")):
        assert read_carrier(value) is None
        assert untag_redacted_reasoning(value) is None
    assert read_carrier("sn1-of.") == SignatureCarrier("", None, "")


@given(TEXT, TEXT, NAMES)
def test_tagged_and_sealed_values_are_unwrapped_from_base64(
    text: str, issuer: str, id: str | None
) -> None:
    for value in (tag_signature(text, issuer, id), tag_redacted_reasoning(text, issuer, id)):
        assert unwrap_base64(base64.b64encode(value.encode()).decode()) == value


@pytest.mark.parametrize("value", ["", "QQ==", "c24x!", "c24x/w==", "sn1.google.a"])
def test_foreign_base64_is_not_unwrapped(value: str) -> None:
    assert unwrap_base64(value) == ""
