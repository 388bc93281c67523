"""The eleven operations of A2A, once, and the table of their names."""
