"""Output items, decoded from wire events to blocks.

Read `types.py` first (the table of types), then `output.py` (the item of an event, and the
handlers of events), `item.py` (the life of an item), and the kinds of items.
"""
