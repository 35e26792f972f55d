"""What a dialect or a server can do of which its capabilities do not speak."""

from __future__ import annotations

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities

SILENT = BodyCapabilities(dialect="other", fields=frozenset())
ACCEPTED = {
    *("adaptive_budgets", "assistant_last", "available", "blank_stops", "call_ids"),
    *("chooses_server_tools", "document_urls", "documents", "empty_assistants", "image_urls"),
    *("lone_choice", "marks_in_results", "mixed_tools", "new_item_ids", "null_content"),
    *("ordered_blocks", "orphan_results", "output_with_tools", "prefill", "prefill_with_schema"),
    *("reasoning_off", "shows_reasoning", "strict_tools", "thinking_budgets"),
}


def test_what_most_servers_lack_or_demand_must_be_said() -> None:
    flags = {name: each for name, each in structs.asdict(SILENT).items() if type(each) is bool}
    assert {name for name, value in flags.items() if value} == ACCEPTED
    assert {"audio", "video", "reports_server_calls"} < flags.keys() - ACCEPTED


def test_requests_of_the_dialect_itself_keep_parts_that_its_vendor_may_refuse() -> None:
    own = SILENT.for_same_dialect(frozenset({"top_k"}), same_models=False)
    assert own.fields == {"top_k"}
    for name in ("audio", "video", "text_documents", "assistant_media", "mixed_results", "names"):
        assert getattr(own, name), name
    assert not SILENT.for_same_dialect(frozenset({"top_k"}), same_models=True).fields
