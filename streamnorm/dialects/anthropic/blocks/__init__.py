"""Content blocks: from wire events to unified blocks.

Read `message.py` first (which block an event belongs to), then `open_block.py` (a block
between its start and its stop).
"""
