"""Inspection of one stream: `survey` makes a report of its bytes, `page` renders it as text.

`summary` accumulates the blocks of the report, which the page draws as bars, too.
"""
