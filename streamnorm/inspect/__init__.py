"""Inspection of one stream: `survey` makes a report of its bytes, `page` renders it as text."""
