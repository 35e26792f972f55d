"""The core: events, messages, ordering, losses and the codec contracts, free of any dialect."""
