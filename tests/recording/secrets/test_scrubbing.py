"""The streaming redactor: bodies in chunks, fields, and what must stay."""

from __future__ import annotations

import json
import random
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recording.secret_shapes import SHAPED

from streamnorm.recording import secrets as redaction
from streamnorm.recording.secrets import Secrets
from streamnorm.recording.secrets.patterns import Span


def scrub(text: str | bytes, **known: list[str]) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return Secrets(**known).scrub(data)


def test_signatures_stay_byte_for_byte() -> None:
    dice = random.Random(7)  # noqa: S311 - no secret
    for _ in range(200):
        raw = dice.randbytes(300)
        for signature in (b64encode(raw), urlsafe_b64encode(raw), b"gAAAAAB" + b64encode(raw)):
            event = b'data: {"signature":"' + signature + b'"}\n\n'
            assert Secrets(["sk-ant-of-nobody"]).scrub(event) == event


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ('{"api_key": "ab", "n": 1}', "ab"),
        ('{"x-apiKey":"a\\"b\\\\","n":1}', 'a\\"b\\\\'),
        ('{"signing_secret":"whsec/9+A="}', "whsec/9+A="),
        ('{"tunnel_token":"a-b","type":"tunnel_token"}', "a-b"),
        ('{"access_token" :\n"a b", "n": 1}', "a b"),
        ('{"api_key":{"value":"abc"},"n":1}', "abc"),
        ('{"api_key" : { "key_value" : "a\\"b" }, "n": 1}', 'a\\"b'),
        ('{"args":"{\\"api_key\\": {\\"value\\":\\"ab\\"}}"}', "ab"),
        ('{"args":"{\\"password\\": \\"it\\\\\\"s\\", \\"n\\": 1}"}', 'it\\\\\\"s'),
    ],
)
def test_fields_with_secret_names_are_replaced(text: str, hidden: str) -> None:
    assert scrub(text) == text.replace(hidden, "x" * len(hidden)).encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "password", "name": "n"}',
        '{"password": {"type": "string"}, "required": ["password", "name"]}',
        '{"password": {"type": "string", "description": "of the user"}}',
        '{"api_key": {"name": "prod"}, "password": {"title": "Password", "n": "m"}}',
        '{"a":"{\\"password\\": {\\"type\\": \\"string\\"}}"}',
        '{"password": null, "api_key": "", "next": "name"}',
        'password", "api_key": 3, "n": "m"',
        '{"prompt_tokens": "many", "password_hint": "none"}',
    ],
)
def test_fields_whose_names_only_resemble_secrets_are_unchanged(text: str) -> None:
    assert scrub(text) == text.encode()


def test_field_names_are_matched_in_the_first_mebibyte() -> None:
    field = b'{"password": "abc"}'
    body = b"-" * (1024 * 1024 - len(field)) + field
    assert scrub(body) == body.replace(b"abc", b"xxx")


def test_field_names_are_matched_only_near_the_start() -> None:
    field = b'{"password": "abc"}'
    body = field.ljust(1024 * 1024 + 64 * 1024) + field
    assert scrub(body) == body.replace(b"abc", b"xxx", 1)


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("notebook", r'"a\notebook"'),
        ("beef77", r'"\ubeef77"'),
        ("eef777", r'"\ubeef777"'),
        ("u00e9secret", r'"\u00e9secret"'),
        ("/secret/", r'"\/secret\/"'),
        ('"secret"', r'"say \"secret\" twice"'),
        ("secret\\", r'"say secret\\"'),
        ("back\\slash", r'"say back\\slash"'),
    ],
)
def test_scrubbed_json_stays_valid(known: str, text: str) -> None:
    scrubbed = scrub(text, redact=[known])
    assert len(scrubbed) == len(text)
    assert known.strip("\\") not in json.loads(scrubbed)


def test_escaped_backslash_before_a_secret_is_unchanged() -> None:
    assert scrub(r'"C:\\notebook"', redact=["notebook"]) == rb'"C:\\xxxxxxxx"'


@pytest.mark.parametrize("backslashes", [1, 2, 17, 18])
def test_window_never_ends_within_an_escape(backslashes: int) -> None:
    odd = backslashes % 2
    for behind in range(backslashes + 2):
        before = '"'.ljust(48 * 1024 - behind, "-") + "\\" * (backslashes - odd)
        scrubbed = scrub(before + "\\" * odd + 'notebook"', redact=["notebook"])
        assert scrubbed.decode() == before + "x" * (odd + 8) + '"'


def test_overlapping_and_adjacent_matches_count_once() -> None:
    key = SHAPED["openai"]
    secrets = Secrets([key, key[5:20]])
    assert secrets.scrub(f"{key}{key} Bearer {key}".encode()).count(b"x") == 3 * len(key)
    assert secrets.count == 2


def test_pattern_context_is_matched_across_chunks() -> None:
    pattern = re.compile(r"(?<=user=)[a-zé]+")
    for length in range(48 * 1024 - 12, 48 * 1024 + 2):
        body = b"-" * length + "user=zoé;".encode()
        assert scrub(body, redact=[pattern]) == b"-" * length + b"user=xxxx;"  # type: ignore[list-item]


@pytest.mark.parametrize(
    "form", [SHAPED["anthropic"], r"no\u0062ody", "bm9ib2R5LW5vYm9keTEy", "nobody"]
)
def test_secret_is_found_wherever_the_window_ends(form: str) -> None:
    for length in range(48 * 1024 - len(form) - 10, 48 * 1024 + 12, 3):
        body = b"-" * (length - 1) + b" " + form.encode()
        secrets = Secrets(["nobody", "nobody-nobody12"])
        stream = secrets.open_scrubber()
        out = stream.feed(body + b" " * 10_000) + stream.close()
        assert out == b"-" * (length - 1) + b" " + b"x" * len(form) + b" " * 10_000
        assert secrets.count == 1


@pytest.mark.parametrize(
    "unit",
    [
        b"x",
        b"\\",
        b'"',
        b"7",
        b"sk-",
        b" sk-a1",
        b"eyJaaaaaaaa.",
        b"%25",
        b"\\u0073",
        b'api_key":"',
    ],
)
def test_held_bytes_are_bounded(unit: bytes) -> None:
    secrets = Secrets(["nobody7"])
    stream = secrets.open_scrubber()
    held = 0
    for _ in range(10):
        piece = unit * (30_000 // len(unit))
        held += len(piece) - len(stream.feed(piece))
        assert held <= 56 * 1024
    assert len(stream.close()) == held
    assert stream.close() == b""


def test_a_stride_is_returned_when_eight_kibibytes_follow_it() -> None:
    stream = Secrets().open_scrubber()
    assert stream.feed(b"-" * (56 * 1024 - 1)) == b""
    assert stream.feed(b"-") == b"-" * (48 * 1024)
    assert stream.feed(b"-" * (48 * 1024 - 1)) == b""
    assert stream.close() == b"-" * (56 * 1024 - 1)


def test_single_bytes_cost_no_more_searches_than_one_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0

    class Counting(Secrets):
        def find(
            self,
            data: bytes,
            low: int,
            high: int,
            patterns: Sequence[re.Pattern[str]],
            *,
            fields: bool,
        ) -> list[Span]:
            nonlocal searched
            searched += len(data)
            return super().find(data, low, high, patterns, fields=fields)

    monkeypatch.setattr(redaction, "_STRIDE", 1024)
    stream = Counting().open_scrubber()
    for _ in range(20_000):
        stream.feed(b"a")
    stream.close()
    # Each byte is searched once, and seen as what follows eight times, as 8 KiB follow.
    assert searched < 20_000 * 10


_KNOWN = ["k3y+of/nobody", "söme öther"]
_PARTS = st.sampled_from(
    [
        *SHAPED.values(),
        *_KNOWN,
        *("k3y%2Bof%2fnobody", r"k3y+of\/nobody", r"\u006b3y+of/nobody", r"\\u006b3y+of\\/nobody"),
        *("azN5K29mL25vYm9keQ==", "OmszeStvZi9ub2JvZHk6", "k3y+of/nob", r"s\u00f6me+%C3%B6ther"),
        *(
            "sk-",
            "Bearer ",
            "eyJ",
            "\\",
            "\\\\",
            "\\n",
            "\\u00",
            "%",
            "%25",
            '"',
            "\n\n",
            " ",
            "a1",
            "ä",
            "data: ",
        ),
        *('"password": "', '\\"api_key\\": \\"', "jo@corp", "@corp"),
    ]
)
_BODIES = st.lists(_PARTS, max_size=12).map("".join).map(str.encode) | st.binary(max_size=60)


# No two matches overlap: which of them counts would depend on where the search began.
_NAMED = re.compile("(?<![a-z@])[a-z]{1,9}@corp")


@given(_BODIES, st.lists(st.integers(0, 400), max_size=8), st.integers(20, 300))
def test_chunking_does_not_change_the_output(body: bytes, cuts: list[int], stride: int) -> None:
    """The same bytes come out, as many as went in, however they came and are searched."""
    whole = Secrets([*_KNOWN, _NAMED])
    expected = whole.scrub(body)
    assert len(expected) == len(body)
    for byte, was in zip(expected, body, strict=True):
        assert byte in (was, ord("x"))
    pieces = [
        body[start:end]
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(body)], strict=True)
    ]
    for size in (redaction._STRIDE, stride):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(redaction, "_STRIDE", size)
            secrets = Secrets([*_KNOWN, _NAMED])
            stream = secrets.open_scrubber()
            out = b"".join([stream.feed(piece) for piece in pieces]) + stream.close()
        assert out == expected
        assert secrets.count == whole.count


@given(_BODIES)
def test_scrubbed_body_holds_no_secret(body: bytes) -> None:
    once = Secrets(_KNOWN).scrub(body)
    assert _KNOWN[0].encode() not in once
    assert _KNOWN[1].encode() not in once
    assert rb"\u006b3y+of/nobody" not in once
    assert b"eStvZi9ub2JvZH" not in once
