"""Tables of what requests lose, rendered from each dialect's capabilities."""

from __future__ import annotations

from collections.abc import Iterator

from streamnorm import Request
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._registry import DIALECTS

NAMES = {
    "anthropic": "Anthropic",
    "openai_chat": "Chat",
    "openai_responses": "Responses",
    "gemini": "Gemini",
    "gemini_interactions": "Interactions",
    "bedrock_converse": "Converse",
}

TARGETS: dict[str, BodyCapabilities] = {
    NAMES[name]: codec.capabilities
    for name, known in sorted(DIALECTS.items(), key=lambda item: [*NAMES, item[0]].index(item[0]))
    if (codec := known.codec) is not None
}

# The parts of a request, and fields whose loss stands in the table of features.
_NO_OPTIONS = {
    *("model", "system", "messages", "tools", "tool_choice", "stream", "betas"),
    *("extra", "source", "state", "reasoning", "output"),
}

FEATURES = {
    "names": "names of participants",
    "prefill": "a last message of the assistant that the answer continues",
    "image_urls": "images by URL",
    "image_details": "resolutions of images",
    "documents": "PDF and other documents",
    "document_urls": "documents by URL",
    "text_documents": "documents of plain text",
    "audio": "sound",
    "video": "videos",
    "assistant_media": "images in messages of the assistant",
    "system_media": "files in system messages",
    "refusal": "refusals that are not text",
    "citations": "citations in messages of the assistant",
    "ordered_blocks": "text after a tool call",
    "result_media": "in tool results, beside text",
    "error_results": "a mark of tool results that are errors",
    "custom_tools": "tools with free text",
    "namespaces": "namespaces of tools",
    "deferred_tools": "tools that the model finds by a search",
    "server_tools": "tools that the provider executes",
    "mcp_servers": "MCP servers, with",
    "restricted_choice": "a choice among some of the tools",
    "output_kinds": "forms of the answer",
    "efforts": "efforts of reasoning",
    "marks": "cache marks, behind",
    "service_tiers": "service tiers",
}

LOSSES = {
    "arguments": ("arguments that a server reads as JSON alone", "written as JSON"),
    "budget_changed": ("a budget that the model lacks", "written as the nearest, or as an effort"),
    "cache_mark_moved": (
        "a cache mark within a tool result, or on a document that Bedrock reads as text",
        "written on the result, or before the document",
    ),
    "context_management": ("edits of the context without what they need", "dropped"),
    "effort": ("an effort beside reasoning that is switched off", "dropped"),
    "message_split": ("results beside other content", "written as two messages"),
    "metadata": ("labels beyond the bounds of the server", "dropped"),
    "prefill_dropped": ("a last message of the assistant that is refused", "dropped"),
    "schema_name": ("a name of a schema that the server refuses", "dropped"),
    "schema_strict": ("whether a schema is enforced", "written as the target can"),
    "tool_input": ("arguments that are no object", "written as an object"),
    "allowed_tools_filtered": ("tools that the choice leaves out", "not offered"),
    "arguments_raw": ("arguments that are no JSON object", 'written as `{"_raw": …}`'),
    "arguments_repaired": (
        "arguments that are no JSON object",
        "written as repaired",
    ),
    "assistant_filled": ("a user's message after tool results", "an assistant's stands between"),
    "audio_dropped": ("sound", "dropped"),
    "beta": ("a beta that the server does not know, or without its field", "dropped"),
    "blocked_domains": ("blocked domains beside allowed ones", "dropped"),
    "boundaries": ("several texts of an assistant", "written as one"),
    "cache_key_hashed": ("a long name of a cache", "written as its SHA-256"),
    "cache_mark_dropped": ("a cache mark", "dropped"),
    "cache_ttl": ("the lifetime of a cache mark", "written as the nearest"),
    "call_id": ("no id, or that of an earlier call, in a stored chat", "an id of its own"),
    "choices_dropped": ("several answers (`n > 1`)", "dropped"),
    "citation_fields": ("the cited text, or a vendor's fields, of a citation", "dropped"),
    "compaction": ("the summary that stands for a conversation", "written as text in `<summary>`"),
    "custom_tool_wrapped": ("a tool with free text", "written as a function of one string"),
    "deferred_tool_loaded": ("a tool that the model finds by a search", "offered from the start"),
    "detail": ("the resolution of an image", "dropped"),
    "document_as_text": (
        "a document of plain text, at Converse behind the fifth document",
        "written as text",
    ),
    "document_dropped": ("a document", "dropped"),
    "document_renamed": ("the name of a document", "written with legal characters, and unique"),
    "document_text_added": ("a document without a text beside it", "a text names it"),
    "duplicate_result": ("a second result of a call", "dropped"),
    "developer_role": ("a developer's message, in a stored chat of `useChat`", "the system's"),
    "effort_changed": ("an effort of reasoning", "written as the nearest"),
    "empty_message_dropped": ("a message without content", "dropped"),
    "empty_text_dropped": ("a text without content, in a stored thread of AG-UI", "dropped"),
    "error_text_added": (
        "a tool's error without content, at Anthropic and Converse",
        "a text says so",
    ),
    "file_id": ("a file by its id, in a stored chat of `useChat`", "read by `ai` 7 alone"),
    "file_id_dropped": ("a file that another vendor has", "dropped"),
    "half_character": ("half a surrogate pair", "written as U+FFFD"),
    "image_as_file": ("an uploaded image", "written as a file with its id"),
    "image_dropped": ("an image", "dropped"),
    "is_error": ("the mark of a result that is an error", "`<tool_error>` around its text"),
    "item_id": ("an id of an item that the provider would refuse", "dropped"),
    "json_mode_dropped": ("an answer that is any JSON object", "dropped"),
    "json_asked": ("any JSON object that no message names", "a system message asks for JSON"),
    "late_result": ("a result after the next answer", "written as text of the user"),
    "max_tokens_defaulted": ("no bound of tokens, where one must be", "that of the model"),
    "max_tokens_raised": ("a bound of tokens below the least", "written as the least"),
    "mcp_server_dropped": ("an MCP server", "dropped"),
    "media_type": ("the type of a text document", "written as `text/plain`"),
    "media_type_guessed": ("no type of a file by URL", "written by its suffix"),
    "media_type_parameters": ("parameters of a media type, in a stored chat", "dropped"),
    "messages_merged": ("messages of one role in a row", "written as one"),
    "name": ("the name of a participant", "dropped"),
    "namespace_flattened": ("the namespace of a tool", "written before its name"),
    "number_precision": ("a number that a double cannot hold", "rounded by the provider"),
    "order_lost": ("text after tool calls or files", "written before them"),
    "orphan_result": ("a result of no call", "written as text of the user"),
    "parallel_tool_calls": ("a ban of parallel calls", "dropped"),
    "prefill_not_continued": ("an answer that the assistant has begun", "a message of its own"),
    "property_renamed": ("the name of a tool's property", "written with legal characters"),
    "reasoning_dropped": ("reasoning of another vendor, or with nothing after it", "dropped"),
    "reasoning_merged": ("two blocks of one reasoning item, in a stored chat", "read as one"),
    "reasoning_summary": ("how reasoning is shown", "changed or dropped"),
    "refusal_as_text": ("a refusal", "written as text"),
    "result_media": ("files in a tool result, in a stored chat", "dropped"),
    "require_approval": ("approval of an MCP server's calls", "called without"),
    "result_as_error": ("the result of a call without JSON, in a stored chat", "read as an error"),
    "result_filled": ("no result of a call", "written as an error"),
    "result_matched_by_order": ("a result without an id", "given that of a call"),
    "result_value": ("JSON of a result beside another text, in a stored thread", "dropped"),
    "results_joined": ("further results of a custom call, such as Codex's notes", "written as one"),
    "results_reordered": ("results that are not in the order of the calls", "written in it"),
    "schema_dropped": ("a schema of the answer", "dropped"),
    "server_history_dropped": (
        "calls that another provider executed, and any provider's in the messages of a page",
        "dropped",
    ),
    "server_tool_dropped": ("a tool that the provider executes", "dropped"),
    "signature_dropped": ("a signature", "dropped"),
    "signature_placeholder": (
        "no signature of a call or image, where one must be",
        "a placeholder",
    ),
    "stop_dropped": ("texts that end the answer", "dropped, or only the first written"),
    "strict": ("whether arguments must follow the schema", "dropped, or for all tools"),
    "system_demoted": ("a system message in the middle", "`<system>` in a message of the user"),
    "system_moved": (
        "a system message in the middle, or a file in one",
        "written after the user's messages, or in one",
    ),
    "temperature_clamped": ("a temperature beyond the bound", "written as the bound"),
    "title": ("the title of a file", "dropped"),
    "tool_choice": ("a choice of tools without tools", "dropped"),
    "tool_choice_weakened": ("a call that is demanded", "allowed, not demanded"),
    "tool_declared": ("no tools, beside a history with calls", "those of the calls"),
    "tool_id_changed": ("the id of a call, which an earlier call has", "written with a number"),
    "tool_renamed": ("the name of a tool", "written with legal characters"),
    "tool_result_image_moved": ("a file in a tool result", "in a message of the user after it"),
    "tool_reference": ("a tool that a result loads", "written as text"),
    "tools_moved": ("tools that a message adds", "offered from the start"),
    "trailing_white_space": ("white space at the end of a prefill", "dropped"),
    "user": ("a second name of the end user", "dropped"),
    "user_hashed": ("a long name of the end user", "written as its SHA-256"),
    "video_dropped": ("a video", "dropped"),
}


def option_rows() -> Iterator[list[str]]:
    """Yield a row for each option, with the targets that have it."""
    for field in Request.__struct_fields__:
        if field not in _NO_OPTIONS:
            cells = ["yes" if field in can.fields else "loss" for can in TARGETS.values()]
            yield [f"`{field}`", *cells]


def feature_rows() -> Iterator[list[str]]:
    """Yield a row for each feature, with the targets that carry it."""
    for field, words in FEATURES.items():
        yield [words, *(_cell(field, getattr(can, field)) for can in TARGETS.values())]


def loss_rows() -> Iterator[list[str]]:
    """Yield a row for each loss: its name, what is lost, and the consequence."""
    for name, (lost, result) in LOSSES.items():
        yield [f"`{name}`", lost, result]


def _cell(field: str, value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "loss"
        case str():
            return f"`{value}` alone"
        case None:
            return "loss"
        case dict() | tuple() | frozenset():
            names = [*value] if isinstance(value, tuple) else sorted(value)
            if field == "result_media":  # text is no loss anywhere
                names = [name for name in names if name != "text"]
            return ", ".join(f"`{name}`" for name in names) or "loss"
        case _:
            raise AssertionError(value)


TABLES = {
    "request_features": (["", *TARGETS], feature_rows),
    "request_names": (["`feature`", "what the request has", "in the target"], loss_rows),
    "request_options": (["", *TARGETS], option_rows),
}
"""The heads of the tables of requests, and the functions that return their rows."""
