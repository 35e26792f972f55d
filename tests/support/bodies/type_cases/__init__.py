"""Bodies made from the types of the official SDKs: one for each member, literal and field."""
