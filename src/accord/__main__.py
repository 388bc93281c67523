"""`python -m accord` is the command `accord`."""

from .cli import main

main()
