"""Properties of the decoding and translation of any body."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from streamnorm import (
    DecodeError,
    EncodeError,
    UpstreamError,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
)
from streamnorm._registry import DIALECTS

__all__ = ["BODIES", "PAGES", "check_body", "check_page", "check_response"]

BODIES = [name for name, dialect in DIALECTS.items() if dialect.codec is not None]

# Dialects of pages, whose requests are only read.
PAGES = [name for name, each in DIALECTS.items() if each.body is not None and name not in BODIES]


def check_page(body: dict[str, Any], dialect: str) -> None:
    """Check that a page's request raises `DecodeError` or encodes in every dialect."""
    before = json.dumps(body)
    try:
        request = decode_request(body, dialect)
    except DecodeError:
        return
    finally:
        assert json.dumps(body) == before
    for target in BODIES:
        with suppress(EncodeError):
            made = encode_request(request, target, repair="fill", arguments="raw")
            json.dumps(made.body, allow_nan=False).encode()


def check_body(body: dict[str, Any], dialect: str) -> None:
    """Check that a request raises `DecodeError` or encodes in every dialect.

    In its own it is equal, but for halves of characters.  In another one it is JSON that is read
    again, or has no legal form.
    """
    before = json.dumps(body)
    try:
        request = decode_request(body, dialect)
    except DecodeError:
        return
    finally:
        assert json.dumps(body) == before
    for target in BODIES:
        for repair in ("error", "fill") if target != dialect else ("error",):
            try:
                made = encode_request(request, target, repair=repair, arguments="raw")
            except EncodeError:
                assert target != dialect
                continue
            assert json.dumps(body) == before
            if target == dialect:
                clean = _in_unicode(body)
                halved = json.dumps(clean).count(r"\ufffd") > before.count(r"\ufffd")
                assert made.body == clean
                assert [loss.feature for loss in made.losses] == ["half_character"] * halved
                continue
            text = json.dumps(made.body, allow_nan=False)
            text.encode()
            try:
                decode_request(text, target, path=made.path, headers=made.headers)
            except DecodeError as exc:
                # What is nested as deep as allowed may stand deeper in another dialect.
                if "nested deeper" not in str(exc):
                    raise


def _in_unicode(value: Any) -> Any:
    """Return a JSON value with U+FFFD in place of lone surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return json.loads(clean)


def check_response(body: dict[str, Any], dialect: str) -> None:
    """Check that a response raises a library error or encodes in every dialect.

    There it is JSON that is read again, or has no legal form.
    """
    before = json.dumps(body)
    try:
        message = decode_message(body, dialect)
    except (DecodeError, UpstreamError):
        return
    finally:
        assert json.dumps(body) == before
    for target in BODIES:
        try:
            made = encode_message(message, target)
        except EncodeError:
            continue
        with suppress(UpstreamError):  # of arguments that are no JSON object
            decode_message(json.dumps(made.body, allow_nan=False), target)
