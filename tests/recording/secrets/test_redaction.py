"""The secrets of an exchange, and its redacted form."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from msgspec import UNSET

from streamnorm.recording.format import RecordedRequest, WireRequest
from streamnorm.recording.secrets import Secrets

URL = "https://api.example.com/v1/messages"
# Every character that an encoding changes, and both letters of base64 that url-safe base64 has not.
CANARY = 'cAn4ry>>/qX"8+zu?k7~é w=Nd?ö'
TOKEN = "cAn4ry.qX8zuk7-wNd_51"  # noqa: S105 - nobody's


def request(
    *headers: tuple[str, str], url: str = URL, body: bytes | None = b"", method: str = "POST"
) -> WireRequest:
    return WireRequest(method, url, headers, body)


def sent(field: object, kind: str = "application/json") -> WireRequest:
    body = field.encode() if isinstance(field, str) else json.dumps(field).encode()
    return request(("Content-Type", kind), body=body)


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


POSITIONS: dict[str, Callable[[str], WireRequest]] = {
    "authorization": lambda s: request(("Authorization", f"Bearer {s}")),
    "authorization without a scheme": lambda s: request(("authorization", s.replace(" ", "_"))),
    "basic user": lambda s: request(("authorization", basic(s, "pw"))),
    "basic password": lambda s: request(("authorization", basic("user", s))),
    "proxy-authorization": lambda s: request(("Proxy-Authorization", basic("user", s))),
    "x-api-key": lambda s: request(("X-Api-Key", s)),
    "api-key": lambda s: request(("api-key", s)),
    "x-goog-api-key": lambda s: request(("x-goog-api-key", s)),
    "first cookie": lambda s: request(("Cookie", f"a={s}; b=short")),
    "last cookie": lambda s: request(("cookie", f'a=short; b="{s}"')),
    "organization": lambda s: request(("OpenAI-Organization", s)),
    "project": lambda s: request(("openai-project", s)),
    "security token": lambda s: request(("x-amz-security-token", s)),
    "session": lambda s: request(("x-my-session", s)),
    "password header": lambda s: request(("x-password", s)),
    "query": lambda s: request(url=f"{URL}?alt=sse&key={quote(s, safe='')}"),
    "query with plus": lambda s: request(url=f"{URL}?key={quote_plus(s)}&stream=true"),
    "query without a name": lambda s: request(url=f"{URL}?{quote(s, safe='')}"),
    "user of the url": lambda s: request(url=f"https://{quote(s, safe='')}@api.example.com/v1"),
    "password of the url": lambda s: request(url=f"https://me:{quote(s, safe='')}@[::1]:80/v1"),
    "fragment": lambda s: request(url=f"{URL}#access_token={quote(s, safe='')}"),
    "field": lambda s: sent({"api_key": s}),
    "field below": lambda s: sent({"tools": [{"type": "mcp", "authorization": f"Bearer {s}"}]}),
    "field of many": lambda s: sent({"options": {"clientSecret": ["short", s]}}),
    "headers in the body": lambda s: sent({"tools": [{"headers": {"X-Team-Key": s}}]}),
    "form": lambda s: sent(
        f"client_secret={quote_plus(s)}&n=1", "application/x-www-form-urlencoded"
    ),
}


def escaped(text: str, digits: str = "04x") -> str:
    return "".join(f"\\u{ord(character):{digits}}" for character in text)


FORMS: dict[str, Callable[[str], str]] = {
    "raw": lambda s: s,
    "quoted": lambda s: quote(s, safe=""),
    "quoted with slash": lambda s: quote(s),
    "quoted in lower case": lambda s: re.sub("%..", lambda m: m[0].lower(), quote(s, safe="")),
    "quoted twice": lambda s: quote(quote(s, safe="")),
    "quoted throughout": lambda s: "".join(f"%{octet:02X}" for octet in s.encode()),
    "as in a form": quote_plus,
    "json": lambda s: json.dumps(s)[1:-1],
    "json as utf-8": lambda s: json.dumps(s, ensure_ascii=False)[1:-1],
    "json of php": lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
    "json of go": lambda s: json.dumps(s)[1:-1].replace(">", "\\u003e"),
    "json escaped throughout": escaped,
    "json escaped in upper case": lambda s: escaped(s, "04X"),
    "json in json": lambda s: json.dumps(json.dumps(s).replace("/", "\\/"))[3:-3],
    "base64": lambda s: b64encode(s.encode()).decode(),
    "base64 behind one": lambda s: b64encode(b"u" + s.encode() + b"v").decode(),
    "base64 behind two": lambda s: b64encode(b"u:" + s.encode() + b"vw").decode(),
    "base64 for urls": lambda s: urlsafe_b64encode(s.encode()).decode(),
    "base64 for urls behind one": lambda s: urlsafe_b64encode(b"u" + s.encode()).decode(),
    "base64 in a form": lambda s: quote_plus(b64encode(b">>?" + s.encode())),
    "base64 in json of php": lambda s: b64encode(s.encode()).decode().replace("/", "\\/"),
    "basic": lambda s: b64encode(f"someone:{s}".encode()).decode(),
}


def leaks(text: str, secret: str) -> list[str]:
    """Return the forms in which a secret can still be read."""
    found = [name for name, form in FORMS.items() if form(secret) in text]
    for word in re.findall("[A-Za-z0-9+/_-]{8,}", re.sub(r"\\/|%2[Ff]", "/", text)):
        word = word.translate(str.maketrans("-_", "+/"))
        data = b64decode(word[: len(word) // 4 * 4])
        found += ["inside of base64"] * (secret.encode()[1:-2] in data)
    return found


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("secret", [CANARY, TOKEN], ids=["odd", "plain"])
def test_secret_in_any_position_is_found_in_every_form(position: str, secret: str) -> None:
    if position == "authorization without a scheme":
        secret = secret.replace(" ", "_")
    if "cookie" in position:
        secret = secret.replace('"', "'")
    secrets = Secrets()
    recorded = secrets.scrub_request(POSITIONS[position](secret))
    assert not leaks(msgspec.json.encode(recorded).decode(), secret)
    for name, form in FORMS.items():
        echo = f"you sent ({form(secret)}) to us"
        scrubbed = secrets.scrub(echo.encode())
        assert len(scrubbed) == len(echo.encode()), name
        assert not leaks(scrubbed.decode(), secret), name
        assert scrubbed.startswith(b"you sent (")
        assert scrubbed.endswith(b") to us")


@pytest.mark.parametrize("form", [name for name in FORMS if not name.startswith("bas")])
def test_each_byte_of_a_secret_becomes_an_x(form: str) -> None:
    secrets = Secrets([CANARY])
    echo = FORMS[form](CANARY).encode()
    assert secrets.scrub(b"<" + echo + b">") == b"<" + b"x" * len(echo) + b">"
    assert secrets.count == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [CANARY, TOKEN], ids=["odd", "plain"])
def test_secret_is_found_wherever_it_is_split(form: str, secret: str) -> None:
    secrets = Secrets()
    secrets.scrub_request(request(("x-api-key", secret)))
    echo = f'{{"error": "key {FORMS[form](secret)} is wrong"}}'.encode()
    whole = secrets.scrub(echo)
    assert not leaks(whole.decode(), secret)
    for cut in range(1, len(echo)):
        stream = secrets.open_scrubber()
        assert stream.feed(echo[:cut]) + stream.feed(echo[cut:]) + stream.close() == whole


def test_secrets_learnt_after_the_start_are_replaced() -> None:
    secrets = Secrets()
    stream = secrets.open_scrubber()
    secrets.scrub_response_headers([("set-cookie", f"sid={TOKEN}; Path=/; HttpOnly")])
    assert stream.feed(f"sid {TOKEN}; HttpOnly".encode()) == b""
    assert stream.close() == b"sid " + b"x" * len(TOKEN) + b"; HttpOnly"
    assert secrets.count == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Set-Cookie", f"sid={TOKEN}; Secure"),
        ("Location", f"https://login.example.com/?ticket={TOKEN}"),
        ("location", f"https://me:{TOKEN}@example.com/"),
        ("openai-organization", TOKEN),
        ("anthropic-organization-id", TOKEN),
        ("x-session-token", TOKEN),
    ],
)
def test_secret_response_headers_are_learnt_and_dropped(name: str, value: str) -> None:
    secrets = Secrets()
    assert secrets.scrub_response_headers([(name, value)]) == {}
    assert secrets.scrub(TOKEN.encode()) == b"x" * len(TOKEN)


def test_attributes_of_a_cookie_are_no_secrets() -> None:
    secrets = Secrets()
    secrets.scrub_response_headers(
        [("set-cookie", f"sid={TOKEN}; Domain=api.example.com; HttpOnly")]
    )
    assert secrets.scrub(b"api.example.com HttpOnly") == b"api.example.com HttpOnly"


def test_numbers_in_headers_of_a_response_are_no_secrets() -> None:
    secrets = Secrets()
    secrets.scrub_response_headers(
        [("x-ratelimit-limit-tokens", "150000"), ("anthropic-ratelimit-tokens-reset", "2026-01")]
    )
    assert secrets.scrub(b'{"total": 150000, "at": "2026-01"}') == (
        b'{"total": 150000, "at": "2026-01"}'
    )


def test_harmless_headers_of_a_response_are_stored() -> None:
    secrets = Secrets([TOKEN])
    kept = secrets.scrub_response_headers(
        iter(
            [
                ("Content-Type", f"text/event-stream; boundary={TOKEN}"),
                ("Retry-After", "3"),
                ("retry-after-ms", "3000"),
                ("X-Should-Retry", "true"),
                ("Date", "today"),
                ("Content-Length", "12"),
                ("Transfer-Encoding", "chunked"),
                ("x-ratelimit-remaining-requests", "1"),
                ("request-id", "req_1"),
                ("x-echo", TOKEN),
            ]
        )
    )
    assert kept == {
        "content-type": f"text/event-stream; boundary={'x' * len(TOKEN)}",
        "retry-after": "3",
        "retry-after-ms": "3000",
        "x-should-retry": "true",
    }


def test_harmless_headers_of_a_request_are_stored() -> None:
    recorded = Secrets().scrub_request(
        request(
            ("Host", "api.example.com"),
            ("Content-Type", "application/json"),
            ("Accept", "text/event-stream"),
            ("anthropic-version", "2026-10-21"),
            ("Anthropic-Beta", "a-1"),
            ("anthropic-beta", "b-2"),
            ("OpenAI-Beta", "c=3"),
            ("user-agent", "client/1"),
            ("x-stainless-os", "Linux"),
            ("authorization", f"Bearer {TOKEN}"),
        )
    )
    assert recorded.headers == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "anthropic-version": "2026-10-21",
        "anthropic-beta": "a-1, b-2",
        "openai-beta": "c=3",
    }


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (URL, URL),
        ("http://127.0.0.1:8080/v1/x", "http://127.0.0.1:8080/v1/x"),
        ("https://me:password@api.example.com:444/v1#top", "https://api.example.com:444/v1"),
        (f"{URL}?alt=sse&key=1234567&beta=true", f"{URL}?alt=sse&beta=true"),
        (f"{URL}?stream&starting_after=7", f"{URL}?stream&starting_after=7"),
        (f"{URL}?API-Version=2026-10-21&limit=20&x=1", f"{URL}?API-Version=2026-10-21&limit=20"),
        (f"{URL}/{TOKEN}/{TOKEN}?alt={TOKEN}&x-key={TOKEN}", f"{URL}/%/%?alt=%"),
        (f"{URL}/{quote(TOKEN)}?", f"{URL}/%"),
        ("/v1/relative?x=y", "/v1/relative"),
        ("https://[broken/v1?x=y", "https://[broken/v1"),
        ("", ""),
    ],
)
def test_url_is_stored_without_secrets(url: str, kept: str) -> None:
    recorded = Secrets([TOKEN]).scrub_request(request(url=url, method="GET"))
    assert (recorded.method, recorded.url) == ("GET", kept.replace("%", "x" * len(TOKEN)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a": [1, 2.5, null, true, "b"]}', {"body": {"a": [1, 2.5, None, True, "b"]}}),
        (b"null", {"body": None}),
        (b'{"x": NaN}', {"body": {"x": None}}),
        ("no JSON: ä".encode(), {"text": "no JSON: ä"}),
        (b"\xff\x00\x01", {"bytes": 3, "sha256": sha256(b"\xff\x00\x01").hexdigest()}),
        # Text by chance, such as the silence of a recording.
        (b"RIFF\x00\x00", {"bytes": 6, "sha256": sha256(b"RIFF\x00\x00").hexdigest()}),
        (b"", {}),
        (None, {}),
        (b"[" * 200 + b"]" * 200, {"text": "[" * 200 + "]" * 200}),
        (b"[" * 100_000, {"text": "[" * 100_000}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_body_is_stored_as_json_text_or_size(
    body: bytes | None, expected: dict[str, object]
) -> None:
    recorded = Secrets().scrub_request(request(body=body))
    assert recorded == RecordedRequest("POST", URL, {}, **expected)  # type: ignore[arg-type]
    assert (recorded.body is UNSET) == ("body" not in expected)


def test_digest_of_a_binary_body_has_no_secret_that_could_be_guessed() -> None:
    """Neither a short one in a field of its form, nor one that a pattern of the user finds."""

    def digest(password: str, pin: str) -> str | None:
        part = '--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
        body = (part % ("password", password) + part % ("file", f"\0pin {pin}")).encode()
        kind = ("content-type", "multipart/form-data; boundary=B")
        secrets = Secrets([re.compile(r"(?<=pin )\d*")])
        return secrets.scrub_request(request(kind, body=body + b"\xff\r\n--B--\r\n")).sha256

    assert digest("1234", "987654") == digest("98765432", "11") == digest("", "11") is not None
    assert digest("1234", "none") != digest("1234", "nine")


def test_secret_fields_of_a_body_are_replaced_whatever_their_length() -> None:
    secrets = Secrets()
    recorded = secrets.scrub_request(
        sent(
            {
                "model": "m",
                "api_key": "abc",
                "Password": 12345678,
                "access-token": ["é", None, True, ""],
                "properties": {"password": {"type": "string", "description": "of the user"}},
                "max_tokens": 1000000,
                "token": "Hello",
                "say": "12345678 abc",
            }
        )
    )
    assert recorded.body == {
        "model": "m",
        "api_key": "xxx",
        "Password": "xxxxxxxx",
        "access-token": ["xx", None, True, ""],
        "properties": {"password": {"type": "string", "description": "of the user"}},
        "max_tokens": 1000000,
        "token": "Hello",
        "say": "xxxxxxxx abc",
    }
    assert secrets.count == 4


def test_secrets_in_names_and_strings_of_a_body_are_replaced() -> None:
    secrets = Secrets([re.compile("[a-z]+@corp")])
    recorded = secrets.scrub_request(
        request(
            ("x-api-key", TOKEN),
            body=json.dumps({TOKEN: [f"<{TOKEN}>", "ä jo@corp", "ä"], "b": {"c": "d"}}).encode(),
        )
    )
    hidden = "x" * len(TOKEN)
    assert recorded.body == {hidden: [f"<{hidden}>", "ä xxxxxxx", "ä"], "b": {"c": "d"}}
    assert secrets.count == 3


def test_text_of_a_body_is_scrubbed() -> None:
    recorded = Secrets([TOKEN]).scrub_request(request(body=f"a={TOKEN}".encode()))
    assert recorded.text == "a=" + "x" * len(TOKEN)


def test_five_characters_are_too_short_to_search_for() -> None:
    secrets = Secrets()
    secrets.scrub_request(request(("x-api-key", "hello"), ("api-key", "hello!")))
    assert secrets.scrub(b"hello hello!") == b"hello xxxxxx"


def test_adjacent_short_parts_are_searched_together() -> None:
    secrets = Secrets()
    secrets.scrub_request(
        request(("authorization", basic("me", "pass")), ("proxy-authorization", "Key abc"))
    )
    assert secrets.scrub(b"me pass Key: me:pass, Key abc") == b"me pass Key: xxxxxxx, xxxxxxx"


@pytest.mark.parametrize("placeholder", ["ollama", "lm-studio", "not-needed", "Bearer"])
def test_placeholders_are_no_secrets(placeholder: str) -> None:
    secrets = Secrets()
    secrets.scrub_request(request(("authorization", f"Bearer {placeholder}")))
    assert secrets.scrub(f"fp_{placeholder}".encode()) == f"fp_{placeholder}".encode()


def test_query_without_a_secret_name_does_not_change_the_body() -> None:
    secrets = Secrets()
    recorded = secrets.scrub_request(request(url=f"{URL}?model=some-model&include[]=logprobs"))
    assert recorded.url == f"{URL}?model=some-model&include[]=logprobs"
    assert secrets.scrub(b"some-model logprobs") == b"some-model logprobs"


def test_replaced_text_is_not_learnt_as_a_secret() -> None:
    secrets = Secrets()
    secrets.scrub_request(sent({"api_key": "xxxxxxxx"}))
    assert secrets.scrub(b"yxxxxxxxxxxy") == b"yxxxxxxxxxxy"
    assert secrets.count == 1


def test_redact_replaces_texts_of_any_length_and_matches() -> None:
    secrets = Secrets(["Jo", "", re.compile(r"(?i)acct-\d+|z*")])
    assert secrets.scrub("ä Jo, ACCT-77 ö acct-1.".encode()) == "ä xx, xxxxxxx ö xxxxxx.".encode()
    assert secrets.count == 3


def test_secret_longer_than_any_buffer_is_replaced() -> None:
    long = "".join(f"{number:x}-" for number in range(4000))
    secrets = Secrets()
    secrets.scrub_request(request(("authorization", f"Bearer {long}")))
    for echo in (long, escaped(long)):
        scrubbed = secrets.scrub(f"<{echo}>".encode())
        assert scrubbed == b"<" + b"x" * len(echo) + b">"
    assert secrets.count == 2
    in_base64 = secrets.scrub(b64encode(long.encode()))
    assert not re.search(b"[^x]{5}", in_base64.rstrip(b"="))


def test_repr_shows_no_secret() -> None:
    secrets = Secrets([TOKEN])
    secrets.scrub_request(request(("x-api-key", CANARY)))
    assert TOKEN not in repr(secrets) + repr(secrets.open_scrubber())
    assert "cAn4ry" not in repr(secrets) + str(secrets)
