"""Thought signatures that clients can decode, and redacted reasoning within them."""

from __future__ import annotations

import base64

import pytest

from streamnorm import RedactedReasoning
from streamnorm._core.text import Signed
from streamnorm.dialects.gemini.content import (
    redacted_from_wire,
    redacted_to_wire,
    signature_from_wire,
    signature_to_wire,
)


def tagged(signature: str, issuer: str) -> str:
    return base64.b64encode(f"sn1.{issuer}.{signature}".encode()).decode()


UNDECODABLE = ["YQ", "YQ=", "a b=", "+_8=", "é", "gAAAA", "c2ln====", "YR==", "YWJ=", "-_9="]


@pytest.mark.parametrize("signature", ["c2ln", "YQ==", "+/8=", "-_8=", "QUJDRA=="])
def test_signature_of_google_is_unchanged(signature: str) -> None:
    assert signature_to_wire(Signed(signature, "google"), extras=True) == signature
    assert signature_to_wire(Signed(signature, "google"), extras=False) == signature


@pytest.mark.parametrize("signature", UNDECODABLE)
def test_signature_that_is_no_base64_goes_back_to_google_as_it_came(signature: str) -> None:
    assert signature_to_wire(Signed(signature, "google"), extras=True) == signature


@pytest.mark.parametrize("signature", UNDECODABLE)
def test_signature_from_another_server_that_clients_cannot_decode_is_tagged(
    signature: str,
) -> None:
    assert signature_to_wire(Signed(signature, "google"), extras=False) == tagged(
        signature, "google"
    )


def test_empty_signature_is_tagged() -> None:
    assert signature_to_wire(Signed("", "google"), extras=True) == tagged("", "google")


@pytest.mark.parametrize("issuer", ["anthropic", "openai"])
def test_foreign_signature_names_its_issuer(issuer: str) -> None:
    assert signature_to_wire(Signed("c2ln", issuer), extras=True) == tagged("c2ln", issuer)


def test_foreign_signature_names_the_id_that_it_is_bound_to() -> None:
    wire = signature_to_wire(Signed("gAAA", "openai", "rs_1"), extras=True)
    assert wire == b64("sn1-id.openai.rs_1.gAAA")
    assert signature_from_wire(wire) == Signed("gAAA", "openai", "rs_1")
    sealed = redacted_to_wire(RedactedReasoning("gAAA", "openai", "rs_1"))
    assert sealed == b64("sn1-redacted-id.openai.rs_1.gAAA")
    assert redacted_from_wire(sealed) == RedactedReasoning("gAAA", "openai", "rs_1")


def test_signature_without_issuer_names_none() -> None:
    assert signature_to_wire(Signed("c2ln", None), extras=True) == tagged("c2ln", "")


def test_signature_that_looks_tagged_is_tagged_again() -> None:
    ours = tagged("c2ln", "anthropic")
    assert signature_to_wire(Signed(ours, "google"), extras=True) == tagged(ours, "google")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("data", "issuer", "value"),
    [
        ("c2ln", "anthropic", b64("sn1-redacted.anthropic.c2ln")),
        ("c2ln", None, b64("sn1-redacted..c2ln")),
    ],
)
def test_redacted_reasoning_names_its_issuer(data: str, issuer: str | None, value: str) -> None:
    assert redacted_to_wire(RedactedReasoning(data, issuer)) == value
