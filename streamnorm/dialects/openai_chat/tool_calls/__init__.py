"""Tool calls: their fragments on the wire, their arguments, and their held starts."""

from streamnorm.dialects.openai_chat.tool_calls.arguments import COMPLETE_ENDS
from streamnorm.dialects.openai_chat.tool_calls.calls import Call, ToolCalls
from streamnorm.dialects.openai_chat.tool_calls.fragments import (
    CallFragment,
    Signature,
    call_fragment_from_wire,
    call_signature_to_wire,
    call_start_to_wire,
)
from streamnorm.dialects.openai_chat.tool_calls.pending_starts import (
    HeldText,
    PendingStarts,
    TextKind,
)

__all__ = [
    "COMPLETE_ENDS",
    "Call",
    "CallFragment",
    "HeldText",
    "PendingStarts",
    "Signature",
    "TextKind",
    "ToolCalls",
    "call_fragment_from_wire",
    "call_signature_to_wire",
    "call_start_to_wire",
]
