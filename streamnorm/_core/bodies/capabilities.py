"""The capabilities of a request: what a dialect, a model and a server have a field for."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = ["BodyCapabilities"]


class BodyCapabilities(Struct, frozen=True, kw_only=True):
    """Features of a unified request that one target can carry.

    A room states those of its dialect, without a bound that only some models have; a profile
    narrows them to a model, a server and a version.

    Attributes:
        dialect: Name of the dialect.
        fields: Fields of `Request` with a field in the body.
        roles: Roles of messages.
        system: Where instructions stand: in a field of blocks, in a field of one text, or in
            the first message.
        inline_system: How a system message after the first other one is written: as such;
            after the user messages that follow it; or as text of a user message.
        single_system: At most one system message, the first.
        strict_alternation: Consecutive messages of one role are refused.
        names: Names of participants.
        prefill: A last message of the assistant, which the answer continues.
        images: Media types of inline images; None = any.
        image_urls: Images by URL.
        image_details: Resolutions of images; empty = no field for them.
        documents: Documents that are no plain text, inline.
        document_urls: Documents by URL.
        text_documents: Documents of plain text.
        audio: Sound.
        video: Videos.
        assistant_media: Images in messages of the assistant.
        file_issuer: Vendor whose file ids are known here; None = file ids have no field.
        refusal: Refusals that are not text.
        citations: Kinds of citations of assistant text.
        ordered_blocks: Text after a tool call of one message keeps its place.
        mixed_results: Results and other content share one user message.
        split_results: The results of one message's calls may stand in several messages, in
            any order.
        result_media: Types of media in tool results, by the tag of their block; others
            follow in a user message of their own.
        error_results: Tool results that are errors have a field that says so.
        object_arguments: Tool arguments are an object, not JSON text.
        call_ids: Tool calls must have an id.
        id_pattern: Regular expression that ids of tool calls match as a whole; None = any.
        max_id_chars: Longest id of a tool call; None = any.
        name_pattern: Regular expression that tool names match as a whole; None = any.
        custom_tools: Tools with free text.
        namespaces: Tools in namespaces.
        deferred_tools: Tools that the model finds by a search.
        strict_tools: Whether tools say that their arguments follow the schema.
        server_tools: Kinds of server tools with an equivalent, and the fields of
            `ServerTool` that it has.
        mcp_servers: Fields of `MCPServer` that the target has; None = no such servers.
        server_history: Calls of server tools of this dialect, and their results.
        choices_of_tool: Modes of `ToolChoice`.
        restricted_choice: `auto` and `required` among some of the tools.
        weak_choice: Mode that stands for `required` and `named` where those are refused.
        max_tools: Number of tools; None = any.
        schema: Form of tool schemas: as they are, or simplified.
        output_kinds: Kinds of `OutputFormat`.
        max_tokens: Tokens of an answer where the request does not say; None = not needed.
        max_temperature: Highest temperature.
        max_stops: Number of stop texts; None = any.
        thinking: Words that reasoning is asked for in: an effort, a budget, an adaptive mode
            with an effort, or one of several levels.
        thinking_budgets: An adaptive target takes budgets, too.
        shows_reasoning: A field for what of the reasoning the answer shows.
        efforts: Efforts that exist, from the lowest.
        reasoning_issuer: Vendor whose signed reasoning goes back; None = none does.
        reasoning_text: Reasoning goes back as text, without a signature.
        reasoning_required: Every assistant message has reasoning, be it empty.
        signature_placeholder: What a call of another vendor is signed with; None = nothing.
        marks: Parts of a request that a cache mark can follow: `system`, `tool`, `request`,
            and the tags of blocks.
        mark_ttls: The target's lifetimes, by the lifetime of the source; "" = the default.
        max_marks: Number of cache marks.
        service_tiers: The target's word, by OpenAI's.
        max_user_chars: Longest name of an end user; None = any.
        allowed_fields: Fields of the body that the server knows; None = all.
        denied_fields: Fields of the body that it refuses, as `tools.strict` for those of
            every tool.
        renamed_fields: Its names of fields of the body.
        added_fields: Fields that it needs in every body.
        allowed_betas: Betas that it knows; None = all.
    """

    dialect: str
    fields: frozenset[str]
    roles: frozenset[str] = frozenset({"user", "assistant"})
    system: Literal["blocks", "text", "message"] = "blocks"
    inline_system: Literal["message", "after_user", "text"] = "text"
    single_system: bool = False
    strict_alternation: bool = False
    names: bool = False
    prefill: bool = True
    images: frozenset[str] | None = None
    image_urls: bool = True
    image_details: frozenset[str] = frozenset()
    documents: bool = True
    document_urls: bool = True
    text_documents: bool = False
    audio: bool = False
    video: bool = False
    assistant_media: bool = False
    file_issuer: str | None = None
    refusal: bool = False
    citations: frozenset[str] = frozenset()
    ordered_blocks: bool = True
    mixed_results: bool = False
    split_results: bool = False
    result_media: frozenset[str] = frozenset()
    error_results: bool = False
    object_arguments: bool = False
    call_ids: bool = True
    id_pattern: str | None = None
    max_id_chars: int | None = None
    name_pattern: str | None = None
    custom_tools: bool = False
    namespaces: bool = False
    deferred_tools: bool = False
    strict_tools: bool = True
    server_tools: dict[str, frozenset[str]] = {}
    mcp_servers: frozenset[str] | None = None
    server_history: bool = False
    choices_of_tool: frozenset[str] = frozenset({"auto", "required", "none", "named"})
    restricted_choice: bool = False
    weak_choice: Literal["auto", "required"] = "auto"
    max_tools: int | None = None
    schema: Literal["any", "simple"] = "any"
    output_kinds: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    max_tokens: int | None = None
    max_temperature: float = 2.0
    max_stops: int | None = None
    thinking: Literal["effort", "budget", "adaptive", "level"] = "effort"
    thinking_budgets: bool = True
    shows_reasoning: bool = True
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    reasoning_issuer: str | None = None
    reasoning_text: bool = False
    reasoning_required: bool = False
    signature_placeholder: str | None = None
    marks: frozenset[str] = frozenset()
    mark_ttls: dict[str, str] = {}
    max_marks: int = 4
    service_tiers: dict[str, str] = {}
    max_user_chars: int | None = None
    allowed_fields: frozenset[str] | None = None
    denied_fields: frozenset[str] = frozenset()
    renamed_fields: dict[str, str] = {}
    added_fields: dict[str, str] = {}
    allowed_betas: frozenset[str] | None = None
