"""Output items: from wire events to blocks.

Read `output.py` first (the item of an event, and the handlers of events), then `item.py` (the
life of an item), then the kinds of items.
"""
