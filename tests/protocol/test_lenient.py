"""The spellings ProtoJSON allows beside the usual one."""

import pytest

from accord.model import InvalidParams, Part, Role, SendMessageRequest, TaskState
from accord.protocol.v1 import codec as v1


def send(message: bytes) -> SendMessageRequest:
    return v1.CODEC.decode("SendMessage", b'{"message":' + message + b"}")[0]


def test_snake_case_enum_numbers_nulls_and_unknown_members_are_taken():
    request = send(
        b'{"message_id":"m","role":1,"parts":[{"text":"x","media_type":"text/plain"}],"extensions":null,"kind":"message"}'
    )
    assert (request.message.message_id, request.message.role) == ("m", Role.USER)
    assert request.message.parts == [Part(text="x", media_type="text/plain")]


@pytest.mark.parametrize("raw", ["aGk_", "aGk/", "YQ", "YQ==", ""])
def test_base64_in_any_alphabet_padded_or_not(raw):
    request = send(b'{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"%b"}]}' % raw.encode())
    assert isinstance(request.message.parts[0].raw, bytes)


def test_data_null_is_the_value_null():
    """`null` means absent everywhere but here."""
    request = send(b'{"messageId":"m","role":"ROLE_USER","parts":[{"data":null,"text":null}]}')
    assert request.message.parts[0] == Part(data=None)


@pytest.mark.parametrize(("raw", "value"), [(b"5", 5), (b"5.0", 5), (b"1e1", 10), (b'"7"', 7)])
def test_integers_in_every_spelling(raw, value):
    assert v1.CODEC.decode("ListTasks", b'{"pageSize":%b}' % raw)[0].page_size == value


@pytest.mark.parametrize(("status", "state"), [
    (b'"TASK_STATE_WORKING"', TaskState.WORKING),
    (b"7", TaskState.REJECTED),
    (b'"TASK_STATE_CANCELLED"', TaskState.CANCELED),
    (b"null", TaskState.UNSPECIFIED),
])  # fmt: skip
def test_states_by_name_or_number(status, state):
    assert v1.CODEC.decode("ListTasks", b'{"status":%b}' % status)[0].status is state


@pytest.mark.parametrize(("message", "field"), [
    (b'{"role":"ROLE_USER","parts":[{"text":"x"}]}', "message.messageId"),
    (b'{"messageId":"m","parts":[{"text":"x"}]}', "message.role"),
    (b'{"messageId":"m","role":"user","parts":[{"text":"x"}]}', "message.role"),
    (b'{"messageId":"m","role":9,"parts":[{"text":"x"}]}', "message.role"),
    (b'{"messageId":"m","role":"ROLE_USER"}', "message.parts"),
    (b'{"messageId":"m","role":"ROLE_USER","parts":{}}', "message.parts"),
    (b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","url":"y"}]}', "message.parts[0]"),
    (b'{"messageId":"m","role":"ROLE_USER","parts":[{}]}', "message.parts[0]"),
    (b'{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"*"}]}', "message.parts[0].raw"),
    (b'{"messageId":"m","role":"ROLE_USER","parts":[null]}', "message.parts[0]"),
    (b'{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":[]}', "message.metadata"),  # noqa: E501
    (b'{"messageId":1,"role":"ROLE_USER","parts":[{"text":"x"}]}', "message.messageId"),
])  # fmt: skip
def test_what_is_wrong_is_named_by_its_path(message, field):
    with pytest.raises(InvalidParams) as error:
        send(message)
    assert [name for name, _ in error.value.violations] == [field]
