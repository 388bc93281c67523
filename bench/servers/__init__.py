"""The servers that are compared: one script each, the same agent in all of them."""
