"""What checks found: one result per check and interface, and the score."""

from typing import Literal
from xml.etree import ElementTree

import msgspec

__all__ = ["CheckReport", "CheckResult", "Status", "junit"]

Status = Literal["pass", "fail", "skip"]


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One check at one interface. `interface` is empty for checks of the card."""

    id: str
    title: str
    group: str
    points: float
    status: Status
    interface: str = ""
    request: str = ""
    answer: str = ""
    reason: str = ""  # why it failed, or why it does not apply
    fix: str = ""  # what to change


class CheckReport(msgspec.Struct, kw_only=True, rename="camel"):
    """All results of an agent."""

    url: str
    agent: str = ""
    results: list[CheckResult] = []
    # Why there was nothing to check: a category of `probe`, like REFUSED or LOCKED; else empty.
    category: str = ""

    @property
    def score(self) -> int:
        """0 to 100: the points got of those that apply. 100 only if nothing failed.

        A check that runs once per interface counts once in all, shared by the interfaces: an agent
        with three interfaces is not judged three times as hard as one with one.
        """
        got = applicable = 0.0
        interfaces = len({r.interface for r in self.results if r.interface}) or 1
        for result in self.results:
            points = result.points / interfaces if result.interface else result.points
            if result.status != "skip":
                applicable += points
                got += points if result.status == "pass" else 0.0
        return int(100 * got / applicable + 1e-9) if applicable else 0

    @property
    def failed(self) -> list[CheckResult]:
        return [result for result in self.results if result.status == "fail"]

    def to_dict(self) -> dict[str, object]:
        """The report as JSON: counts first, then every result."""
        counts = {
            status: sum(result.status == status for result in self.results)
            for status in ("pass", "fail", "skip")
        }
        return {
            "url": self.url,
            "agent": self.agent,
            "score": self.score,
            "category": self.category,
            "counts": counts,
            "results": msgspec.to_builtins(self.results),
        }


def junit(report: CheckReport) -> str:
    """The report as JUnit's XML: a suite per interface, a case per check."""
    root = ElementTree.Element("testsuites", name=f"A2A check of {_clean(report.url)}")
    for interface in dict.fromkeys(result.interface for result in report.results):
        mine = [result for result in report.results if result.interface == interface]
        counts = {
            "tests": str(len(mine)),
            "failures": str(sum(result.status == "fail" for result in mine)),
            "skipped": str(sum(result.status == "skip" for result in mine)),
        }
        name = _clean(interface) or "card"
        suite = ElementTree.SubElement(root, "testsuite", {"name": name, **counts})
        for result in mine:
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=result.id)
            if result.status == "fail":
                failure = ElementTree.SubElement(case, "failure", message=_clean(result.reason))
                failure.text = _clean(f"{result.fix}\n\n{result.request}\n\n{result.answer}")
            elif result.status == "skip":
                ElementTree.SubElement(case, "skipped", message=_clean(result.reason))
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _clean(text: str) -> str:
    """Text that XML can hold."""
    return "".join(c for c in text if c in "\t\n" or c >= " ").encode("utf-8", "ignore").decode()
