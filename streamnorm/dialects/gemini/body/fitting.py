"""Placeholder signatures in Gemini bodies that go to a Gemini server named by the caller.

https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-23).  Vertex AI and the
Gemini API refuse the first call of a step without a signature.  A server that the caller names
gets Google's documented placeholder there; the nameless vendor gets the body as it is.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from streamnorm._core.codec import WriteContext
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.gemini.wire import to_camel

_CONTENTS, _PARTS = "contents", "parts"
_SIGNATURE = "thoughtSignature"


def fit_body(body: dict[str, Any], context: WriteContext) -> dict[str, Any]:
    """Return a request body with placeholder signatures where the named server requires them."""
    placeholder, contents = context.capabilities.signature_placeholder, body.get(_CONTENTS)
    if not context.named or placeholder is None or not is_array(contents):
        return body
    signed = [_sign_first_call(content, placeholder, context) for content in contents]
    if all(map(is_, contents, signed)):
        return body
    return {**body, _CONTENTS: signed}


def _sign_first_call(content: Any, placeholder: str, context: WriteContext) -> Any:
    """Return a content of the model with a placeholder signature on its first call.

    Parallel calls need one signature alone, on the first.
    """
    if not is_object(content) or content.get("role") != "model":
        return content
    parts: Any = content.get(_PARTS)
    for number, part in enumerate(parts if is_array(parts) else ()):
        if is_object(part) and to_camel(part).get("functionCall") is not None:
            if to_camel(part).get(_SIGNATURE) is not None:
                return content
            context.losses.add("signature_placeholder", "messages", "signed with it")
            signed = {**part, _SIGNATURE: placeholder}
            return {**content, _PARTS: [*parts[:number], signed, *parts[number + 1 :]]}
    return content
