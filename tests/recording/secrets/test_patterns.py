"""The shapes of well-known secrets, and ordinary text that resembles them."""

from __future__ import annotations

from base64 import b64encode

import pytest
from support.recording.secret_shapes import SHAPED

from streamnorm.recording.secrets import Secrets

BEFORE = [
    "",
    " ",
    '"',
    "'",
    "=",
    ":",
    "(",
    "/k/",
    "\\n",
    "\\t",
    '\\"',
    "%20",
    "%3D",
    "\\u003d",
    "é",
]
AFTER = ["", " ", '"', "\\n", "'", "&", ")", "/20260101/x", ", ", ".\n", "…"]


def scrub(text: str) -> bytes:
    return Secrets().scrub(text.encode())


@pytest.mark.parametrize("shaped", SHAPED.values(), ids=SHAPED)
def test_text_shaped_like_a_secret_is_replaced(shaped: str) -> None:
    for before in BEFORE:
        if before == "/k/" and shaped[:4] in ("AIza", "AKIA", "eyJh"):
            continue  # a slash is a letter of base64
        for after in AFTER:
            expected = before.encode() + b"x" * len(shaped) + after.encode()
            assert scrub(before + shaped + after) == expected, (before, after)


# Prefix, and how many letters and digits follow it.
SIZES = {
    "sk-": (16, 400),
    "gsk_": (20, 200),
    "xai-": (20, 200),
    "csk-": (20, 200),
    "hf_": (20, 100),
    "ghp_": (20, 100),
    "gho_": (20, 300),
    "ghr_": (20, 300),
    "ghs_": (20, 300),
    "ghu_": (20, 300),
    "ek_": (16, 400),
    "ASIA": (16, 16),
    "fw_": (20, 100),
    "r8_": (20, 100),
    "pplx-": (20, 200),
    "org-": (16, 64),
    "proj_": (16, 64),
    "github_pat_": (20, 200),
    "glpat-": (16, 300),
    "nvapi-": (20, 200),
    "AQ.": (20, 400),
    "AIza": (30, 60),
    "AKIA": (16, 16),
    "xoxb-": (16, 300),
}


@pytest.mark.parametrize("prefix", SIZES)
def test_secret_shape_has_a_least_and_a_greatest_size(prefix: str) -> None:
    least, most = SIZES[prefix]
    for size in (least - 1, least, most, most + 1):
        text = prefix + "2A34567B" * 60
        text = text[: len(prefix) + size]
        hidden = "x" * len(text) if least <= size <= most else text
        assert scrub(f"<{text}>").decode() == f"<{hidden}>", size


@pytest.mark.parametrize(
    ("before", "least", "most", "after"),
    [
        ("ya29.", 20, 4000, ""),
        ("eyJ", 8, 1500, ".eyJ23456789.23456789"),
        ("eyJ23456789.eyJ", 8, 4500, ".23456789"),
        ("eyJ23456789.eyJ23456789.", 8, 1500, ""),
    ],
)
def test_long_token_has_a_least_size_and_is_replaced_in_full(
    before: str, least: int, most: int, after: str
) -> None:
    def token(size: int) -> str:
        return before + ("2A34567B" * 600)[:size] + after

    assert scrub(token(least - 1)).decode() == token(least - 1)
    for size in (least, most):
        assert scrub(token(size)).decode() == "x" * len(token(size))
    assert scrub(token(most + 1)).decode() != "x" * len(token(most + 1))


@pytest.mark.parametrize(("size", "is_token"), [(15, False), (16, True), (4000, True)])
def test_token_of_a_bearer_has_at_least_sixteen_characters(size: int, is_token: bool) -> None:
    token = ("7." * 2000)[:size]
    hidden = "x" * size if is_token else token
    assert scrub(f"Bearer {token}").decode() == f"Bearer {hidden}"


def test_token_with_its_first_digit_far_behind_is_no_token() -> None:
    for letters, is_token in ((64, True), (65, False)):
        text = "gsk_" + "a" * letters + "7" * 20
        assert scrub(text).decode() == ("x" * len(text) if is_token else text)
    for letters, is_token in ((80, True), (81, False)):
        text = "sk-" + "-" * letters + "a7345678"
        assert scrub(text).decode() == ("x" * len(text) if is_token else text)


@pytest.mark.parametrize("shaped", SHAPED.values(), ids=SHAPED)
def test_secret_shape_within_a_longer_word_is_not_replaced(shaped: str) -> None:
    for before in ("a", "7", "_"):
        assert scrub(before + shaped) == (before + shaped).encode()


_PEM_LINES = [b64encode(bytes(range(at, at + 48))).decode() for at in range(0, 192, 48)]
_PEM_LINES.append("AbC=")
_CERTIFICATE = f"-----BEGIN CERTIFICATE-----\n{_PEM_LINES[0]}\n-----END CERTIFICATE-----"


@pytest.mark.parametrize("label", ["PRIVATE KEY", "RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", " "])
@pytest.mark.parametrize("header", ["", "Proc-Type: 4,ENCRYPTED|DEK-Info: AES-128-CBC,1A2B3C||"])
def test_private_key_is_replaced_between_its_markers(label: str, newline: str, header: str) -> None:
    begin, end = f"-----BEGIN {label}-----", f"-----END {label}-----"
    head = f"<{begin}{newline}{header.replace('|', newline)}"
    scrubbed = scrub(f"{head}{newline.join(_PEM_LINES)}{newline}{end}>").decode()
    assert len(scrubbed) == len(f"{head}{newline.join(_PEM_LINES)}{newline}{end}>")
    assert scrubbed.startswith(head)
    assert scrubbed.endswith(f"{end}>")
    between = scrubbed.removeprefix(head).removesuffix(f"{end}>")
    # Line ends of the body frame its events, and stay.
    assert set(between) <= set("x\r\n ")
    assert between.count("\n") == newline.count("\n") * len(_PEM_LINES)


def test_private_key_is_replaced_up_to_8000_bytes_from_its_marker() -> None:
    begin = "-----BEGIN PRIVATE KEY-----\\n"
    text = begin + "Ab3+" * 2500
    hidden = "x" * (8000 - len(begin))
    assert scrub(text).decode() == begin + hidden + text[8000:]


def test_private_key_without_its_end_is_replaced() -> None:
    text = f'{{"key": "-----BEGIN EC PRIVATE KEY-----\\n{_PEM_LINES[0]}"}}'
    assert scrub(text).decode() == text.replace(_PEM_LINES[0], "x" * len(_PEM_LINES[0]))


def test_certificates_are_public() -> None:
    assert scrub(_CERTIFICATE).decode() == _CERTIFICATE


@pytest.mark.parametrize("word", ["Bearer", "bearer"])
def test_token_of_a_bearer_is_replaced(word: str) -> None:
    token = "Ab/c+d.e~f_g-h1234567=="  # noqa: S105 - nobody's
    assert scrub(f'"{word}  {token}" x') == f'"{word}  {"x" * len(token)}" x'.encode()


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn-compatible-estimators and sk-learn-compatible-estimators-v2024",
        "sk-ant-api03-your-key-goes-here",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-dodo-YOUR_KEY",
        "risk-0123456789abcdef0123456789abcdef task-0123456789abcdef0123456789",
        "org-chart org-wide-policy-2024-for-all-teams org-mode",
        "proj_name proj_alpha_2_of_the_year_2024_and_more",
        "hf_hub_download hf_transfer xai-grok-4-fast-reasoning-2025 pplx-70b-online",
        "Bearer authentication, Bearer tokens, Bearer YOUR_API_KEY_GOES_HERE",
        "the bearer of 12345678901234567890",
        "AIza and AKIA, AKIAS, eyJ, eyJhbGciOiJIUzI1NiJ9 alone, eyJh.eyJh.x",
        "ghp_ github_pat_ ya29. gsk_",
        "nvapi-your-key-goes-here nvapi-v1 csk-abc task-csk-learn fw_version fw_1_2_3_4_5_6_7_8_9",
        "r8_ r8_k r8_build_number_20241231 AQ. AQ.fragment FAQ.2024_what_is_new_in_2025",
        "glpat- glpat-your-token-goes-here xoxb- xoxb-your-bot-token-1 xoxo-0123456789012345678901",
        "It begins with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
        "-----BEGIN PRIVATE KEY-----\\n...\\n-----END PRIVATE KEY-----",
        "chatcmpl-AbCdEf0123456789AbCdEf0123456789 cmpl-0123456789abcdef0123456789abcdef",
        "call_AbCdEf0123456789AbCdEf01 toolu_01AbCdEf0123456789AbCdEf msg_01AbCdEf0123456789AbCdEf",
        "resp_0123456789abcdef0123456789abcdef req_011CAbCdEf0123456789AbCd",
        "rs_0123456789abcdef fc_0123456789abcdef gen-1760000000-AbCdEf0123456789AbCd",
        "fp_0123456789 run-0123456789abcdef0123456789 123e4567-e89b-12d3-a456-426614174000",
        'data: {"usage":{"prompt_tokens":150000},"token":"Hello","key":"value123456"}',
    ],
)
def test_ordinary_text_and_ids_are_unchanged(text: str) -> None:
    assert scrub(text) == text.encode()
