"""Bodies generated from the official SDKs' types: one for each member, literal and field."""
