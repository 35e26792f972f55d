"""Google's Interactions API, which is only read: what is written is `generateContent`."""
