"""Text that a client stores for its server, authenticated by a key of the server."""

from __future__ import annotations

import base64
import hmac
import random
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnorm.state.compaction import MAX_SEALED_BYTES, Sealer, has_seal

KEY, OTHER = b"k" * 32, b"o" * 32
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.="


@given(st.text())
def test_seal_is_opened_by_whoever_has_the_key(text: str) -> None:
    assert Sealer([KEY]).open(Sealer([KEY]).seal(text)) == text.encode("utf-8", "replace").decode()


def test_half_a_surrogate_pair_is_replaced() -> None:
    sealer = Sealer([KEY])
    assert sealer.open(sealer.seal("a\ud83d")) == "a?"


def test_form_is_that_of_the_documentation() -> None:
    id = hmac.new(KEY, b"streamnorm key id", "sha256").hexdigest()[:12]
    digest = hmac.new(KEY, f"sn1.compaction.{id}.SGk_".encode(), "sha256").digest()
    tag = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert Sealer([KEY]).seal("Hi?") == f"sn1.compaction.{id}.{tag}.SGk_"


def test_seal_does_not_vary() -> None:
    """Equal requests stay equal, for caches and recordings."""
    assert Sealer([KEY]).seal("a") == Sealer([KEY]).seal("a")


def test_another_key_does_not_open() -> None:
    assert Sealer([OTHER]).open(Sealer([KEY]).seal("a")) is None


def test_new_key_is_put_first_and_the_old_one_still_opens() -> None:
    old, new = Sealer([KEY]), Sealer([OTHER, KEY])
    assert new.open(old.seal("a")) == "a"
    assert old.open(new.seal("a")) is None
    assert Sealer([OTHER]).open(new.seal("a")) == "a"


def test_same_key_twice_is_one() -> None:
    sealer = Sealer([KEY, OTHER, KEY])
    assert Sealer([KEY]).open(sealer.seal("a")) == "a"


@pytest.mark.parametrize("keys", [None, []])
def test_random_key_is_that_of_one_sealer(keys: list[bytes] | None) -> None:
    sealer, other = Sealer(keys), Sealer(keys)
    assert sealer.open(sealer.seal("a")) == "a"
    assert other.open(sealer.seal("a")) is None


def test_id_of_one_key_with_the_tag_of_another_does_not_open() -> None:
    mine, theirs = Sealer([KEY]).seal("a").split("."), Sealer([OTHER]).seal("a").split(".")
    forged = ".".join([*mine[:3], *theirs[3:]])
    assert Sealer([KEY]).open(forged) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sn1.",
        "sn1.compaction.",
        "sn1.compaction...",
        "gAAAAABpM0Yj-",
        "sn1.compaction.a.b",
        "é",
    ],
)
def test_text_that_is_no_seal_does_not_open(text: str) -> None:
    assert Sealer([KEY]).open(text) is None


@pytest.mark.parametrize("at", ["id", "tag", "payload"])
def test_characters_beyond_ascii_do_not_open(at: str) -> None:
    parts = Sealer([KEY]).seal("a").split(".")
    number = ["id", "tag", "payload"].index(at) + 2
    for char in ("é", "\ud83d", "\uff21", "\x00"):
        changed = [*parts]
        changed[number] += char
        assert Sealer([KEY]).open(".".join(changed)) is None


def test_no_changed_seal_opens() -> None:
    """Each character changed, each prefix, each suffix, and random edits."""
    sealer = Sealer([KEY])
    dice = random.Random(7)  # noqa: S311 - no secret
    seal = sealer.seal("Task: snow. " * 3)
    forged = [seal[:end] for end in range(len(seal))] + [seal[start:] for start in range(1, 99)]
    for at, char in enumerate(seal):
        other = dice.choice(ALPHABET.replace(char, ""))
        forged += [seal[:at] + other + seal[at + 1 :], seal[:at] + other + seal[at:]]
    for _ in range(300):
        at, end = sorted((dice.randrange(len(seal)), dice.randrange(len(seal))))
        piece = "".join(dice.choices(ALPHABET, k=dice.randrange(6)))
        forged.append(seal[:at] + piece + seal[end:])
    assert [text for text in forged if text != seal and sealer.open(text) is not None] == []


def test_padding_and_trailing_bits_are_part_of_a_seal() -> None:
    """Base64 has several forms of one text; only the one that was sealed is genuine."""
    sealer = Sealer([KEY])
    seal = sealer.seal("a")  # YQ: the last four bits are unused
    assert seal.endswith(".YQ")
    assert [sealer.open(seal[:-1] + char) for char in "RSTUVWXYZabcdef"] == [None] * 15
    assert sealer.open(seal + "==") is None


def test_longest_text_is_sealed_and_a_longer_one_not() -> None:
    sealer, text = Sealer([KEY]), "a" * MAX_SEALED_BYTES
    assert sealer.open(sealer.seal(text)) == text
    with pytest.raises(ValueError, match="1048577 bytes of text, expected at most 1048576"):
        sealer.seal(text + "a")


def test_longer_seal_than_any_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    seal = Sealer([KEY]).seal("a")
    monkeypatch.setattr("streamnorm.state.compaction._MAX_SEAL_CHARS", len(seal) - 1)
    assert Sealer([KEY]).open(seal) is None


def test_seal_shows_nothing_of_its_key() -> None:
    seal = Sealer([KEY]).seal("a")
    for shown in (KEY.hex(), KEY.decode(), sha256(KEY).hexdigest()):
        assert shown not in seal
        assert shown[:12] not in seal


@pytest.mark.parametrize(("text", "expected"), [("sn1.compaction.x", True), ("sn1.x", False)])
def test_seal_of_anyone_is_recognised(text: str, *, expected: bool) -> None:
    assert has_seal(text) is expected
