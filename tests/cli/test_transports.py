"""Commands over gRPC and TLS, and over a connection that breaks."""

import json
import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from accord.cli import main
from tests.cli.bakery import Bakery
from tests.cli.shell import found, served
from tests.client.certs import Authority
from tests.processes import free_port, until_sync

HERE = Path(__file__).parent


pytestmark = pytest.mark.usefixtures("alone")


def accord(*words, code=0):
    done = CliRunner().invoke(main, words)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code, done.output
    return done


def test_every_command_works_over_grpc(tmp_path):
    """TX_005, OUT_004: with the same names of errors."""
    words = (str(HERE / "scripted.py"), "--store", "memory://", "--grpc-port", str(free_port()))
    with served(*words, cwd=tmp_path) as (_, url):
        grpc = ("--transport", "grpc", "-o", "json")
        for way in ([], ["--stream"]):
            sent = accord("send", url, "x", "--skill", "ask", *grpc, *way).stdout
            assert "TASK_STATE_INPUT_REQUIRED" in sent
        task = json.loads(accord("send", url, "x", "--skill", "ask", *grpc).stdout)["task"]["id"]
        assert json.loads(accord("task", "get", url, task, *grpc).stdout)["id"] == task
        assert task in accord("task", "list", url, *grpc).stdout
        canceled = json.loads(accord("task", "cancel", url, task, *grpc).stdout)
        assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
        error = json.loads(accord("task", "get", url, "nowhere", *grpc, code=1).stdout)["error"]
        assert (error["code"], error["a2aCode"]) == ("TaskNotFoundError", 5)


def test_raw_messages_of_grpc_are_shown_without_credentials(tmp_path):
    """OUT_007, AUTH_004"""
    words = (str(HERE / "scripted.py"), "--store", "memory://", "--grpc-port", str(free_port()))
    with served(*words, cwd=tmp_path) as (_, url):
        sent = accord("send", url, "Ada", "--transport", "grpc", "--debug", "--bearer", "s3cret")
        shown = sent.stderr
        assert "# > /lf.a2a.v1.A2AService/SendStreamingMessage" in shown
        assert "# > authorization: <redacted>" in shown
        assert '"text":"Ada"' in shown
        assert re.search(r"^# < .*TASK_STATE_COMPLETED", shown, re.M)
        assert "s3cret" not in sent.output


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def test_a_server_that_is_not_verified_is_warned_of(tmp_path, authority):
    """AUTH_003: more so where a credential goes there."""
    certificate, key = authority.issue("server")
    words = ("--store", "memory://", "--tls-cert", str(certificate), "--tls-key", str(key))
    with served(str(HERE / "scripted.py"), *words, cwd=tmp_path) as (_, url):
        refused = accord("send", url, "x", "-o", "json", "--retry-max-time", "0", code=3)
        assert json.loads(refused.stdout)["error"]["code"] == "A2ACLI_ERR_UNREACHABLE"
        assert "not verified" not in accord("send", url, "x", "--ca-cert", "ca.pem").stderr
        plain = accord("send", url, "x", "--insecure")
        assert "certificate is not verified" in plain.stderr
        assert "CREDENTIALS" not in plain.stderr
        loud = accord("send", url, "x", "--insecure", "--bearer", "s3cret")
        assert "CREDENTIALS ARE SENT" in loud.stderr
        assert "s3cret" not in loud.output


def test_a_certificate_of_the_client(tmp_path, authority):
    """AUTH_009"""
    certificate, key = authority.issue("server")
    mine, my_key = authority.issue("ada")
    words = ("--store", "memory://", "--tls-cert", str(certificate), "--tls-key", str(key),
             "--tls-client-ca", "ca.pem")  # fmt: skip
    with served(str(HERE / "scripted.py"), *words, cwd=tmp_path) as (_, url):
        trusted = ("--ca-cert", "ca.pem", "--retry-max-time", "0")
        accord("send", url, "x", *trusted, code=3)
        shown = ("--client-cert", str(mine), "--client-key", str(my_key))
        assert accord("send", url, "x", *trusted, *shown).stdout == "text:'x'::\n"


def test_a_stream_of_json_that_breaks_ends_with_the_error(tmp_path):
    """OUT_003"""
    with Bakery(tmp_path) as bakery:
        words = ("--stream", "-o", "json", "--retry-max-time", "0.2")
        sending = bakery.typed("send", bakery.url, "a loaf", *words)
        until_sync(lambda: "flour" in sending.out.text, "the first chunk")
        bakery.stop(signal.SIGKILL)
        assert sending.wait_sync() == 3
        *events, last = [json.loads(line) for line in sending.out.text.splitlines()]
        assert "task" in events[0]
        assert last["error"]["code"] == "A2ACLI_ERR_UNREACHABLE"
        assert "task get" in last["error"]["hint"]


def test_a_task_is_followed_over_a_restart(tmp_path):
    """TASK_SUBSCRIBE_002"""
    with Bakery(tmp_path) as bakery:
        task_id = json.loads(
            bakery.done("send", bakery.url, "a loaf", "--async", "-o", "json").out
        )["task"]["id"]
        bakery.until_begun(1)
        watching = bakery.typed("task", "watch", bakery.url, task_id, "--stream")
        until_sync(lambda: watching.out.text == "flour, ", "the first chunk")
        bakery.stop(signal.SIGKILL)
        until_sync(lambda: "away, trying again" in watching.err.text, "the word that it waits")
        bakery.start()
        bakery.rise()
        assert watching.wait_sync() == 0
        assert watching.out.text == "flour, bread\n"
        assert found(r"task (\S+) is completed", watching.err.text) == task_id
