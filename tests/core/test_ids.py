"""Ids and signatures through a narrower dialect and back."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamnorm._core.ids import (
    Carried,
    carried_signature,
    carry_signature,
    escape_id,
    mint_id,
    seal_reasoning,
    sealed_reasoning,
    tag_signature,
    unescape_id,
    untag_signature,
    unwrap_base64,
)

# Lone surrogates are gone before an id is made.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


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


@given(signature=TEXT, issuer=st.none() | TEXT.filter(bool))
@example(signature="a.b", issuer="vertex.ai")
@example(signature="", issuer="100%2e")
def test_tagged_signature_is_restored_with_its_issuer(signature: str, issuer: str | None) -> None:
    assert untag_signature(tag_signature(signature, issuer)) == (signature, issuer)


def test_twice_tagged_signature_is_untagged_one_layer_at_a_time() -> None:
    once = tag_signature("s", "google")
    assert untag_signature(tag_signature(once, None)) == (once, None)


@pytest.mark.parametrize("signature", ["", "EpQBCkYIDRgC", "sn", "Sn1.google.x"])
def test_foreign_signature_is_not_read_as_tagged(signature: str) -> None:
    assert untag_signature(signature) is None


@given(signature=TEXT, issuer=st.none() | TEXT.filter(bool), id=TEXT)
@example(signature="a.b", issuer="vertex.ai", id="functions.f:0")
def test_carried_signature_is_restored_with_its_target(
    signature: str, issuer: str | None, id: str
) -> None:
    carried = Carried(signature, issuer, id)
    assert carried_signature(carry_signature(carried)) == carried
    assert untag_signature(carry_signature(carried)) is None


@given(data=TEXT, issuer=st.none() | TEXT.filter(bool))
def test_sealed_reasoning_is_restored_with_its_issuer(data: str, issuer: str | None) -> None:
    sealed = seal_reasoning(data, issuer)
    assert sealed_reasoning(sealed) == (data, issuer)
    assert untag_signature(sealed) is None
    assert carried_signature(sealed) is None


def test_foreign_value_is_neither_carried_nor_sealed() -> None:
    for value in ("", "EpQBCkYIDRgC", tag_signature("s", "google")):
        assert carried_signature(value) is None
        assert sealed_reasoning(value) is None
    assert carried_signature("sn1-of.") == Carried("", None, "")


@given(TEXT, TEXT)
def test_tagged_and_sealed_values_are_unwrapped_from_base64(text: str, issuer: str) -> None:
    for value in (tag_signature(text, issuer), seal_reasoning(text, issuer)):
        assert unwrap_base64(base64.b64encode(value.encode()).decode()) == value


@pytest.mark.parametrize("value", ["", "QQ==", "c24x!", "c24x/w==", "sn1.google.a"])
def test_foreign_base64_is_not_unwrapped(value: str) -> None:
    assert unwrap_base64(value) == ""
