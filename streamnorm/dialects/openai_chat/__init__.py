"""OpenAI Chat Completions, and what compatible servers make of it."""

from streamnorm._core.codec import Dialect, on_first_use
from streamnorm._core.json import InvalidJSON, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.provider_errors import find_error
from streamnorm.dialects.openai_chat.capabilities import CAPABILITIES
from streamnorm.dialects.openai_chat.endpoints import ENDPOINTS, is_terminal
from streamnorm.sse import Frame

__all__ = ["DIALECT"]


def _recognises(frame: Frame) -> bool:
    """Tell whether a frame is a chunk, the terminal, or an error without a type of its own."""
    if frame.data.startswith("[DONE]"):
        return True
    try:
        value = decode_any(frame.data, max_depth=Limits().max_json_depth)
    except InvalidJSON:
        return frame.event == "error"
    if is_object(value):
        if value.get("choices") is not None:
            return True
        if str(value.get("object")).startswith("chat.completion"):
            return True
        if value.get("type") == "error":  # as other dialects have it
            return False
    return frame.event == "error" or find_error(value) is not None


DIALECT = Dialect(
    name="openai_chat",
    aliases=("openai", "chat"),
    recognises=_recognises,
    is_terminal=is_terminal,
    decoder=on_first_use("streamnorm.dialects.openai_chat.decode", "ChatDecoder"),
    encoder=on_first_use("streamnorm.dialects.openai_chat.encode", "ChatEncoder"),
    checker=on_first_use("streamnorm.dialects.openai_chat.check", "ChatChecker"),
    capabilities=CAPABILITIES,
    endpoints=ENDPOINTS,
)
