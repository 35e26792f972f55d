"""Output items: from wire events to blocks.

Read `output.py` first (which item an event belongs to), then `item.py` (the life of an
item), then a kind of item, then `item_events.py`.
"""
