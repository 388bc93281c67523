"""The stored cases of search: agents with their skills, and requests with the skill they mean."""

import json
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["CASES", "Case", "SearchRequest", "card_of", "load_cases"]

CASES = Path(__file__).parent / "find_cases.txt"


class SearchRequest(NamedTuple):
    text: str
    agent: str
    skill: str
    is_by_keywords: bool


class Case(NamedTuple):
    name: str
    title: str
    skills: list[dict[str, Any]]


def load_cases() -> tuple[list[Case], list[SearchRequest]]:
    agents: list[Case] = []
    requests: list[SearchRequest] = []
    for line in CASES.read_text().splitlines()[1:]:
        if line.startswith("#"):
            name, _, title = line[1:].strip().partition(": ")
            slug = name if name.isascii() else f"zh-{len(agents)}"
            agents.append(Case(slug, title, []))
            continue
        id_, description, tags, keywords, meaning = (part.strip() for part in line.split("|"))
        agent = agents[-1]
        skill = {"id": id_, "name": id_.replace("_", " "), "description": description}
        agent.skills.append(skill | {"tags": [tag.strip() for tag in tags.split(",")]})
        requests.append(SearchRequest(keywords, agent.name, id_, True))
        if meaning:
            requests.append(SearchRequest(meaning, agent.name, id_, False))
    return agents, requests


def card_of(case: Case, url: str = "https://agents.example") -> bytes:
    """A card of an agent, to be pasted."""
    card = {
        "name": case.title,
        "description": case.title,
        "version": "1",
        "supportedInterfaces": [
            {
                "url": f"{url}/{case.name}",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            }
        ],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": case.skills,
    }
    return json.dumps(card).encode()
