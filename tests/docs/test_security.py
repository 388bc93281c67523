"""The page about security: every file and command in it does what is shown."""

import json
import re
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.auth.tokens import jwks, made, token
from tests.docs.page import ROOT
from tests.processes import run_sync, start

IDP = ROOT / "tests" / "auth" / "idp" / "provider.mjs"
PAGE = ROOT / "docs" / "security.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ISSUER = "https://login.corp.example"
_ADDRESS = re.compile(r"https?://127\.0\.0\.1:8000")


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return {
        title: text for title, text in zip(parts[1::2], parts[2::2], strict=True) if "```" in text
    }


class Shell:
    """Types the lines of a section; a server goes on until the next one is started."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self.url = ""
        self.issuer = ISSUER
        self.env = {"ACCORD_LOGINS": str(folder / "logins.json")}

    def write(self, text: str) -> None:
        name = text.split("\n", 1)[0].removeprefix("# ")
        (self.folder / name).write_text(self._with_address(text))

    def _with_address(self, text: str) -> str:
        text = text.replace(ISSUER, self.issuer)
        return _ADDRESS.sub(self.url, text) if self.url else text

    def type(self, line: str) -> str:
        line = self._with_address(line)
        if line.startswith("accord serve") and "open.py" not in line:
            words = line.split()[2:]
            command = (sys.executable, "-m", "accord", "serve", *words, "--port", "0")
            if "--host" in words:  # as typed, but to be reached by this machine alone
                command = tuple(word.replace("0.0.0.0", "127.0.0.1") for word in command)
            server = self._stack.enter_context(start(*command, cwd=self.folder))
            said = server.line_sync()
            self.url = re.search(r"https?://\S+", said)[0]
            return said
        line = line.replace("accord ", f"{sys.executable} -m accord ", 1)
        line = re.sub(r"^python ", f"{sys.executable} ", line)
        done = run_sync("bash", "-c", line, cwd=self.folder, env=self.env)
        return done.out + done.err

    def follow(self, block: str) -> None:
        for typed, *shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            said = self.type(typed)
            for line in "".join(shown).splitlines():
                expected = self._with_address(line).strip()
                wanted = ".*".join(map(re.escape, expected.split("...")))  # ... is anything
                assert re.search(wanted, said), f"{typed}\n{said}"


@pytest.mark.parametrize("title", sections())
def test_an_agent_is_served_as_the_page_says(title, tmp_path):
    """From none to mutual TLS: the files are written, the lines typed, in order (AZN-3)."""
    text = sections()[title]
    for tool in ("curl", "openssl"):
        if f"$ {tool}" in text and shutil.which(tool) is None:
            pytest.skip(f"no {tool} here")
    key = made(tmp_path, "ES256", "k1")
    (tmp_path / "jwks.json").write_text(json.dumps(jwks(key)))
    (tmp_path / "mia.token").write_text(token(key))
    with ExitStack() as stack:
        shell = Shell(tmp_path, stack)
        if ISSUER in text:
            if shutil.which("node") is None:
                pytest.skip("no Node.js here, for the identity provider")
            idp = stack.enter_context(start("node", IDP))
            shell.issuer = idp.line_sync()
            shell.env["PLANNER_SECRET"] = "planner-secret-% +"
        for language, block in _BLOCK.findall(text):
            if language == "python":
                shell.write(block)
            else:
                shell.follow(block)
