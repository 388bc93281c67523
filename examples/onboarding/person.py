"""Who joins: what all four agents understand."""

from dataclasses import dataclass

EXAMPLE = '{"name": "Ada Lovelace"}'


@dataclass
class Person:
    name: str
    role: str = "Engineer"
    start: str = ""  # like 2026-12-01; asked for if it is missing
    laptop: str = ""

    @property
    def login(self) -> str:
        return self.name.lower().replace(" ", ".")
