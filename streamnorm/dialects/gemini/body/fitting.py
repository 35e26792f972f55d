"""Placeholder signatures in the contents of the model.

https://ai.google.dev/gemini-api/docs/thought-signatures (read 2026-11-23).  Vertex AI and the
Gemini API refuse the first call of a step without a signature, and the Gemini API an image of the
model.  Contents that are translated get Google's documented placeholder there, and a server that
the caller names gets it in a body of Gemini, too; the nameless vendor gets that body as it is.
"""

from __future__ import annotations

from operator import is_, is_not
from typing import Any

from streamnorm._core.codec import WriteContext
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm.dialects.gemini.wire import to_camel

_CONTENTS, _PARTS = "contents", "parts"
_SIGNATURE = "thoughtSignature"


def fit_body(body: dict[str, Any], context: WriteContext) -> dict[str, Any]:
    """Return a request body with placeholder signatures where the named server requires them."""
    contents = body.get(_CONTENTS)
    if not context.named or not is_array(contents):
        return body
    signed = [sign_content(content, context) for content in contents]
    if all(map(is_, contents, signed)):
        return body
    return {**body, _CONTENTS: signed}


def sign_content(content: Any, context: WriteContext) -> Any:
    """Return a content with placeholder signatures on the model's first call and its images.

    Gemini 3 refuses the first call of a turn without a signature (parallel calls need none), and
    an image of its own ("Image part is missing a thought_signature").
    """
    placeholder = context.capabilities.signature_placeholder
    if placeholder is None or not is_object(content) or content.get("role") != "model":
        return content
    parts: Any = content.get(_PARTS)
    if not is_array(parts):
        return content
    signed: list[Any] = []
    has_call = False
    for part in parts:
        fields = to_camel(part) if is_object(part) else {}
        is_first_call = fields.get("functionCall") is not None and not has_call
        has_call |= is_first_call
        is_image = _is_image(fields.get("inlineData"))
        if (is_first_call or is_image) and fields.get(_SIGNATURE) is None:
            context.losses.add("signature_placeholder", "messages", "signed with it")
            signed.append({**part, _SIGNATURE: placeholder})
        else:
            signed.append(part)
    return {**content, _PARTS: signed} if any(map(is_not, signed, parts)) else content


def _is_image(data: object) -> bool:
    return is_object(data) and string_of(to_camel(data), "mimeType").startswith("image/")
