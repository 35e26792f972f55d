"""The capabilities of a request: what a dialect, a model and a server have a field for."""

from __future__ import annotations

from sys import maxsize
from typing import Any, Literal

from msgspec import Struct, structs

from streamnorm._core.schemas.strict import EnforcedSchemas, SchemaNeed

# What a dialect has a form for, whatever a server refuses.
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
    """Features of a unified request that one target can carry.

    A room states those of its dialect, without a bound that only some models have; a profile
    narrows them to a model, a server and a version.

    Attributes:
        dialect: Name of the dialect.
        only_refusals: The request is in the dialect already, and only what the server refuses
            is changed.
        fields: Fields of `Request` with a field in the body.
        messages_field: Field of the body that holds the messages.
        roles: Roles of messages.
        system: Where instructions stand: in a field of blocks, in a field of one text, or in
            the first message.
        inline_system: How a system message after the first other one is written: as such;
            after the user messages that follow it; or as text of a user message.
        single_system: At most one system message, the first.
        strict_alternation: Consecutive messages of one role are refused, and a first message
            that is not the user's.
        user_message: There must be a message of the user that is no result of a tool.
        empty_assistants: Messages of the assistant may have nothing in them.
        names: Names of participants.
        complete_answers: Messages of the assistant that have parts have an id and a status,
            and their texts have annotations.
        new_item_ids: Items may have ids that the server did not issue.
        exact_choices: A choice of a server tool names it by the type that `tools` has.
        vendor_checks: The checks of the dialect's vendor hold for requests of its own clients,
            too.
        prefill: A last message of the assistant, which the answer continues.
        assistant_last: A last message of the assistant is accepted, continued or not.
        images: Media types of inline images; None = any.
        image_urls: Images by URL.
        image_details: Resolutions of images; empty = no field for them.
        documents: Documents that are no plain text, inline.
        document_urls: Documents by URL.
        text_documents: Documents of plain text.
        audio: Sound.
        video: Videos.
        assistant_media: Images in messages of the assistant.
        audio_data_urls: Sound is a `data:` URL, not base64 alone.
        file_issuer: Vendor whose file ids are known here; None = file ids have no field.
        checks_files: Inline files of the dialect's own clients must be Base64, too; those of
            others always must.
        refusal: Refusals that are not text.
        citations: Kinds of citations of assistant text.
        opaque_kinds: Kinds of blocks that only the dialect has and the target knows; None = all.
        ordered_blocks: Text after a tool call of one message keeps its place.
        mixed_results: Results and other content share one user message.
        split_results: The results of one message's calls may stand in several messages, in
            any order.
        result_media: Types of media in tool results, by the tag of their block; others
            follow in a user message of their own.
        result_media_types: Media types in tool results; None = any.
        orphan_results: Results of calls that no message before them has are accepted.
        results_then_assistant: Only a message of the assistant can follow tool results.
        adjacent_calls: The calls of one message have nothing between them.
        calls_after_user: Calls stand in the first message of an answer, after one of the user.
        results_required: Requests of the dialect's own clients, too, have a result for each
            call where the target wants it.
        error_results: Tool results that are errors have a field that says so.
        json_arguments: Arguments of calls must be JSON, where the dialect has text.
        call_ids: Calls and results have ids; without, a result belongs to the call in its place.
        id_pattern: Regular expression that ids of tool calls match as a whole; None = any.
        max_id_chars: Longest id of a tool call; None = any.
        unique_ids: No two calls of a conversation have the same id.
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
        checks_choices: A choice of the dialect's own clients, too, must name tools that the
            request has; that of others always must.
        restricted_choice: `auto` and `required` among some of the tools.
        chooses_server_tools: A choice bars server tools, too; else all that are offered may be
            called.
        weak_choice: Mode that stands for `required` and `named` where those are refused; a
            named tool is then the only one that is offered, if the mode is `required`.
        reasoning_choices: Modes of `ToolChoice` while the model reasons; None = the same.
        budget_choices: Modes of `ToolChoice` beside a budget; None = the same.
        lone_choice: A choice of tools may stand without tools.
        mixed_tools: Functions and server tools in one request.
        reports_server_calls: Such a request asks that the answer has the calls of server tools.
        max_tools: Number of tools; None = any.
        schema: Form of tool schemas: as they are, or simplified.
        schema_needs: What they must have beyond JSON Schema: types in the branches of `anyOf`
            and not beside it (`branch_types`); references that lead to `$defs`, with only notes
            beside them (`definitions`); `items` that are an object (`item_schemas`); `items` of
            every array; an `object` at the root; the order of `propertyOrdering`
            (`ordered_properties`); `properties` of the root; `properties` that are an object
            (`property_maps`).
        schema_root_refused: Keywords that are refused at the root.
        output_schema_needs: The same as `schema_needs` for the schema of an output.
        enforced_schemas: What a schema may have that is enforced; None = anything.
        enforces_outputs: The schema of an output is enforced, said or not.
        output_kinds: Kinds of `OutputFormat`.
        output_with_tools: An output that is no text in a request with tools.
        output_name_pattern: Regular expression that names of output schemas match as a whole;
            others are left out; None = any.
        max_tokens: Tokens of an answer where the request does not say; None = not needed.
        min_answer_tokens: Lowest bound on the tokens of an answer; None = any.
        exclusive_fields: Fields of `Request` of which one alone can be set, the first.
        number_bounds: Lowest and highest values of fields of `Request`.
        dependent_fields: Fields of `Request` that are refused without another one, and that.
        fixed_values: Fields of `Request` with one value alone, and that.
        fixed_values_off: The same where the model does not reason; None = no other.
        min_temperature: Lowest temperature.
        max_temperature: Highest temperature.
        max_stops: Number of stop texts; None = any.
        blank_stops: Stop texts may be white space alone.
        thinking: Words that reasoning is asked for in: an effort, a budget, an adaptive mode
            with an effort, or one of several levels.
        thinking_budgets: A target with adaptive modes or levels takes budgets, too.
        adaptive_budgets: A target with budgets takes reasoning without one, too.
        bounded_budgets: A budget has bounds, and is less than the tokens of the answer.
        min_budget: The smallest budget, where budgets are bounded.
        max_budget: The largest budget, where budgets are bounded; None = any.
        signed_budgets: With a budget, an answer that goes on begins with signed reasoning.
        shows_reasoning: A field for what of the reasoning the answer shows.
        reasoning_off: Reasoning can be switched off.
        efforts: Efforts that exist, from the lowest; without `none`, an effort cannot switch
            reasoning off.
        off_efforts: Efforts beside reasoning that is switched off; None = all.
        efforts_with_tools: Efforts in a request with functions or custom tools; None = all.
        tools_dialect: Dialect in which the server takes tools beside other efforts, too.
        reasons_by_default: The model reasons where the request does not say.
        reasoning_needs: What a request must have for the model to reason: `stream`, an answer
            that is streamed; `text`, an output that is text.
        reasoning_words: Fields of the body in which the server reads how much to reason; None =
            all that the dialect has.
        reasoning_fields: Fields that ask for reasoning in place of an effort, by its mode;
            `{budget}` stands for the tokens to reason with.
        reasoning_excludes: Fields of `Request` that are refused while the model reasons.
        reasoning_accepts: Values of these fields that are not.
        reasoning_issuer: Vendor whose signatures go back; None = none do.
        signature_pattern: Regular expression that signatures of reasoning match as a whole;
            reasoning with another one, or without, is refused; None = any, and none is needed.
        signed: Tags of the blocks beside reasoning that have a field for a signature.
        reasoning_text: Reasoning goes back as text, without a signature.
        reasoning_form: How it goes back: in a field of its own, in signed details, as a part
            of the content, in `<think>` tags before the text, or as `extra_content` of calls.
        reasoning_answered: Reasoning is followed by other content of its message.
        reasoning_id_pattern: Regular expression that ids of reasoning match as a whole; others
            are left out; None = any.
        stored_reasoning: Reasoning without a signature goes back by its id, which is known
            where answers are stored.
        reasoning_signed: Details of reasoning without a signature of the issuer are refused.
        reasoning_required: Every assistant message has reasoning, be it empty; `calls`: every
            one with tool calls.
        signature_placeholder: What a call of another vendor is signed with; None = nothing.
        marks: Parts of a request that a cache mark can follow: `system`, `tool`, the tags
            of blocks, and `assistant` if blocks of the assistant are among them.
        marks_in_results: The content of tool results has places for marks.
        mark_ttls: The target's lifetimes, by the lifetime of the source; "" = the default.
        request_ttls: The same for the mark of the whole request.
        falling_ttls: A mark's lifetime is not longer than that of a mark before it.
        max_marks: Number of cache marks.
        counts_written_marks: They are counted in the written body, which has marks in fields that
            are not read.
        counts_request_mark: The mark of the whole request is one of them, on the last block.
        service_tiers: The target's word, by OpenAI's.
        max_user_chars: Longest name of an end user; None = any.
        personal_users: Regular expression that is found in names of end users which are
            refused; None = none are.
        max_cache_key_chars: Longest name of a cache; None = any.
        label_bounds: Number of labels in `metadata`, and characters of the longest name and of
            the longest label; None = any.
        available: Requests of this dialect are answered.
        path: Path of the endpoint, with `{model}` for the model; None = the dialect's.
        stream_path: Path of the endpoint that streams; None = the same.
        counted_in: Dialect of the server's counter of tokens, where this one has none; None =
            the server has no counter either.
        url_fields: Fields of the body that stand in the URL instead.
        allowed_fields: Fields of the body that the server knows; None = all.
        message_fields: Fields of messages that it knows; None = all.
        known_fields: Fields that objects at a path, or the elements of an array there, may
            have; others are removed.
        denied_fields: Paths of fields that it refuses, such as `tools.strict`.
        needed_fields: Fields of the body that it refuses without another one, and that.
        nonempty_fields: Paths of fields that it refuses where they are empty.
        null_content: Messages of the dialect's own clients may have null for their content.
        renamed_fields: Its names of fields, by path; `reasoning.effort` is a field of an
            object beside it.
        replaced_values: Fields that stand for a value of a field, by path and value; `*` =
            any other.
        alternative_fields: Fields of the body of which one alone can be set, the first.
        hashed_texts: Least and most characters of texts, by path; one of another length is
            written as its SHA-256.
        added_fields: Fields that it needs in every body.
        prefill_fields: Fields that it needs where the last message is the assistant's;
            `messages.prefix` is a field of that message.
        added_headers: Headers that belong to every body.
        beta_header: Header that lists betas, with commas; None = there is none.
        beta_field: Field of the body that lists betas instead.
        beta_fields: Paths of fields that a beta enables, by a pattern of its name.
        allowed_betas: Betas that it knows; None = all.
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
    assistant_last: bool = True
    images: frozenset[str] | None = None
    image_urls: bool = True
    image_details: frozenset[str] = frozenset()
    documents: bool = True
    document_urls: bool = True
    text_documents: bool = False
    audio: bool = False
    video: bool = False
    assistant_media: bool = False
    audio_data_urls: bool = False
    file_issuer: str | None = None
    checks_files: bool = False
    refusal: bool = False
    citations: frozenset[str] = frozenset()
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
    unique_ids: bool = False
    name_pattern: str | None = None
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
    reasoning_form: Literal["field", "details", "part", "tags", "extra_content"] = "field"
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

    def for_same_dialect(self, fields: frozenset[str], *, same_models: bool) -> BodyCapabilities:
        """Return the capabilities for requests that are in the dialect already.

        They have every feature of the dialect: what its vendor refuses is accepted by other
        servers, unless their profiles say otherwise.

        Args:
            fields: All fields of `Request`.
            same_models: Whether the server runs the vendor's models, and refuses what it does.
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
            ordered_blocks=True,
            mixed_results=True,
            result_media=frozenset(_PARTS.split()),
            id_pattern=None,
            max_id_chars=None,
            unique_ids=False,
            name_pattern=None,
            restricted_choice=True,
            schema_needs=frozenset(),
            schema_root_refused=frozenset(),
            output_schema_needs=frozenset(),
            enforced_schemas=None,
            output_name_pattern=None,
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
