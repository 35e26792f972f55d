"""Words of stops, and signatures as clients take them."""

from __future__ import annotations

import base64

import pytest
from streamnorm.dialects.gemini.encode_words import (
    reason_to_wire,
    redacted_to_wire,
    signature_to_wire,
)

from streamnorm import MessageStop, RedactedReasoning, StopReason


def sealed(signature: str, issuer: str) -> str:
    return base64.b64encode(f"sn1.{issuer}.{signature}".encode()).decode()


@pytest.mark.parametrize("signature", ["c2ln", "YQ==", "+/8=", "-_8=", "QUJDRA=="])
def test_signature_of_google_stays_as_it_is(signature: str) -> None:
    assert signature_to_wire(signature, "google") == signature


@pytest.mark.parametrize(
    "signature",
    ["", "YQ", "YQ=", "a b=", "+_8=", "é", "gAAAA", "c2ln====", "YR==", "YWJ=", "-_9="],
)
def test_signature_that_clients_refuse_is_sealed(signature: str) -> None:
    assert signature_to_wire(signature, "google") == sealed(signature, "google")


@pytest.mark.parametrize("issuer", ["anthropic", "openai"])
def test_signature_of_another_names_who_can_verify_it(issuer: str) -> None:
    assert signature_to_wire("c2ln", issuer) == sealed("c2ln", issuer)


def test_signature_of_nobody_names_nobody() -> None:
    assert signature_to_wire("c2ln", None) == sealed("c2ln", "")


def test_signature_that_looks_like_ours_is_sealed_again() -> None:
    ours = sealed("c2ln", "anthropic")
    assert signature_to_wire(ours, "google") == sealed(ours, "google")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("data", "issuer", "value"),
    [
        ("c2ln", "anthropic", b64("sn1-redacted.anthropic.c2ln")),
        ("c2ln", None, b64("sn1-redacted..c2ln")),
    ],
)
def test_reasoning_of_another_that_may_not_be_seen_says_so(
    data: str, issuer: str | None, value: str
) -> None:
    assert redacted_to_wire(RedactedReasoning(data, issuer)) == value


@pytest.mark.parametrize(
    ("reason", "raw", "word"),
    [
        ("refusal", "RECITATION", "RECITATION"),
        ("refusal", "content_filter", "SAFETY"),
        ("refusal", "STOP", "SAFETY"),
        ("other", "NO_IMAGE", "NO_IMAGE"),
        ("other", "SAFETY", "OTHER"),
        ("end_turn", "OTHER", "STOP"),
        ("max_tokens", None, "MAX_TOKENS"),
    ],
)
def test_of_several_words_the_one_that_was_read_goes_out(
    reason: StopReason, raw: str | None, word: str
) -> None:
    assert reason_to_wire(MessageStop(reason, raw)) == word
