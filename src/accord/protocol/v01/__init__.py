"""A2A 0.1: the codec of the server and of the client."""
