"""The files in deploy/: they are what their programs read, and name only what exists."""

import json
import re
import shutil
import sys
from pathlib import Path

import click
import pytest
import yaml
from compose_spec import PyCompose

from accord.cli import main
from accord.cli.hub.serve import GRACE_S
from accord.hub import HubSettings
from tests.deploy import image
from tests.processes import run

DEPLOY = Path(__file__).parents[2] / "deploy"
DOCS = DEPLOY.parent / "docs"


def instructions(name: str) -> list[str]:
    """What follows an instruction of the Dockerfile, each time it is there."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.partition(" ")[2].strip() for line in text.splitlines() if line.startswith(name)]


def options_of(verb: str = "serve") -> set[str]:
    command = main.get_command(click.Context(main), verb)
    return {name for param in command.params for name in param.opts}


# What is deployed: an agent, and the hub. Where its files are, and the command that serves it
KINDS = {"agent": (DEPLOY, "serve"), "hub": (DEPLOY / "hub", "hub")}
BOTH = pytest.mark.parametrize("kind", KINDS)


def compose(kind: str = "agent") -> dict:
    return yaml.safe_load((KINDS[kind][0] / "compose.yaml").read_text())


def manifests(kind: str = "agent") -> dict[str, dict]:
    found = yaml.safe_load_all((KINDS[kind][0] / "kubernetes.yaml").read_text())
    return {one["kind"]: one for one in found}


def commands_of(page: Path) -> list[str]:
    """The commands of ours that a page names."""
    text = page.read_text()
    named = re.findall(r"`(accord [^`]+)`", text)
    return named + re.findall(r"(?:^\$ | |'|\()(accord [^)'\n]+)", "\n".join(consoles(text)))


def consoles(text: str) -> list[str]:
    return re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


OPERATORS = [*(DOCS / "deploy").glob("*.md"), DOCS / "deploy.md", DOCS / "operations.md"]


@pytest.mark.parametrize("page", OPERATORS, ids=lambda page: page.stem)
def test_commands_that_a_page_names_are_there(page: Path):
    """With the options it gives them."""
    for text in commands_of(page):
        words = text.split()[1:]
        command: click.Command = main
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(click.Context(command), words[0])
            if found is None and command.invoke_without_command:
                break
            assert found is not None, text
            command, words = found, words[1:]
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= {name for param in command.params for name in param.opts}, text


async def test_linters_find_nothing():
    """Of the Dockerfile, by hadolint; of the manifests, by the schemas of Kubernetes; of the
    compose file, by its specification.
    """
    bin_ = Path(sys.executable).parent
    if not (bin_ / "hadolint").exists():
        pytest.skip("no hadolint for this machine")
    assert await run(bin_ / "hadolint", DEPLOY / "Dockerfile") == (0, "", "")
    for folder, _ in KINDS.values():
        done = await run(bin_ / "kubernetes-validate", "--strict", folder / "kubernetes.yaml")
        assert done.code == 0, done
        assert (done.out + done.err).count("passed") == 3
        assert set(PyCompose.from_yaml((folder / "compose.yaml").read_text()).services) == {
            "postgres",
            "replica-1",
            "replica-2",
            "proxy",
        }


def test_the_image_runs_as_nobody_and_checks_its_health():
    assert instructions("USER") == ["10001"]
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
    (command,) = instructions("HEALTHCHECK")
    assert "/readyz" in json.loads(command.partition("CMD ")[2])[2]
    entry = json.loads(instructions("ENTRYPOINT")[0])
    assert entry[:2] == ["accord", "serve"]
    assert {word for word in entry if word.startswith("--")} <= options_of()
    for copied in instructions("COPY"):
        if not copied.startswith(("--from", "dist/")):
            assert (DEPLOY.parent / copied.split()[0]).is_file()


async def test_the_image_installs_the_wheel_beside_it(tmp_path):
    """The name `accord` on an index may be somebody else's, so nothing is installed by it."""
    made = ("-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, DEPLOY.parent)
    assert (await run(sys.executable, *made)).code == 0
    command = instructions("RUN")[0].replace("/venv", str(tmp_path / "venv"))
    settings = {"EXTRAS": "grpc,postgres", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    done = await run("sh", "-c", command, cwd=tmp_path, env=settings)
    assert done.code == 0, done
    look = "from accord.extras import installed_from; print(installed_from())"
    done = await run(tmp_path / "venv/bin/python", "-I", "-c", look)
    assert Path(done.out.strip()).match("accord-*.whl"), done


@BOTH
def test_the_replicas_of_compose_are_alike_and_stop_in_time(kind: str):
    folder, verb = KINDS[kind]
    services = compose(kind)["services"]
    assert services["replica-1"] == services["replica-2"]
    replica = services["replica-1"]
    arguments = dict(one.partition("=")[::2] for one in replica["command"])
    assert set(arguments) <= options_of(verb)
    assert {one for one in replica.get("entrypoint", []) if "--" in one} <= options_of(verb)
    given = {one for one in replica["environment"] if one.startswith("ACCORD_HUB_")}
    assert HubSettings.of({}, dict.fromkeys(given, "")) == HubSettings(), "it knows them"
    grace_s = float(arguments.get("--grace", GRACE_S))
    assert int(replica["stop_grace_period"].removesuffix("s")) > grace_s
    assert replica["read_only"] is True
    mounted = [one.split(":")[0] for one in services["proxy"]["volumes"]]
    assert (folder / mounted[0]).is_file()


@BOTH
def test_the_manifests_of_kubernetes_belong_together(kind: str):
    found = manifests(kind)
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    arguments = dict(one.partition("=")[::2] for one in container["args"])
    assert set(arguments) <= options_of(KINDS[kind][1])
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    grace_s = float(arguments.get("--grace", GRACE_S))
    assert pod["terminationGracePeriodSeconds"] > pause + grace_s
    ports = {port["name"] for port in container["ports"]}
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} <= ports
    assert pod["securityContext"]["runAsUser"] == int(instructions("USER")[0])
    paths = {
        name: container[name]["httpGet"]["path"]
        for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert paths == {
        "startupProbe": "/healthz",
        "readinessProbe": "/readyz",
        "livenessProbe": "/healthz",
    }


@pytest.mark.parametrize("name", ["accord.service", "hub/accord-hub.service"])
async def test_systemd_takes_the_unit(tmp_path, name: str):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    text = (DEPLOY / name).read_text()
    command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1].split()
    assert {word for word in command if word.startswith("--")} <= options_of(command[1])
    unit = tmp_path / Path(name).name
    unit.write_text(text.replace(command[0], sys.executable))  # one that is here
    done = await run("systemd-analyze", "verify", unit)
    assert done == (0, "", "")


def test_make_image_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="there is no buildah; install it"):
        image.main()
