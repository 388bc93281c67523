"""Every example of the old versions, read into the model and written again: what comes out is what
went in.
"""

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord.client.discovery.repair import read_card
from accord.model import (
    AgentCard,
    DeletePushConfigRequest,
    ListPushConfigsRequest,
    Message,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
)
from accord.protocol import legacy, legacy_card, lenient
from accord.protocol.v01 import codec as v01
from accord.protocol.v03 import codec as v03
from accord.protocol.v03 import proto_json
from accord.protocol.v03 import rest as v03_rest

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden.json").read_text())


def through(value: Any, type_: Any) -> Any:
    """A 1.0 value by way of the model, so that only what the model holds can come out."""
    return msgspec.to_builtins(legacy.convert(value, type_))


def body(name: str) -> Any:
    value = GOLDEN[name]
    return value.get("params", value.get("result")) if "jsonrpc" in value else value


ROUND_TRIPS = {
    "0.1 send": lambda v: v01.write_send(through(v01.read_send(v), SendMessageRequest), v["id"]),
    "0.1 send answer": lambda v: v01.write_task(through(v01.read_task(v), Task)),
    "0.1 push set": lambda v: v01.write_push(through(v01.read_push(v), TaskPushNotificationConfig)),
    "0.1 push set answer": lambda v: v01.write_push(
        through(v01.read_push(v), TaskPushNotificationConfig)
    ),
    "0.2 send": lambda v: v03.write_send(through(v03.read_send(v), SendMessageRequest)),
    "0.2 send answer": lambda v: v03.write_task(through(v03.read_task(v), Task)),
    "0.2 send answer, a message": lambda v: v03.write_message(
        through(v03.read_message(v), Message)
    ),
    "0.2 push set": lambda v: v03.write_push(through(v03.read_push(v), TaskPushNotificationConfig)),
    "0.2 push set answer": lambda v: v03.write_push(
        through(v03.read_push(v), TaskPushNotificationConfig)
    ),
    "0.3 send answer": lambda v: v03.write_task(through(v03.read_task(v), Task)),
    "0.3 push set": lambda v: v03.write_push(through(v03.read_push(v), TaskPushNotificationConfig)),
    "0.3 push set answer": lambda v: v03.write_push(
        through(v03.read_push(v), TaskPushNotificationConfig)
    ),
    "0.3 push list answer": lambda v: [
        v03.write_push(through(v03.read_push(c), TaskPushNotificationConfig)) for c in v
    ],
    "0.3 rest send": lambda v: proto_json.write_send(
        through(proto_json.read_send(v), SendMessageRequest)
    ),
    "0.3 rest send answer": lambda v: proto_json.write_event(
        through(proto_json.read_event(v), StreamResponse)
    ),
    "0.3 rest push create answer": lambda v: proto_json.write_push(
        through(proto_json.read_push(v), TaskPushNotificationConfig)
    ),
    "0.3 prose send answer": lambda v: {
        "task": v03.write_task(through(v03.read_task(v["task"]), Task))
    },
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_an_example_survives_the_model(name):
    """Nothing an example says is lost or changed on its way through the 1.0 model."""
    assert ROUND_TRIPS[name](body(name)) == body(name)


@pytest.mark.parametrize("name", ["0.3 send", "0.3 prose send"])
def test_a_send_is_written_with_the_member_old_schemas_demand(name):
    """`acceptedOutputModes` was required until 0.2.5, so a request we write has it, empty if need
    be.
    """
    written = v03.write_send(through(v03.read_send(body(name)), SendMessageRequest))
    assert written["configuration"].pop("acceptedOutputModes") == []
    assert written == body(name)


def test_a_0_1_stream_survives_the_model():
    """A 0.1 event has the task's id in `id`, and the artifact says itself whether it appends."""
    for frame in GOLDEN["0.1 stream"]:
        event = through(v01.read_event(frame["result"]), StreamResponse)
        [written] = v01.write_events(
            event, is_last=frame["result"].get("final", False), index=lambda _: 0
        )
        assert written == frame["result"]


@pytest.mark.parametrize("name", ["0.2 stream", "0.3 stream that pauses"])
def test_a_0_3_stream_survives_the_model(name):
    """`final` is written on the event the stream ends with, input-required too; false flags need
    not be.
    """
    for frame in GOLDEN[name]:
        old_event = frame["result"]
        event = through(v03.read_event(old_event), StreamResponse)
        written = v03.write_event(event, is_last=old_event.get("final", False))
        flags = {flag: False for flag in ("append", "lastChunk") if old_event.get(flag) is False}
        assert written | flags == old_event


def test_a_0_3_rest_stream_survives_the_model():
    """Protobuf's JSON leaves out what is false and spells a canceled task with two l (legacy
    4.3).
    """
    for frame in GOLDEN["0.3 rest stream"]:
        is_last = frame.get("statusUpdate", {}).get("final", False)
        assert (
            proto_json.write_event(
                through(proto_json.read_event(frame), StreamResponse), is_last=is_last
            )
            == frame
        )


def test_a_whole_create_request_gives_the_config_of_its_answer():
    """The body the libraries send repeats the ids in three places; the answer has them in one."""
    config = through(proto_json.read_push(body("0.3 rest push create")), TaskPushNotificationConfig)
    assert (config["taskId"], config["id"]) == ("91ab", "h9")
    assert proto_json.write_push(config) == body("0.3 rest push create answer")


def test_the_parameters_of_push_list_and_delete_are_read():
    """`id` is the task's there, the config's in 1.0."""
    listed, _ = v03.CODEC.decode(
        "ListTaskPushNotificationConfigs", json.dumps(body("0.3 push list")).encode()
    )
    assert listed == ListPushConfigsRequest(task_id="5d20")
    deleted, _ = v03.CODEC.decode(
        "DeleteTaskPushNotificationConfig", json.dumps(body("0.3 push delete")).encode()
    )
    assert deleted == DeletePushConfigRequest(task_id="5d20", id="h2")
    assert json.loads(v03.CODEC.result("DeleteTaskPushNotificationConfig", None)) == body(
        "0.3 push delete answer"
    )


@pytest.mark.parametrize(
    "name", ["0.1 send", "0.2 send", "0.3 send", "0.3 rest send", "0.3 prose send"]
)
def test_the_codec_of_its_version_reads_a_send(name):
    """The same through the codec a door uses: a request of the model, with the text of the example
    in it.
    """
    codec: Any = {
        "0.1 send": v01.CODEC,
        "0.3 rest send": v03_rest.PROTO,
        "0.3 prose send": v03_rest.PROSE,
    }.get(name, v03.CODEC)
    request, _ = codec.decode("SendMessage", json.dumps(body(name)).encode())
    assert isinstance(request, SendMessageRequest)
    sent = body(name)["message"]
    assert request.message.parts[0].text == sent.get("content", sent.get("parts"))[0]["text"]


@pytest.mark.parametrize("name", ["0.1 card", "0.2 card", "0.3 card"])
def test_an_old_card_is_read_and_the_union_holds_all_its_readers_need(name):
    """A card of any version becomes the 1.0 card, and the union card made of that has every member
    the old one had.
    """
    given = copy.deepcopy(body(name))
    card = read_card(given, "", [])
    version = name.partition(" ")[0]
    assert {place.protocol_version for place in card.supported_interfaces} == {version}
    for place in card.supported_interfaces:
        place.protocol_version = "1.0"
    union = legacy_card.union(card)
    given["capabilities"].pop("stateTransitionHistory", None)  # 1.0 has no such thing
    given.pop("protocolVersion", None)  # the union's is 0.3
    for member, value in given.items():
        assert _contains(union[member], value), member


def test_the_union_card_is_the_1_0_card_with_the_members_of_the_old_ones():
    """What a 1.0 reader finds in the union is the card itself; what is added to that is the
    example.
    """
    given = body("union card")
    card = lenient.convert(given, AgentCard)
    union = legacy_card.union(card)
    assert _contains(union, given)
    assert set(union) == set(given)


def _contains(whole: Any, part: Any) -> bool:
    """Whether every member of `part` is in `whole`; what is empty or false may be left out."""
    if isinstance(part, dict):
        return all(
            _contains(whole.get(name, value if value in ([], False) else None), value)
            for name, value in part.items()
        )
    if isinstance(part, list) and len(whole) == len(part):
        return all(_contains(*pair) for pair in zip(whole, part, strict=True))
    return bool(whole == part)


def test_every_example_is_tested():
    """An example added to the file is not forgotten here."""
    source = Path(__file__).read_text()
    assert [name for name in GOLDEN if f'"{name}"' not in source] == []
