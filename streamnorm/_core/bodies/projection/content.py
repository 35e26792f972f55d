"""Projection of message blocks: text, tool calls and results, reasoning, and opaque blocks.

A block that the target has no form for is written in another form (a refusal as text, an image
of a tool result in a message after it) or dropped; each change is counted as a loss.
"""

from __future__ import annotations

from functools import cached_property, partial
from operator import is_not
from typing import NamedTuple, TypeVar

from msgspec import structs

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ResultBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.memo import EncodingMemo
from streamnorm._core.bodies.projection.citations import CitedSources, fit_citations
from streamnorm._core.bodies.projection.history import (
    drop_foreign_reasoning,
    drop_refused_id,
    holds_tags,
    is_signed_for,
    is_verified,
    media_title,
    project_media,
    restore_signatures,
)
from streamnorm._core.bodies.projection.results import CallIds, KnownId, check_last_result
from streamnorm._core.bodies.projection.tools import ToolNames
from streamnorm._core.bodies.request import (
    InputMessage,
    Source,
    drop_foreign_fields,
    is_same_dialect,
    same_parts,
    unchanged_source,
)
from streamnorm._core.bodies.tool_calls import has_inexact_number, wrap_call
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import object_in, string_of
from streamnorm._core.losses import Losses
from streamnorm._core.schemas.properties import rename_arguments

_MAX_KIND_CHARS = 40
# Blocks that offer tools in the middle of a conversation.  The request lists these tools as well,
# so nothing but the moment of the offer is lost.
_OFFERS = frozenset({"additional_tools", "tool_addition"})

B = TypeVar("B", bound=InputBlock)


class _KnownCall(NamedTuple):
    """Name and id of a projected tool call, for its results in later messages.

    Attributes:
        name: Name of the tool in the target.
        id: State of the call's id.
    """

    name: str
    id: KnownId


class _Projected(NamedTuple):
    """A projected message, and the content that was moved out of its tool results.

    Attributes:
        message: The message; None if no block is left.
        moved: Content of tool results that follows in a user message of its own.
    """

    message: InputMessage | None
    moved: tuple[InputBlock, ...]


class ContentProjector:
    """Reduce the blocks of messages to what a target accepts.

    Args:
        target: Capabilities of the target.
        names: Names of tools in the target.
        losses: Counter of dropped and changed blocks.
        fills: Whether a file that only another vendor has is dropped; else it is an error.
        same_target: Whether messages in the target's dialect stay as they are, with their ids.
        checks: Whether messages in the target's dialect are changed, too, where it refuses them.
        verifies: Whether reasoning in the target's dialect is dropped if its vendor cannot have
            signed it.
        stored: Whether the target stores responses.
        judges_answers: Whether the target's vendor may judge answers of another server in its
            dialect, which are appended to a conversation.
        memo: Cache of a growing history; None if the messages are projected once.
    """

    def __init__(
        self,
        target: BodyCapabilities,
        names: ToolNames,
        losses: Losses,
        *,
        fills: bool,
        same_target: bool,
        checks: bool = False,
        verifies: bool = False,
        stored: bool = False,
        judges_answers: bool = False,
        memo: EncodingMemo | None = None,
    ) -> None:
        self._target = target
        self._names = names
        self._losses = losses
        self._fills = fills
        self._same_target = same_target
        self._checks = checks
        self._verifies = verifies
        self._stored = stored
        self._judges_answers = judges_answers
        self._memo = memo
        self._called: dict[str, str] = {}  # names of tools in the target, by the ids of calls
        self._sources: CitedSources | None = None  # once there are citations
        self._messages: tuple[InputMessage, ...] = ()
        self._position = 0  # of the projected message

    @cached_property
    def _ids(self) -> CallIds:
        return CallIds(self._target, self._losses)

    def project(self, messages: tuple[InputMessage, ...]) -> tuple[InputMessage, ...]:
        """Return the projected messages; a message without blocks is dropped.

        Raises:
            EncodeError: Only another vendor has a file, or the request ends with a tool result
                that the target has no form for.
        """
        last = messages[-1].blocks[-1:] if messages else ()
        if last and isinstance(last[0], ServerToolResult | OpaqueBlock):
            check_last_result(messages, self._target)
        self._sources, self._messages = None, messages
        projected: list[InputMessage] = []
        # Content of tool results that the target accepts only outside of them.  It follows the
        # last of consecutive result messages, which nothing may separate.
        moved: list[InputBlock] = []
        for position, message in enumerate(messages):
            if moved and not message.tool_results:
                projected.append(InputMessage("user", tuple(moved)))
                moved = []
            if self._is_settled(message):
                self._keep_calls(message)
                projected.append(message)
                continue
            changed, behind = self._project_message(message, position)
            if changed is not None:
                projected.append(changed)
            moved += behind
        if moved:
            projected.append(InputMessage("user", tuple(moved)))
        return same_parts(messages, tuple(projected))

    def _is_settled(self, message: InputMessage) -> bool:
        """Return whether a message in the target's dialect stays as its JSON."""
        if not self._same_target or unchanged_source(message, self._target.dialect) is None:
            return False
        answered = [result.tool_call_id for result in message.tool_results]
        return all(self._ids.current(id) == id for id in answered)

    def _keep_calls(self, message: InputMessage) -> None:
        """Record the calls of a message that stays as its JSON."""
        for call in message.tool_calls:
            if call.id:  # google-genai sends none, and the results have the names
                self._called[call.id] = call.name
                self._ids.keep(call.id)

    def project_system(self, system: tuple[Text, ...], *, same_dialect: bool) -> tuple[Text, ...]:
        """Return the projected instructions of the request.

        Args:
            system: The instructions.
            same_dialect: Whether the request is in the target's dialect.
        """
        texts: list[Text] = []
        for text in system:
            if (self._verifies or not same_dialect) and _is_blank(text):
                if text.cache is not None:
                    self._losses.add("cache_mark_dropped", "system", "on an empty text")
                continue
            cited = self._project_citations(text, "system")
            if cited.extra is not None:
                cited = drop_foreign_fields(cited, self._target.dialect, self._losses, "system")
            texts.append(cited)
        if system and not (texts or same_dialect):
            self._losses.add("empty_message_dropped", "system", "dropped")
        return same_parts(system, tuple(texts))

    def _project_message(self, message: InputMessage, position: int) -> _Projected:
        """Project a message, or return its cached projection."""
        if self._memo is None:
            return self._reduce_message(message, position)
        project = partial(self._reduce_and_record, message, position)
        projected, calls = self._memo.result("projected", position, message, self._losses, project)
        for id, call in calls.items():
            self._restore_call(id, call)
        return projected

    def _reduce_and_record(
        self, message: InputMessage, position: int
    ) -> tuple[_Projected, dict[str, _KnownCall]]:
        """Project a message; return the projection, and the name and id of each call."""
        projected = self._reduce_message(message, position)
        ids = {call.id for call in message.tool_calls if call.id}
        return projected, {id: self._record_call(id) for id in ids}

    def _record_call(self, id: str) -> _KnownCall:
        return _KnownCall(self._called[id], self._ids.record(id))

    def _restore_call(self, id: str, call: _KnownCall) -> None:
        """Restore the name and the id of a call whose message was found in the cache."""
        self._called[id] = call.name
        self._ids.restore(id, call.id)

    def _reduce_message(self, message: InputMessage, position: int) -> _Projected:
        self._position = position
        same_dialect = is_same_dialect(message, self._target.dialect)
        if same_dialect and not self._same_target and holds_tags(message):
            same_dialect, message = False, structs.replace(message, source=None)
        try:
            blocks, moved = self._project_blocks(message, same_dialect=same_dialect)
        except EncodeError as exc:
            raise EncodeError(exc.args[0], path=f"messages[{position}].{exc.path}") from exc
        changed = message
        if blocks is not message.blocks:
            changed = structs.replace(message, blocks=blocks)
        if message.name is not None and not self._target.names:
            self._losses.add("name", "messages", "dropped")
            changed = structs.replace(changed, name=None)
        if message.extra is not None:
            changed = drop_foreign_fields(changed, self._target.dialect, self._losses, "messages")
        # A system message without text stays: its other fields may change settings.
        is_kept = (
            same_dialect and changed is message and (message.role == "system" or not self._checks)
        )
        if blocks or is_kept:
            return _Projected(changed, moved)
        self._losses.add("empty_message_dropped", "messages", "dropped")
        return _Projected(None, moved)

    def _project_blocks(
        self, message: InputMessage, *, same_dialect: bool
    ) -> tuple[tuple[InputBlock, ...], tuple[InputBlock, ...]]:
        """Return a message's projected blocks, and the blocks moved to the next user message."""
        before = message.blocks
        if all(map(_is_plain, before)) and not self._target.reasoning_required:
            return before, ()
        if message.role == "assistant" and not same_dialect:
            before = restore_signatures(before, self._target)
            is_foreign = isinstance(message.source, Source)
            before = tuple(
                fit_citations(block, self._target, self._losses, is_foreign=is_foreign)
                if isinstance(block, Text) and block.citations
                else block
                for block in before
            )
        # A message without JSON is an answer appended to a conversation, from any server.
        elif same_dialect and message.source.value is None:
            stored = self._stored
            before = drop_foreign_reasoning(before, self._target, self._losses, stored=stored)
        is_judged = (
            not same_dialect
            or self._checks
            or (self._judges_answers and message.source.value is None)
        )
        blocks: list[InputBlock] = []
        moved: list[InputBlock] = []
        for number, block in enumerate(before):
            if type(block) is Text and not (block.citations or block.signature):
                if (same_dialect and not self._checks) or not _is_blank(block):
                    blocks.append(
                        block if block.extra is None else self._drop_foreign_fields(block)
                    )
                elif block.cache is not None:
                    self._losses.add("cache_mark_dropped", "messages", "on an empty text")
                continue
            try:
                changed = (
                    self._project_call(block, same_dialect=same_dialect, is_judged=is_judged)
                    if isinstance(block, ToolCall)
                    else self._project_block(block, moved, message.role, same_dialect=same_dialect)
                )
            except EncodeError as exc:
                raise EncodeError(exc.args[0], path=f"blocks[{number}]") from exc
            if changed is not None:
                blocks.append(
                    changed if changed.extra is None else self._drop_foreign_fields(changed)
                )
        if message.role == "assistant":
            if self._target.adjacent_calls or not self._target.ordered_blocks:
                blocks = self._move_calls_last(blocks)
            if self._target.reasoning_answered and not (same_dialect and self._same_target):
                blocks = self._drop_last_reasoning(blocks)
            if self._target.reasoning_required and not (
                same_dialect and (self._same_target or self._target.only_refusals)
            ):
                blocks = self._add_reasoning(blocks)
        return same_parts(message.blocks, tuple(blocks)), tuple(moved)

    def _drop_foreign_fields(self, block: B) -> B:
        if block.extra is None:
            return block
        return drop_foreign_fields(block, self._target.dialect, self._losses, "messages")

    def _project_call_id(self, id: str, *, same_dialect: bool, is_judged: bool) -> str:
        """Return a call's id; a repeated id gets a number if the target requires unique ids.

        Args:
            id: The id.
            same_dialect: Whether its message is in the target's dialect.
            is_judged: Whether the message must obey the target's rules, whoever wrote it.
        """
        is_taken = id in self._called or self._ids.is_written(id)
        if is_taken and self._target.unique_ids and is_judged:
            return self._ids.add_repeated(id)
        return self._ids.keep(id) if same_dialect and self._same_target else self._ids.add(id)

    def _project_block(
        self, block: InputBlock, moved: list[InputBlock], role: str, *, same_dialect: bool
    ) -> InputBlock | None:
        target, losses = self._target, self._losses
        match block:
            case Text():
                return self._project_text(block, same_dialect=same_dialect)
            case ToolResult():
                return self._project_result(block, moved, same_dialect=same_dialect)
            case Reasoning() | RedactedReasoning():
                return (
                    self._drop_unverified_reasoning(block)
                    if same_dialect
                    else self._project_reasoning(block)
                )
            case Refusal(text) if not target.refusal:
                losses.add("refusal_as_text", "messages", "written as text")
                return Text(text) if text else None
            case Image() if role == "assistant" and not target.assistant_media:
                losses.add("image_dropped", "messages", "dropped from an assistant message")
                return None
            case Image() | Document() | Audio() | Video():
                if isinstance(block, Image) and not self._keeps_signature(
                    block, same_dialect=same_dialect
                ):
                    block = structs.replace(block, signature=None)  # the issuer has its file, too
                return project_media(
                    block, target, losses, same_dialect=same_dialect, fills=self._fills
                )
            case ServerToolCall(kind="compaction") | OpaqueBlock(kind="compaction") if (
                not same_dialect
            ):
                return self._project_compaction(block)
            case ServerToolCall() | ServerToolResult() if not (
                same_dialect and target.server_history
            ):
                losses.add("server_history_dropped", "messages", "dropped")
                return None
            case OpaqueBlock(dialect, kind) if dialect != target.dialect and kind in _OFFERS:
                losses.add("tools_moved", "messages", "offered from the start")
                return None
            case OpaqueBlock(dialect, "tool_reference") if (
                dialect != target.dialect or self._checks
            ):
                return self._project_tool_reference(block)
            case OpaqueBlock(dialect, kind) if dialect != target.dialect or (
                target.opaque_kinds is not None and kind not in target.opaque_kinds
            ):
                losses.add("opaque_block", "messages", f"{kind[:_MAX_KIND_CHARS]} dropped")
                return None
            case _:
                return block

    def _project_compaction(self, block: ServerToolCall | OpaqueBlock) -> Text | None:
        """Return the readable summary of a compaction as text; None if it has none.

        Raises:
            EncodeError: Only the provider can read the summary: the model would answer without
                any knowledge of the conversation.
        """
        data = block.arguments if isinstance(block, ServerToolCall) else block.data
        fields = object_in(data or "{}")
        summary = string_of(fields, "content")
        if summary.strip():
            self._losses.add("compaction", "messages", "written as text")
            return Text(f"<summary>\n{summary}\n</summary>")
        if string_of(fields, "encrypted_content") and not self._fills:
            raise EncodeError(
                "a compaction that only its provider reads, expected the whole conversation",
                path="",
            )
        self._losses.add("server_history_dropped", "messages", "dropped")
        return None

    def _project_text(self, block: Text, *, same_dialect: bool) -> Text | None:
        """Return a text with the citations and the signature that the target accepts."""
        keeps_results = same_dialect and self._target.server_history
        block = self._project_citations(block, keeps_results=keeps_results)
        if not self._keeps_signature(block, same_dialect=same_dialect):
            block = structs.replace(block, signature=None, issuer=None)
        return block if block.text.strip() or block.signature else None

    def _project_citations(
        self, block: Text, where: str = "messages", *, keeps_results: bool = True
    ) -> Text:
        """Return a text with the citations that the target accepts."""
        known = block.citations
        if known and not keeps_results:
            self._sources = self._sources or CitedSources(self._messages, self._target)
            known = self._sources.known(known, self._position)
        if known and not self._target.only_refusals:
            known = tuple(c for c in known if c.kind in self._target.citations)
        if len(known) == len(block.citations):
            return block
        self._losses.add("citations", where, "dropped")
        return structs.replace(block, citations=known)

    def _project_call(self, call: ToolCall, *, same_dialect: bool, is_judged: bool) -> ToolCall:
        """Return a call with the name, id, kind and signature that the target accepts."""
        target = self._target
        name = self._names.of(call.name, call.namespace)
        id = self._project_call_id(call.id, same_dialect=same_dialect, is_judged=is_judged)
        if call.id:
            self._called[call.id] = name
        if (name, id) != (call.name, call.id):
            call = structs.replace(call, name=name, id=id)
        if call.namespace is not None and not target.namespaces:
            call = structs.replace(call, namespace=None)
        if not self._keeps_signature(call, same_dialect=same_dialect):
            call = structs.replace(call, signature=None, issuer=None)
        if properties := self._names.properties_of(name):
            call = structs.replace(call, arguments=rename_arguments(call.arguments, properties))
        if call.kind == "custom" and not target.custom_tools:
            call = wrap_call(call, target.dialect)
        return call

    def _keeps_signature(self, block: Text | ToolCall | Image, *, same_dialect: bool) -> bool:
        """Return whether a block goes as it is: the target can verify its signature, if any.

        The target must have a field for it, too.
        """
        target, tag = self._target, block.__struct_config__.tag
        if block.signature is None or same_dialect:
            return True
        if block.issuer == target.reasoning_issuer and tag in target.signed:
            return True
        self._losses.add("signature_dropped", "messages", "dropped")
        return False

    def _project_tool_reference(self, block: OpaqueBlock) -> InputBlock:
        """Return a tool reference if the target is offered the tool, else text."""
        name = self._names.of(string_of(object_in(block.data), "tool_name"), None)
        if block.dialect == self._target.dialect and self._names.may_offer(name):
            return block
        self._losses.add("tool_reference", "messages", "written as text")
        return Text(f"[tool {name} loaded]", cache=block.cache)

    def _drop_unverified_reasoning(self, block: Reasoning | RedactedReasoning) -> InputBlock | None:
        """Return reasoning unchanged; None if the target would refuse its signature."""
        if is_verified(block, self._target) or not self._verifies:
            return block
        self._losses.add("reasoning_dropped", "messages", "dropped")
        return None

    def _project_reasoning(self, block: Reasoning | RedactedReasoning) -> InputBlock | None:
        """Return reasoning that the target's vendor signed, or its text if the target reads it."""
        if is_signed_for(block, self._target):
            return drop_refused_id(block, self._target, self._losses)
        if isinstance(block, Reasoning) and self._target.reasoning_text and block.text:
            if block.signature is not None:
                self._losses.add("signature_dropped", "messages", "dropped")
            return Reasoning(block.parts)
        self._losses.add("reasoning_dropped", "messages", "dropped")
        return None

    def _project_result(
        self, result: ToolResult, moved: list[InputBlock], *, same_dialect: bool
    ) -> ToolResult:
        """Return a projected result; refused content is appended to `moved`."""
        # As an object the model would read null for the number; `content` has it as text.
        if result.value is not None and has_inexact_number(result.value):
            content = result.content or (Text(result.value),)
            result = structs.replace(result, content=content, value=None)
        after = result.content
        for item in after:
            is_refused = same_dialect and self._checks and type(item) is Text and _is_blank(item)
            if type(item) is not Text or item.extra is not None or item.citations or is_refused:
                after = self._project_result_content(result, moved, same_dialect=same_dialect)
                break
        id = result.tool_call_id
        is_same = same_dialect and self._same_target
        id = self._ids.current(id) if is_same else self._ids.of_result(id)
        name = result.name and self._called.get(result.tool_call_id, result.name)
        if result.is_error and not (same_dialect or self._target.error_results):
            self._losses.add("is_error", "messages", "written as <tool_error> around the text")
        if id == result.tool_call_id and name == result.name and after is result.content:
            return result
        return structs.replace(result, tool_call_id=id, name=name, content=after)

    def _project_result_content(
        self, result: ToolResult, moved: list[InputBlock], *, same_dialect: bool
    ) -> tuple[ResultBlock, ...]:
        """Return the content that the target accepts in results; append the rest to `moved`."""
        content: list[ResultBlock] = []
        others: list[InputBlock] = []
        for item in result.content:
            if isinstance(item, Text):
                if not (same_dialect and self._checks and _is_blank(item)):
                    content.append(self._drop_foreign_fields(self._project_citations(item)))
                continue
            changed = self._project_block(item, moved, "user", same_dialect=same_dialect)
            if changed is None:
                continue
            changed = self._drop_foreign_fields(changed)
            if isinstance(changed, Text) or self._is_carried_in_results(changed):
                content.append(changed)  # type: ignore[arg-type]  # of the same types as `item`
            else:
                others.append(changed)
        if others:
            self._losses.add("tool_result_image_moved", "messages", "in a user message after it")
            moved += [media_title(others, f"tool result {result.tool_call_id}"), *others]
        return same_parts(result.content, tuple(content))

    def _is_carried_in_results(self, block: InputBlock) -> bool:
        types = self._target.result_media_types
        return block.__struct_config__.tag in self._target.result_media and (
            types is None or getattr(block, "media_type", None) in types
        )

    def _drop_last_reasoning(self, blocks: list[InputBlock]) -> list[InputBlock]:
        """Return the blocks of a message without trailing reasoning.

        OpenAI and Anthropic refuse reasoning that nothing follows.  The answer was cut while the
        model reasoned, or the client removed its calls.
        """
        count = len(blocks)
        while count and isinstance(blocks[count - 1], Reasoning | RedactedReasoning):
            count -= 1
            self._losses.add("reasoning_dropped", "messages", "nothing follows it")
        return blocks[:count]

    def _add_reasoning(self, blocks: list[InputBlock]) -> list[InputBlock]:
        """Return the blocks of a message, with empty reasoning first if the server requires it.

        DeepSeek and Kimi refuse assistant messages with calls without `reasoning_content`.
        """
        only_calls = self._target.reasoning_required == "calls"
        if (only_calls and not any(isinstance(block, ToolCall) for block in blocks)) or any(
            isinstance(block, Reasoning) for block in blocks
        ):
            return blocks
        return [Reasoning(("",)), *blocks]

    def _move_calls_last(self, blocks: list[InputBlock]) -> list[InputBlock]:
        calls = [block for block in blocks if isinstance(block, ToolCall)]
        others = [block for block in blocks if not isinstance(block, ToolCall)]
        ordered = others + calls
        if any(map(is_not, ordered, blocks)):
            self._losses.add("order_lost", "messages", "text written before calls")
        return ordered


def _is_blank(text: Text) -> bool:
    return not text.text or text.text.isspace()


def _is_plain(block: InputBlock) -> bool:
    """Return whether a block is text that every target accepts unchanged."""
    return (
        type(block) is Text
        and block.extra is None
        and not (block.citations or block.signature or _is_blank(block))
    )
