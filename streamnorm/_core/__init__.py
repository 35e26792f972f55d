"""What no dialect knows of: events, messages, ordering, losses and the contracts of rooms."""
