"""Fields that an API requires or excludes although the SDK's type does not say so."""

from __future__ import annotations

from typing import Any

__all__ = ["EXCLUSIVE", "FIELD_VALUES", "NEEDS", "SAYS_MORE"]

_FILE_PARAMS = ("ResponseInputFileParam", "ResponseInputFileContentParam", "ResponseInputFile")
_IMAGE_PARAMS = ("ResponseInputImageParam", "ResponseInputImageContentParam", "ResponseInputImage")

_CONTENT_PARAMS = (
    *("ImageContentParam", "AudioContentParam", "DocumentContentParam", "VideoContentParam"),
)

NEEDS: dict[str, tuple[str, ...]] = {
    # OpenAI
    **dict.fromkeys(_FILE_PARAMS, ("file_data", "filename")),
    **dict.fromkeys(_IMAGE_PARAMS, ("image_url",)),
    "FileFile": ("file_data", "filename"),
    "JSONSchema": ("schema",),
    **dict.fromkeys(
        (
            "ResponseFunctionToolCall",
            "ResponseCustomToolCall",
            "ResponseFunctionToolCallOutputItem",
            "ResponseCustomToolCallOutputItem",
        ),
        ("id", "status"),
    ),
    "FunctionCallOutput": ("call_id",),
    "McpCall": ("status",),
    "ResponseOutputText": ("logprobs",),
    "AnnotationURLCitation": ("title",),
    # Google
    "Blob": ("data", "mimeType"),
    "Citation": ("startIndex", "endIndex", "uri"),
    "CodeExecutionResult": ("outcome", "output"),
    "ExecutableCode": ("code", "language"),
    "FileData": ("fileUri", "mimeType"),
    "FunctionCall": ("name", "args"),
    "FunctionDeclaration": ("name",),
    "FunctionResponse": ("name", "response"),
    "GenerateContentResponseUsageMetadata": (
        "promptTokenCount",
        "candidatesTokenCount",
        "totalTokenCount",
    ),
    "ModalityTokenCount": ("modality", "tokenCount"),
    "PartialArg": ("jsonPath",),
    "SafetyRating": ("category", "probability"),
    "FunctionResponseBlob": ("data", "mimeType"),
    "FunctionResponseFileData": ("fileUri", "mimeType"),
    "McpServer": ("name", "streamableHttpTransport"),
    "SafetySetting": ("category", "threshold"),
    "Schema": ("type",),
    "SpeakerVoiceConfig": ("speaker", "voiceConfig"),
    "StreamableHttpTransport": ("url",),
    "ToolCall": ("id", "toolType"),
    **dict.fromkeys(_CONTENT_PARAMS, ("data", "mime_type")),
    "FunctionParam": ("name",),
    "ToolResponse": ("id", "toolType"),
}
"""Fields that are required, by the name of the type."""

EXCLUSIVE: dict[str, frozenset[str]] = {
    **dict.fromkeys(_FILE_PARAMS, frozenset({"file_data", "file_id", "file_url"})),
    **dict.fromkeys(_IMAGE_PARAMS, frozenset({"image_url", "file_id"})),
    "FileFile": frozenset({"file_data", "file_id"}),
    "FunctionCall": frozenset({"args", "partialArgs"}),
    **dict.fromkeys(_CONTENT_PARAMS, frozenset({"data", "uri"})),
    "Mcp": frozenset({"server_url", "connector_id", "tunnel_id"}),
    "ToolMcp": frozenset({"server_url", "connector_id", "tunnel_id"}),
}
"""Fields of which an object has one, by the name of the type."""

SAYS_MORE = frozenset({"web_search_options"})
"""Objects that say something although they are empty."""

FIELD_VALUES: dict[tuple[str, str], Any] = {
    ("ChatCompletionAllowedToolsParam", "tools"): [
        {"type": "function", "function": {"name": "name_A"}}
    ],
    ("ToolChoiceAllowedParam", "tools"): [{"type": "function", "name": "name_A"}],
    ("ToolChoiceAllowed", "tools"): [{"type": "function", "name": "name_A"}],
    ("ResponseFunctionCallArgumentsDeltaEvent", "delta"): '{"city":"Oslo"}',
    ("ResponseMcpCallArgumentsDeltaEvent", "delta"): '{"city":"Oslo"}',
}
"""Values of fields whose type allows others, by the name of the type and the field."""
