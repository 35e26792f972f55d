"""Capabilities of requests: the features that a dialect, a model and a server accept."""

from __future__ import annotations

from sys import maxsize
from typing import Any, Literal

from msgspec import Struct, structs

from streamnorm._core.schemas.strict import EnforcedSchemas, SchemaNeed

# Capabilities that describe the form of the dialect, independent of servers and models.
_OF_THE_DIALECT = (
    "messages_field",
    "system",
    "inline_system",
    "file_issuer",
    "refusal",
    "split_results",
    "error_results",
    "custom_tools",
    "namespaces",
    "deferred_tools",
    "server_tools",
    "mcp_servers",
    "server_history",
    "output_kinds",
    "thinking",
    "thinking_budgets",
    "bounded_budgets",
    "min_budget",
    "max_budget",
    "signed_budgets",
    "reasoning_issuer",
    "reasoning_form",
    "signed",
    "service_tiers",
    "request_ttls",
    "counts_written_marks",
)
_PARTS = "text image document audio video opaque"
_CALLS = "tool_call tool_result server_tool_call server_tool_result"


class BodyCapabilities(Struct, frozen=True, kw_only=True):
    """Features of a unified request that one target accepts.

    Each dialect states the features of its vendor's API, without bounds that only some models
    have; profiles narrow them to a model, a server and a version.

    Attributes:
        dialect: Name of the dialect.
        only_refusals: The request is in the dialect already, and is changed only where the
            server refuses it.
        fields: Fields of `Request` with a field in the body.
        messages_field: Field of the body with the messages.
        roles: Roles of messages.
        system: Form of instructions: a field of blocks, a field of one text, or the first
            message.
        inline_system: Form of a system message after other messages: a system message; one
            after the user messages that follow it; or text of a user message.
        single_system: At most one system message, the first.
        strict_alternation: Consecutive messages of one role are refused, as is a first message
            of the assistant.
        user_message: The request must have a user message that is no tool result.
        empty_assistants: Messages of the assistant may be empty.
        names: Names of participants.
        complete_answers: Messages of the assistant with parts need an id and a status, and
            their texts annotations.
        new_item_ids: Items may have ids that the server did not issue.
        exact_choices: A choice of a server tool names its exact type in `tools`.
        vendor_checks: The vendor's checks apply to requests of the dialect's own clients, too.
        prefill: A last message of the assistant, which the answer continues.
        prefill_with_schema: A last message of the assistant beside a schema of the output.
        assistant_last: A last message of the assistant is accepted, continued or not.
        images: Media types of inline images; None = any.
        image_urls: Images by URL; `https`: by one of this scheme alone.
        image_details: Resolutions of images; empty = no field for them.
        documents: Documents that are no plain text, inline.
        document_types: Media types of documents, besides those of text; None = any.
        document_urls: Documents by URL; `pdf`: none but PDF.
        text_documents: Documents of plain text.
        audio: Audio.
        video: Videos.
        assistant_media: Images in messages of the assistant.
        system_media: Files in system messages.
        audio_data_urls: Audio is a `data:` URL, not bare Base64.
        file_issuer: Vendor whose file ids are valid; None = no field for file ids.
        checks_files: Inline files of the dialect's own clients are checked to be Base64, too;
            files of translated requests always are.
        refusal: Refusals that are not text.
        citations: Kinds of citations of assistant text.
        citation_fields: Fields of citations that no attribute holds, by the kinds that have no
            others; `cited_text` among them if the cited text is written.
        opaque_kinds: Types of blocks of the dialect that the target knows; None = all.
        ordered_blocks: Text after a tool call of one message keeps its position.
        mixed_results: Tool results and other content may share one user message.
        split_results: The results of one message's calls may be in several messages, in any
            order.
        result_media: Types of media in tool results, by the tag of their block; other media
            follow in a user message of their own.
        result_media_types: Media types in tool results; None = any.
        orphan_results: Results of unknown calls are accepted.
        results_then_assistant: Only a message of the assistant can follow tool results.
        adjacent_calls: The calls of one message must be adjacent.
        calls_after_user: Calls must be in the first message of an answer, after a user message.
        results_required: Requests of the dialect's own clients are checked for the result of
            each call, too.
        error_results: A field marks tool results that are errors.
        json_arguments: Arguments of calls must be JSON, although the dialect has them as text.
        call_ids: Calls and results have ids; without ids, results follow the order of the calls.
        id_pattern: Regular expression that ids of tool calls match as a whole; None = any.
        max_id_chars: Longest id of a tool call; None = any.
        issued_id_pattern: Regular expression that the ids of the vendor's own tool calls match
            at their start; None = any.
        unique_ids: No two calls of a conversation have the same id.
        name_pattern: Regular expression that tool names match as a whole; None = any.
        property_pattern: Regular expression that the names of a tool's properties match as a
            whole, at the top of its schema; None = any.
        custom_tools: Tools with free text.
        namespaces: Tools in namespaces.
        deferred_tools: Tools that the model finds by a search.
        strict_tools: A field of tools demands that arguments follow the schema.
        server_tools: Kinds of server tools with an equivalent, and the fields of `ServerTool`
            that the equivalent has.
        mcp_servers: Fields of `MCPServer` that the target has; None = no MCP servers.
        server_history: Calls of server tools of this dialect, and their results.
        choices_of_tool: Modes of `ToolChoice`.
        checks_choices: A choice of the dialect's own clients is checked to name offered tools,
            too; a translated choice always is.
        restricted_choice: `auto` and `required` among some of the tools.
        chooses_server_tools: A choice restricts server tools, too; if not, all offered ones may
            be called.
        weak_choice: Mode in place of refused `required` and `named`; with `required`, a named
            tool is then the only one that is offered.
        reasoning_choices: Modes of `ToolChoice` while the model reasons; None = the same.
        budget_choices: Modes of `ToolChoice` with a reasoning budget; None = the same.
        lone_choice: A choice of tools without tools.
        mixed_tools: Functions and server tools in one request.
        reports_server_calls: A request with both asks for the calls of server tools in the
            answer.
        max_tools: Bound on the number of tools; None = any.
        schema: Form of tool schemas: as they are, or simplified.
        schema_needs: Demands on schemas beyond JSON Schema: types in the branches of `anyOf`
            and not beside it (`branch_types`); references that lead to `$defs`, with only notes
            beside them (`definitions`); tuples and exclusive bounds as the latest draft spells
            them (`draft_2020`); `items` that are an object (`item_schemas`); `items` of every
            array; an `object` at the root; the order of `propertyOrdering`
            (`ordered_properties`); `properties` of the root; `properties` that are an object
            (`property_maps`).
        schema_root_refused: Keywords that are refused at the root.
        output_schema_needs: The same as `schema_needs` for the schema of an output.
        enforced_schemas: Rules for schemas that are enforced; None = no rules.
        enforces_outputs: The schema of an output is always enforced.
        output_kinds: Kinds of `OutputFormat`.
        output_with_tools: An output that is no text in a request with tools.
        json_word: An answer that is any JSON object needs the word JSON in the messages.
        output_name_pattern: Regular expression that names of output schemas match as a whole;
            other names are left out; None = any.
        max_tokens: Default for the tokens of an answer; None = no default needed.
        min_answer_tokens: Lowest legal bound on the tokens of an answer; None = any.
        exclusive_fields: Fields of `Request` of which only one may be set; the first wins.
        number_bounds: Lowest and highest values of fields of `Request`.
        dependent_fields: Fields of `Request` that are refused without another field, by name
            with that field.
        fixed_values: Fields of `Request` with a single legal value.
        fixed_values_off: The same while the model does not reason; None = no other.
        min_temperature: Lowest temperature.
        max_temperature: Highest temperature.
        max_stops: Bound on the number of stop texts; None = any.
        blank_stops: Stop texts may be only white space.
        thinking: Form of reasoning options: an effort, a budget, an adaptive mode with an
            effort, or one of several levels.
        thinking_budgets: A target with adaptive modes or levels accepts budgets, too.
        adaptive_budgets: A target with budgets accepts reasoning without one, too.
        bounded_budgets: A budget has bounds, and is less than the tokens of the answer.
        min_budget: The smallest budget, where budgets are bounded.
        max_budget: The largest budget, where budgets are bounded; None = any.
        signed_budgets: With a budget, an answer that is continued must begin with signed
            reasoning.
        shows_reasoning: A field for the detail of reasoning in the answer.
        reasoning_off: Reasoning can be switched off.
        efforts: Legal efforts, from the lowest; without `none`, an effort cannot switch
            reasoning off.
        off_efforts: Legal efforts while reasoning is switched off; None = all.
        efforts_with_tools: Efforts in a request with functions or custom tools; None = all.
        efforts_with_search: Efforts in a request with a web search; None = all.
        tools_dialect: Dialect in which the server accepts tools with other efforts, too.
        reasons_by_default: The model reasons unless the request says otherwise.
        reasoning_needs: Conditions for the model to reason: `stream`, a streamed answer; `text`,
            an output that is text.
        reasoning_words: Fields of the body from which the server reads reasoning options; None =
            all fields of the dialect.
        reasoning_fields: Fields that ask for reasoning in place of an effort, by its mode;
            `{budget}` stands for the budget of tokens.
        reasoning_excludes: Fields of `Request` that are refused while the model reasons.
        reasoning_accepts: Values of these fields that are accepted nevertheless.
        reasoning_issuer: Vendor whose signatures are sent back; None = none are.
        signature_pattern: Regular expression that signatures of reasoning match as a whole;
            reasoning with another one, or without, is refused; None = any, and none is needed.
        signed: Tags of the blocks besides reasoning that have a field for a signature.
        reasoning_text: Reasoning is sent back as text, without a signature.
        reasoning_form: Form of reasoning that is sent back: a field of its own, signed details,
            LiteLLM's `thinking_blocks`, a part of the content, `<think>` tags before the text, or
            `extra_content` of calls.
        reasoning_answered: Reasoning must be followed by other content of its message.
        reasoning_id_pattern: Regular expression that ids of reasoning match as a whole; other
            ids are left out; None = any, of messages and calls, too.
        stored_reasoning: Reasoning without a signature is sent back by its id, which is known
            only if responses are stored.
        reasoning_signed: Details of reasoning without a signature of the issuer are refused.
        reasoning_required: Every assistant message must have reasoning, if only empty; `calls`:
            every one with tool calls.
        signature_placeholder: Signature for calls and images of other vendors; None = no signature.
        marks: Parts of a request that a cache mark can follow: `system`, `tool`, the tags
            of blocks, and `assistant` if blocks of the assistant are among them.
        marks_in_results: Cache marks within the content of tool results.
        mark_ttls: The target's lifetimes, by the lifetime of the source; "" = the default.
        request_ttls: The same for the mark of the whole request.
        falling_ttls: Lifetimes of marks must not grow along the request.
        max_marks: Bound on the number of cache marks.
        counts_written_marks: Marks are counted in the written body, since some of its marks are
            in fields that have no unified field.
        counts_request_mark: The mark of the whole request counts, too, on the last block.
        service_tiers: The target's tiers, by OpenAI's.
        max_user_chars: Longest name of an end user; None = any.
        personal_users: Regular expression that matches a part of refused names of end users;
            None = none are refused.
        max_cache_key_chars: Longest name of a cache; None = any.
        label_bounds: Bounds on the number of labels in `metadata`, the characters of a name, and
            the characters of a label; None = none.
        available: The server answers requests of this dialect.
        path: Path of the endpoint, with `{model}` for the model; None = the dialect's.
        stream_path: Path of the endpoint that streams; None = the same.
        counted_in: Dialect of the server's token counter, if this dialect's counter is missing
            there; None = the server has no other counter.
        url_fields: Fields of the body that are written in the URL instead.
        allowed_fields: Fields of the body that the server knows; None = all.
        message_fields: Fields of messages that the server knows; None = all.
        known_fields: Legal fields of the objects at a path, or of the elements of an array
            there; others are removed.
        denied_fields: Paths of refused fields, such as `tools.strict`.
        needed_fields: Fields of the body that are refused without another field, by name with
            that field.
        nonempty_fields: Paths of fields that are refused if they are empty.
        null_content: Messages of the dialect's own clients may have null as their content.
        renamed_fields: The server's names of fields, by path; `reasoning.effort` is a field of
            an object beside the renamed field.
        replaced_values: Fields in place of a value of a field, by path and value; `*` = any
            other value.
        alternative_fields: Fields of the body of which only one may be set; the first wins.
        hashed_texts: Least and most characters of texts, by path; a text of another length is
            written as its SHA-256.
        added_fields: Fields that every body needs.
        prefill_fields: Fields that a body needs if the last message is the assistant's;
            `messages.prefix` is a field of that message.
        added_headers: Headers that every request needs.
        beta_header: Header with a comma-separated list of betas; None = there is none.
        beta_field: Field of the body with the list of betas instead.
        beta_fields: Paths of fields that a beta enables, by a pattern of the beta's name.
        allowed_betas: Betas that the server knows; None = all.
    """

    dialect: str
    only_refusals: bool = False
    fields: frozenset[str]
    messages_field: str = "messages"
    roles: frozenset[str] = frozenset({"user", "assistant"})
    system: Literal["blocks", "text", "message"] = "blocks"
    inline_system: Literal["message", "after_user", "text"] = "text"
    single_system: bool = False
    strict_alternation: bool = False
    user_message: bool = False
    empty_assistants: bool = True
    names: bool = False
    complete_answers: bool = False
    new_item_ids: bool = True
    exact_choices: bool = False
    vendor_checks: bool = False
    prefill: bool = True
    prefill_with_schema: bool = True
    assistant_last: bool = True
    images: frozenset[str] | None = None
    image_urls: Literal["https"] | bool = True
    image_details: frozenset[str] = frozenset()
    documents: bool = True
    document_types: frozenset[str] | None = None
    document_urls: Literal["pdf"] | bool = True
    text_documents: bool = False
    audio: bool = False
    video: bool = False
    assistant_media: bool = False
    system_media: bool = False
    audio_data_urls: bool = False
    file_issuer: str | None = None
    checks_files: bool = False
    refusal: bool = False
    citations: frozenset[str] = frozenset()
    citation_fields: dict[str, frozenset[str]] = {}
    opaque_kinds: frozenset[str] | None = None
    ordered_blocks: bool = True
    mixed_results: bool = False
    split_results: bool = False
    result_media: frozenset[str] = frozenset()
    result_media_types: frozenset[str] | None = None
    orphan_results: bool = True
    results_then_assistant: bool = False
    adjacent_calls: bool = False
    calls_after_user: bool = False
    results_required: bool = False
    error_results: bool = False
    json_arguments: bool = False
    call_ids: bool = True
    id_pattern: str | None = None
    max_id_chars: int | None = None
    issued_id_pattern: str | None = None
    unique_ids: bool = False
    name_pattern: str | None = None
    property_pattern: str | None = None
    custom_tools: bool = False
    namespaces: bool = False
    deferred_tools: bool = False
    strict_tools: bool = True
    server_tools: dict[str, frozenset[str]] = {}
    mcp_servers: frozenset[str] | None = None
    server_history: bool = False
    choices_of_tool: frozenset[str] = frozenset({"auto", "required", "none", "named"})
    checks_choices: bool = False
    restricted_choice: bool = False
    chooses_server_tools: bool = True
    weak_choice: Literal["auto", "required"] = "auto"
    reasoning_choices: frozenset[str] | None = None
    budget_choices: frozenset[str] | None = None
    lone_choice: bool = True
    mixed_tools: bool = True
    reports_server_calls: bool = False
    max_tools: int | None = None
    schema: Literal["any", "simple"] = "any"
    schema_needs: frozenset[SchemaNeed] = frozenset()
    schema_root_refused: frozenset[str] = frozenset()
    output_schema_needs: frozenset[SchemaNeed] = frozenset()
    enforced_schemas: EnforcedSchemas | None = None
    enforces_outputs: bool = False
    output_kinds: frozenset[str] = frozenset({"text", "json_object", "json_schema"})
    output_with_tools: bool = True
    json_word: bool = False
    output_name_pattern: str | None = None
    max_tokens: int | None = None
    min_answer_tokens: int | None = None
    exclusive_fields: tuple[str, ...] = ()
    number_bounds: dict[str, tuple[float, float]] = {}
    dependent_fields: dict[str, str] = {}
    fixed_values: dict[str, float] = {}
    fixed_values_off: dict[str, float] | None = None
    min_temperature: float = 0.0
    max_temperature: float = 2.0
    max_stops: int | None = None
    blank_stops: bool = True
    thinking: Literal["effort", "budget", "adaptive", "level"] = "effort"
    thinking_budgets: bool = True
    adaptive_budgets: bool = True
    bounded_budgets: bool = False
    min_budget: int = 1024
    max_budget: int | None = None
    signed_budgets: bool = False
    shows_reasoning: bool = True
    reasoning_off: bool = True
    efforts: tuple[str, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
    off_efforts: tuple[str, ...] | None = None
    efforts_with_tools: tuple[str, ...] | None = None
    efforts_with_search: tuple[str, ...] | None = None
    tools_dialect: str | None = None
    reasons_by_default: bool = False
    reasoning_needs: frozenset[str] = frozenset()
    reasoning_words: frozenset[str] | None = None
    reasoning_fields: dict[str, dict[str, Any]] = {}
    reasoning_excludes: frozenset[str] = frozenset()
    reasoning_accepts: dict[str, int | float] = {}
    reasoning_issuer: str | None = None
    signature_pattern: str | None = None
    signed: frozenset[str] = frozenset()
    reasoning_text: bool = False
    reasoning_form: Literal["field", "details", "blocks", "part", "tags", "extra_content"] = "field"
    reasoning_answered: bool = False
    reasoning_id_pattern: str | None = None
    stored_reasoning: bool = False
    reasoning_signed: bool = False
    reasoning_required: Literal["calls"] | bool = False
    signature_placeholder: str | None = None
    marks: frozenset[str] = frozenset()
    marks_in_results: bool = True
    mark_ttls: dict[str, str] = {}
    request_ttls: dict[str, str] = {}
    falling_ttls: bool = False
    max_marks: int = 4
    counts_written_marks: bool = False
    counts_request_mark: bool = False
    service_tiers: dict[str, str] = {}
    max_user_chars: int | None = None
    personal_users: str | None = None
    max_cache_key_chars: int | None = None
    label_bounds: tuple[int, int, int] | None = None
    available: bool = True
    path: str | None = None
    stream_path: str | None = None
    counted_in: str | None = None
    url_fields: frozenset[str] = frozenset()
    allowed_fields: frozenset[str] | None = None
    message_fields: frozenset[str] | None = None
    known_fields: dict[str, frozenset[str]] = {}
    denied_fields: frozenset[str] = frozenset()
    needed_fields: dict[str, str] = {}
    nonempty_fields: frozenset[str] = frozenset()
    null_content: bool = True
    renamed_fields: dict[str, str] = {}
    replaced_values: dict[str, dict[str, dict[str, Any]]] = {}
    alternative_fields: tuple[str, ...] = ()
    hashed_texts: dict[str, tuple[int, int]] = {}
    added_fields: dict[str, Any] = {}
    prefill_fields: dict[str, Any] = {}
    added_headers: dict[str, str] = {}
    beta_header: str | None = None
    beta_field: str | None = None
    beta_fields: dict[str, frozenset[str]] = {}
    allowed_betas: frozenset[str] | None = None

    @property
    def returns_reasoning(self) -> bool:
        """Whether the model can reason, and the server reads the reasoning that it signed."""
        return "reasoning" in self.fields and self.reasoning_issuer is not None

    def has_field(self, name: str) -> bool:
        """Return whether the server accepts a field of the body."""
        allowed = self.allowed_fields
        return name not in self.denied_fields and (allowed is None or name in allowed)

    def for_same_dialect(self, fields: frozenset[str], *, same_models: bool) -> BodyCapabilities:
        """Return the capabilities for requests that were decoded from the target's own dialect.

        All features of the dialect are enabled: other servers may accept what the vendor
        refuses, unless their profiles say otherwise.

        Args:
            fields: All fields of `Request`.
            same_models: Whether the server runs the vendor's models, with their refusals.
        """
        if same_models:
            return structs.replace(self, only_refusals=True)
        known = BodyCapabilities(
            dialect=self.dialect,
            only_refusals=True,
            fields=fields,
            **{name: getattr(self, name) for name in _OF_THE_DIALECT},
        )
        return structs.replace(
            known,
            roles=self.roles | {"developer"},
            names=True,
            prefill=True,
            images=None,
            documents=True,
            document_urls=True,
            text_documents=True,
            audio=True,
            video=True,
            assistant_media=True,
            system_media=True,
            ordered_blocks=True,
            mixed_results=True,
            result_media=frozenset(_PARTS.split()),
            id_pattern=None,
            max_id_chars=None,
            unique_ids=False,
            name_pattern=None,
            property_pattern=None,
            restricted_choice=True,
            schema_needs=frozenset(),
            schema_root_refused=frozenset(),
            output_schema_needs=frozenset(),
            enforced_schemas=None,
            output_name_pattern=None,
            json_word=False,
            number_bounds={},
            dependent_fields={},
            min_answer_tokens=None,
            max_cache_key_chars=None,
            label_bounds=None,
            max_stops=None,
            min_temperature=-float("inf"),
            max_temperature=float("inf"),
            shows_reasoning=True,
            reasoning_text=True,
            marks=frozenset(["system", "tool", "assistant", *_PARTS.split(), *_CALLS.split()]),
            mark_ttls={},
            falling_ttls=False,
            max_marks=maxsize,
        )
