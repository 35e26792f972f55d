"""Checks of a request's fields and messages against Gemini's rules.

https://ai.google.dev/api/generate-content and the types of the official SDK (read 2026-11-22).
A part has two addresses: its path as the client wrote it, and its location as the vendor's
messages spell it, in `snake_case`.

https://ai.google.dev/api/caching#Content (read 2026-11-23), and the errors that the API answers
with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from streamnorm._core.codec import Finding, RequestFacts
from streamnorm._core.json import is_array, is_object, string_of

MODEL = "model"
"""The role of the model."""

_UPPER = re.compile("[A-Z]")
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""Data fields, of which a part has one."""
_REQUEST = "GenerateContentRequest"
_VERTEX_ALONE: Mapping[str, frozenset[str]] = {
    _REQUEST: frozenset({"modelArmorConfig", "generationOutputConfig"}),
    "FunctionCall": frozenset({"partialArgs", "willContinue"}),
    "FunctionCallingConfig": frozenset({"streamFunctionCallArguments"}),
    "GoogleSearch": frozenset({"blockingConfidence", "excludeDomains"}),
    "SafetySetting": frozenset({"method"}),
    "Tool": frozenset({"retrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"}),
    "GenerationConfig": frozenset({"audioTimestamp", "routingConfig", "modelSelectionConfig"}),
}
_GEMINI_ALONE: Mapping[str, frozenset[str]] = {
    _REQUEST: frozenset({"store"}),
    "Part": frozenset({"toolCall", "toolResponse", "partMetadata"}),
    "FunctionResponse": frozenset({"willContinue"}),
    "FunctionResponsePart": frozenset({"mediaProcessing"}),
    "Tool": frozenset({"fileSearch", "mcpServers"}),
    "ToolConfig": frozenset({"includeServerSideToolInvocations"}),
    "GenerationConfig": frozenset({"enableEnhancedCivicAnswers"}),
}
# The vendor reads both alphabets and skips white space.
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_SPACE = re.compile(r"[ \t\r\n]+")
_MODES = frozenset({"MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"})
_LEVELS = frozenset({"THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"})

# Results had the role `function` in former revisions; several SDKs still send it.
_ROLES = frozenset({"user", MODEL, "function", "tool"})
_CALL, _RESPONSE = "functionCall", "functionResponse"
_SIGNATURE = "thoughtSignature"
# Fields that a part may have without data; a stream ends in a part with a signature alone.
_RARE_DATA = (_SIGNATURE, "audioTranscription", "mediaProcessing", "partMetadata")
# Google documents two placeholders; Vertex AI knows the other one alone.
_GEMINI_PLACEHOLDER = "context_engineering_is_the_way_to_go"


class Field(NamedTuple):
    """A field of a request.

    Attributes:
        path: Path as the client wrote it.
        location: Path in the vendor's spelling, for messages.
        value: Value of the field; None if it is missing.
    """

    path: str
    location: str
    value: Any


class Part(NamedTuple):
    """A part of a content.

    Attributes:
        path: Path as the client wrote it.
        location: Path in the vendor's spelling, for messages.
        value: The JSON object.
        data: Data fields of the part, by `lowerCamelCase` name.
    """

    path: str
    location: str
    value: dict[str, Any]
    data: dict[str, Field]


class Content(NamedTuple):
    """A content of the conversation.

    Attributes:
        number: Position in `contents`.
        path: Path of the content.
        role: Role; `user` if it is missing.
        parts: Parts of the content.
        value: The JSON object.
    """

    number: int
    path: str
    role: str
    parts: tuple[Part, ...]
    value: dict[str, Any]

    def with_data(self, name: str) -> list[Part]:
        """Return the parts that have the data field `name`."""
        return [part for part in self.parts if name in part.data]


def snake_case(name: str) -> str:
    """Return a field name in protocol buffer spelling."""
    return _UPPER.sub(lambda upper: f"_{upper[0].lower()}", name)


def field_of(holder: dict[str, Any], name: str, path: str = "", location: str = "") -> Field:
    """Return a field of an object, in camel case or snake case.

    Args:
        holder: The object.
        name: Name of the field in `lowerCamelCase`.
        path: Path of the object; "" for the body.
        location: Location of the object.
    """
    spelt = snake_case(name)
    found = spelt if holder.get(name) is None and spelt in holder else name
    return Field(_join_path(path, found), _join_path(location, spelt), holder.get(found))


def _join_path(holder: str, name: str) -> str:
    return f"{holder}.{name}" if holder else name


def option_of(body: dict[str, Any], *names: str) -> Field:
    """Return the field at the end of a chain of names; its value is None if the chain breaks."""
    field = Field("", "", body)
    for name in names:
        holder: dict[str, Any] = field.value if is_object(field.value) else {}
        field = field_of(holder, name, field.path, field.location)
    return field


def elements_of(field: Field) -> Iterator[Field]:
    """Yield the elements of a repeated field, which may be a single object."""
    if is_object(field.value):
        yield field
    for number, value in enumerate(field.value if is_array(field.value) else ()):
        yield Field(f"{field.path}[{number}]", f"{field.location}[{number}]", value)


def contents_of(body: dict[str, Any]) -> list[Content]:
    """Return the contents of a request that are objects."""
    found: list[Content] = []
    for number, element in enumerate(elements_of(field_of(body, "contents"))):
        if is_object(element.value):
            role = element.value.get("role")
            parts = _walk_parts(field_of(element.value, "parts", element.path, element.location))
            role = role if isinstance(role, str) and role else "user"
            found.append(Content(number, element.path, role, tuple(parts), element.value))
    return found


def turns_of(body: dict[str, Any]) -> list[Content]:
    """Return the contents of a request; adjacent contents of the model are joined to one.

    Google accepts an answer in several contents: a chat of google-genai sends each chunk of a
    stream as one (recorded by its own tests, "AFC Streaming", and googleapis/python-genai#2508).
    """
    found: list[Content] = []
    for content in contents_of(body):
        last = found[-1] if found else None
        if last is not None and last.role == content.role == MODEL:
            found[-1] = last._replace(parts=last.parts + content.parts)
        else:
            found.append(content)
    return found


def _walk_parts(field: Field) -> Iterator[Part]:
    for element in elements_of(field):
        value = element.value
        if is_object(value):
            data = {
                name: found
                for name in _DATA
                if (found := field_of(value, name, element.path, element.location)).value
                is not None
            }
            yield Part(element.path, element.location, value, data)


def all_parts_of(body: dict[str, Any]) -> Iterator[Part]:
    """Yield the parts of the system instruction and of all contents."""
    system = field_of(body, "systemInstruction")
    if is_object(system.value):
        yield from _walk_parts(field_of(system.value, "parts", system.path, system.location))
    for content in contents_of(body):
        yield from content.parts


def tools_of(body: dict[str, Any]) -> Iterator[Field]:
    """Yield the tools of a request that are objects."""
    for tool in elements_of(field_of(body, "tools")):
        if is_object(tool.value):
            yield tool


def declarations_of(body: dict[str, Any]) -> Iterator[Field]:
    """Yield the function declarations that are objects."""
    for tool in tools_of(body):
        declared = field_of(tool.value, "functionDeclarations", tool.path, tool.location)
        for declaration in elements_of(declared):
            if is_object(declaration.value):
                yield declaration


def _fields_of_message(fields: str) -> Mapping[str, str]:
    """Return the message type of each field in text such as "model parts:Part"; "" if none."""
    names = (field.partition(":") for field in fields.split())
    return {name: message for name, _, message in names}


_MESSAGES: Mapping[str, Mapping[str, str]] = {
    _REQUEST: _fields_of_message(
        "model contents:Content systemInstruction:Content tools:Tool toolConfig:ToolConfig "
        "safetySettings:SafetySetting generationConfig:GenerationConfig cachedContent labels "
        "serviceTier store continuationToken modelArmorConfig generationOutputConfig"
    ),
    "Content": _fields_of_message("parts:Part role"),
    "Part": _fields_of_message(
        "text thought thoughtSignature inlineData:Blob fileData:FileData "
        "functionCall:FunctionCall functionResponse:FunctionResponse "
        "executableCode:ExecutableCode codeExecutionResult:CodeExecutionResult "
        "toolCall:ToolCall toolResponse:ToolResponse partMetadata videoMetadata "
        "mediaResolution mediaProcessing audioTranscription speechMetadata documentMetadata "
        "spreadsheetMetadata audioMetadata"
    ),
    "Blob": _fields_of_message("data displayName mimeType"),
    "FileData": _fields_of_message("displayName fileUri mimeType"),
    "FunctionCall": _fields_of_message("id name args partialArgs willContinue"),
    "FunctionResponse": _fields_of_message(
        "id name response parts:FunctionResponsePart willContinue scheduling"
    ),
    "FunctionResponsePart": _fields_of_message(
        "inlineData:Blob fileData:FileData mediaProcessing mediaResolution videoMetadata "
        "documentMetadata spreadsheetMetadata audioMetadata"
    ),
    "ExecutableCode": _fields_of_message("code language id"),
    "CodeExecutionResult": _fields_of_message("outcome output id"),
    "ToolCall": _fields_of_message("id toolType args"),
    "ToolResponse": _fields_of_message("id toolType response"),
    "Tool": _fields_of_message(
        "functionDeclarations:FunctionDeclaration googleSearch:GoogleSearch "
        "googleSearchRetrieval codeExecution urlContext fileSearch googleMaps computerUse "
        "mcpServers:McpServer retrieval enterpriseWebSearch parallelAiSearch exaAiSearch"
    ),
    "FunctionDeclaration": _fields_of_message(
        "name description parameters parametersJsonSchema response responseJsonSchema behavior"
    ),
    "GoogleSearch": _fields_of_message(
        "searchTypes blockingConfidence excludeDomains timeRangeFilter"
    ),
    "McpServer": _fields_of_message("name streamableHttpTransport:StreamableHttpTransport"),
    "StreamableHttpTransport": _fields_of_message(
        "url headers timeout sseReadTimeout terminateOnClose"
    ),
    "ToolConfig": _fields_of_message(
        "functionCallingConfig:FunctionCallingConfig retrievalConfig "
        "includeServerSideToolInvocations"
    ),
    "FunctionCallingConfig": _fields_of_message(
        "mode allowedFunctionNames streamFunctionCallArguments"
    ),
    "SafetySetting": _fields_of_message("category threshold method"),
    "GenerationConfig": _fields_of_message(
        "temperature topP topK seed candidateCount maxOutputTokens stopSequences "
        "presencePenalty frequencyPenalty responseLogprobs logprobs responseMimeType "
        "responseSchema responseJsonSchema _responseJsonSchema responseFormat "
        "responseModalities thinkingConfig:ThinkingConfig speechConfig imageConfig "
        "mediaResolution audioTranscriptionConfig translationConfig enableAffectiveDialog "
        "enableEnhancedCivicAnswers audioTimestamp routingConfig modelSelectionConfig"
    ),
    "ThinkingConfig": _fields_of_message("includeThoughts thinkingBudget thinkingLevel"),
}


_KNOWN: Mapping[str, Mapping[str, str]] = {
    message: {spelt: name for name in fields for spelt in (name, snake_case(name))}
    for message, fields in _MESSAGES.items()
}
"""Field names in `lowerCamelCase` by message, and by name in either spelling."""


def unknown_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the fields of an object that its protobuf message type does not have."""
    for holder, message in _walk_messages(Field("", "", facts.body), _REQUEST):
        for name, value in holder.value.items():
            if value is not None and name not in _KNOWN[message]:
                yield _unknown(holder, name)


def fields_of_vertex(facts: RequestFacts) -> Iterator[Finding]:
    """Yield fields that only Vertex AI has."""
    yield from _find_foreign(facts, _VERTEX_ALONE)


def fields_of_gemini(facts: RequestFacts) -> Iterator[Finding]:
    """Yield fields that Vertex AI lacks."""
    yield from _find_foreign(facts, _GEMINI_ALONE)


def _find_foreign(facts: RequestFacts, names: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    for holder, message in _walk_messages(Field("", "", facts.body), _REQUEST):
        foreign = names.get(message)
        for name, value in holder.value.items() if foreign else ():
            if value is not None and _KNOWN[message].get(name) in (foreign or ()):
                yield _unknown(holder, name)


def _unknown(holder: Field, name: str) -> Finding:
    """Return the finding for an unknown field."""
    path = f"{holder.path}.{name}" if holder.path else name
    context = f" at '{holder.location}'" if holder.location else ""
    return Finding(path, name=name, context=context)


def _walk_messages(field: Field, message: str) -> Iterator[tuple[Field, str]]:
    """Yield an object and all objects within it, each with its protobuf message type."""
    yield field, message
    for name, inner in _MESSAGES[message].items():
        if inner:
            for element in elements_of(field_of(field.value, name, field.path, field.location)):
                if is_object(element.value):
                    yield from _walk_messages(element, inner)


def messages(facts: RequestFacts) -> Iterator[Finding]:
    """Yield values other than objects in fields that hold a protobuf message."""
    for holder, message in _walk_messages(Field("", "", facts.body), _REQUEST):
        for name, inner in _MESSAGES[message].items():
            found = field_of(holder.value, name, holder.path, holder.location)
            values = [found]
            if inner and is_array(found.value):
                values = list(elements_of(found))
            for value in values:
                if inner and value.value is not None and not is_object(value.value):
                    yield Finding(value.path, value.value, name=inner, context=value.location)


def call_ids(facts: RequestFacts) -> Iterator[Finding]:
    """Yield ids of calls and responses; this check is for servers without these id fields."""
    for content in contents_of(facts.body):
        for part in content.parts:
            for name in ("functionCall", "functionResponse"):
                field = part.data.get(name)
                if field is not None and is_object(field.value) and "id" in field.value:
                    yield _unknown(field, "id")


def arguments(facts: RequestFacts) -> Iterator[Finding]:
    """Yield call arguments and function responses that are not JSON objects."""
    for content in contents_of(facts.body):
        for part in content.parts:
            for name, inner in (("functionCall", "args"), ("functionResponse", "response")):
                field = part.data.get(name)
                if field is not None and is_object(field.value):
                    found = field_of(field.value, inner, field.path, field.location)
                    if found.value is not None and not is_object(found.value):
                        yield Finding(found.path, found.value, context=found.location)


def encodings(facts: RequestFacts) -> Iterator[Finding]:
    """Yield signatures and inline files that are not Base64."""
    for content in contents_of(facts.body):
        for part in content.parts:
            yield from _find_undecodable(
                field_of(part.value, "thoughtSignature", part.path, part.location)
            )
            file = part.data.get("inlineData")
            if file is not None and is_object(file.value):
                yield from _find_undecodable(field_of(file.value, "data", file.path, file.location))


def _find_undecodable(field: Field) -> Iterator[Finding]:
    if isinstance(field.value, str):
        text = _SPACE.sub("", field.value)
        is_whole = len(text.rstrip("=")) % 4 != 1
        if not (is_whole and _BASE64.fullmatch(text)):
            yield Finding(field.path, field.value, context=field.location)


def mode_words(facts: RequestFacts) -> Iterator[Finding]:
    """Yield an unknown function calling mode."""
    yield from _find_unknown_word(
        option_of(facts.body, "toolConfig", "functionCallingConfig", "mode"), _MODES
    )


def thinking_words(facts: RequestFacts) -> Iterator[Finding]:
    """Yield an unknown thinking level."""
    yield from _find_unknown_word(
        option_of(facts.body, "generationConfig", "thinkingConfig", "thinkingLevel"), _LEVELS
    )


def _find_unknown_word(field: Field, words: frozenset[str]) -> Iterator[Finding]:
    # The vendor reads names in any case, and the numbers that protocol buffers have for them.
    value: Any = field.value
    if isinstance(value, str) and value.upper() not in words:
        yield Finding(field.path, value, context=field.location)


def missing_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `contents` if it is missing or empty."""
    field = option_of(facts.body, "contents")
    if field.value is None or field.value == []:
        yield Finding(field.path)


def roles(facts: RequestFacts) -> Iterator[Finding]:
    """Yield unknown roles of contents."""
    for content in contents_of(facts.body):
        if content.role not in _ROLES:
            yield Finding(f"{content.path}.role", content.role)


def empty_contents(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents without parts."""
    for content in contents_of(facts.body):
        parts = field_of(content.value, "parts", content.path, f"contents[{content.number}]")
        if parts.value is None or parts.value == []:
            yield Finding(parts.path, context=parts.location)


def empty_parts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield parts with neither data nor a signature, also in the system instruction."""
    for part in all_parts_of(facts.body):
        others = (field_of(part.value, name).value for name in _RARE_DATA)
        if not part.data and all(value is None for value in others):
            yield Finding(part.path, context=part.location)


def part_data(facts: RequestFacts) -> Iterator[Finding]:
    """Yield every data field of a part after the first: a part may have only one data field."""
    for content in contents_of(facts.body):
        for part in content.parts:
            fields = list(part.data.items())
            for name, field in fields[1:]:
                yield Finding(field.path, name=name, context=part.location)


def _is_cached(facts: RequestFacts) -> bool:
    """Return whether the request continues cached content."""
    return option_of(facts.body, "cachedContent").value is not None


def call_turns(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a turn with calls that opens the conversation."""
    first = turns_of(facts.body)[:1]
    for turn in () if _is_cached(facts) else first:
        if turn.role == MODEL and turn.with_data(_CALL):
            yield Finding(turn.path)


def response_turns(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents with responses that do not follow calls."""
    calls = _is_cached(facts)
    for turn in turns_of(facts.body):
        if turn.role != MODEL and turn.with_data(_RESPONSE) and not calls:
            yield Finding(turn.path)
        calls = bool(turn.with_data(_CALL))


def response_counts(facts: RequestFacts) -> Iterator[Finding]:
    """Yield contents whose number of responses differs from the number of calls to answer."""
    for turn, after in pairwise(turns_of(facts.body)):
        calls = turn.with_data(_CALL)
        responses = after.with_data(_RESPONSE)
        if turn.role == MODEL and calls:
            # With `mcpServers` the vendor makes calls itself, with their responses in the same
            # turn.
            made = len(turn.with_data(_RESPONSE))
            if len(responses) != len(calls) - made:
                yield Finding(after.path, count=len(responses), limit=len(calls))


def last_turn(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the last content if it is the model's and does not end in a response."""
    contents = contents_of(facts.body)
    if contents and contents[-1].role == MODEL:
        parts = contents[-1].parts
        if not (parts and _RESPONSE in parts[-1].data):
            yield Finding(contents[-1].path)


def signatures(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the first call of each step of the current turn if it lacks a signature.

    The current turn begins with the last user content that holds more than responses.
    """
    contents = contents_of(facts.body)
    has_call = False
    for content in contents[_start_of_turn(contents) :]:
        calls = content.with_data(_CALL) if content.role == MODEL else []
        is_first = not has_call
        has_call = content.role == MODEL and (has_call or bool(calls))
        if is_first and calls and field_of(calls[0].value, _SIGNATURE).value is None:
            call = calls[0].data[_CALL].value
            name = string_of(call, "name") if is_object(call) else ""
            yield Finding(calls[0].path, name=name, count=content.number + 1)


def _start_of_turn(contents: list[Content]) -> int:
    begin = 0
    for number, content in enumerate(contents):
        if content.role != MODEL and any(_RESPONSE not in part.data for part in content.parts):
            begin = number
    return begin


def placeholders(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the signature placeholder that Vertex AI does not accept."""
    for content in contents_of(facts.body):
        for part in content.parts:
            field = field_of(part.value, _SIGNATURE, part.path)
            if field.value == _GEMINI_PLACEHOLDER:
                yield Finding(field.path, field.value)


def response_media(facts: RequestFacts) -> Iterator[Finding]:
    """Yield files within responses."""
    for content in contents_of(facts.body):
        for part in content.with_data(_RESPONSE):
            response = part.data[_RESPONSE]
            if is_object(response.value):
                parts = field_of(response.value, "parts", response.path)
                has_parts = is_array(parts.value) or is_object(parts.value)
                if has_parts and any(True for _ in elements_of(parts)):
                    yield Finding(parts.path)
