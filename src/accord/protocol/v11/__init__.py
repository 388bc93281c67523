"""A2A 1.1 (preview): A2A 1.0, and generations.

1.1 is not released. It is served and spoken where somebody asks for the preview. All names and
numbers that it adds stand in this folder.
"""
