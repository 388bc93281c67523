"""The requirements of the A2A command line specification 0.2 (revision of 2026-08-17), and the tests
that prove them, or what is missing. docs/cli-compliance.md is made from this table:

    python -m tests.cli.compliance
"""

from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGE", "REQUIREMENTS", "Requirement", "page"]

PAGE = Path(__file__).parents[2] / "docs" / "cli-compliance.md"

PASS, PARTIAL, FAIL, NOT_MEASURED, NA = "pass", "partial", "fail", "not_measured", "na"


class Requirement(NamedTuple):
    tier: int
    says: str
    tests: tuple[str, ...] = ()  # below tests/, each names the requirement in its docstring
    note: str = ""  # why it is not `pass`
    status: str = PASS


_CARD = "cli/test_card.py::"
_SEND = "cli/test_send.py::"
_CHAT = "cli/test_chat.py::"
_HELP = "cli/test_helpers.py::"
_TX = "cli/test_transports.py::"


def _proved(tier: int, says: str, *tests: str) -> Requirement:
    return Requirement(tier, says, tests)


def _less(tier: int, says: str, status: str, note: str, *tests: str) -> Requirement:
    return Requirement(tier, says, tests, note, status)


REQUIREMENTS = {
    "CARD_GET_001": _proved(1, "a host, a card's address or a file leads to a card, and the card to the transport",
        _CARD + "test_a_card_is_found_by_address_host_or_file",
        _SEND + "test_the_agent_can_be_named_by_a_setting"),
    "SEND_001": _proved(1, "send opens an interaction", _SEND + "test_a_message_is_sent_and_its_answer_printed"),
    "SEND_002": _proved(1, "waits by default, --async returns ids", _SEND + "test_work_can_be_left_and_come_back_to"),
    "SEND_003": _proved(1, "--stream streams, and never hangs where there is no stream",
        _SEND + "test_an_answer_without_a_task",
        _CARD + "test_what_a_card_requires_or_lacks_is_said_before_anything_is_sent"),
    "SEND_004": _proved(1, "no part of an answer is lost", _SEND + "test_no_part_of_an_answer_is_lost"),
    "SEND_005": _proved(1, "--media-type is of the part before it",
        _SEND + "test_parts_are_sent_as_typed_and_in_their_order"),
    "SEND_006": _proved(1, "parts repeat and keep their order", _SEND + "test_parts_are_sent_as_typed_and_in_their_order"),
    "TASK_GET_001": _proved(1, "task get gives state, artifacts and history", _SEND + "test_no_part_of_an_answer_is_lost"),
    "TASK_CANCEL_001": _proved(1, "task cancel cancels and says how it stands",
        _SEND + "test_a_task_can_be_cancelled_and_a_finished_one_says_so"),
    "INTERACT_001": _proved(1, "--context-id goes on in a context", _SEND + "test_a_conversation_goes_on_in_its_context"),
    "INTERACT_002": _proved(1, "--task-id continues a task; a wrong one is an error",
        _SEND + "test_a_question_is_answered_with_what_is_printed",
        _SEND + "test_ids_that_do_not_belong_together_are_refused"),
    "INTERACT_003": _proved(1, "no id of the server's is made up", _SEND + "test_a_message_is_sent_and_its_answer_printed"),
    "INTERACT_004": _proved(1, "ids, state and the command to go on are printed",
        _SEND + "test_a_question_is_answered_with_what_is_printed"),
    "INTERACT_005": _proved(1, "keeps no last ids, has no --continue",
        _SEND + "test_errors_have_the_codes_of_the_specification"),
    "TASK_POLL_001": _proved(1, "task get once, or until settled", _SEND + "test_work_can_be_left_and_come_back_to"),
    "TASK_POLL_002": _proved(1, "--poll-interval, --timeout; Ctrl-C keeps the id",
        _SEND + "test_work_can_be_left_and_come_back_to",
        "cli/test_away.py::test_what_to_type_after_ctrl_c"),
    "TASK_POLL_003": _proved(1, "stops at once where the task waits for someone; goes on at UNSPECIFIED",
        _SEND + "test_the_outcome_is_not_the_exit_code",
        _SEND + "test_a_state_that_says_nothing_is_waited_through"),
    "TASK_POLL_004": _proved(1, "goes on when a stream breaks", "cli/test_away.py::test_a_restart_is_waited_for"),
    "OUT_001": _proved(1, "task, context and state in every mode",
        _SEND + "test_json_is_one_document_or_one_object_per_line",
        _SEND + "test_every_form_names_task_context_and_state"),
    "OUT_002": _proved(1, "-o json is one document", _SEND + "test_json_is_one_document_or_one_object_per_line"),
    "OUT_003": _proved(1, "-o json --stream is an object per line, an error the last",
        _SEND + "test_json_is_one_document_or_one_object_per_line",
        _TX + "test_a_stream_of_json_that_breaks_ends_with_the_error"),
    "OUT_004": _proved(1, "errors are structured, and the same over every binding",
        _SEND + "test_errors_have_the_codes_of_the_specification",
        _SEND + "test_an_error_has_the_same_name_over_every_binding",
        _TX + "test_every_command_works_over_grpc"),
    "OUT_005": _proved(1, "-o text is fields and blocks", _SEND + "test_fields_are_a_line_each_and_texts_are_blocks"),
    "OUT_006": _proved(1, "--async prints a result with ids", _SEND + "test_work_can_be_left_and_come_back_to"),
    "EXIT_001": _proved(1, "exit codes 0 to 5", _SEND + "test_errors_have_the_codes_of_the_specification"),
    "EXIT_002": _proved(1, "the outcome of a task is not the exit code", _SEND + "test_the_outcome_is_not_the_exit_code"),
    "AUTH_001": _proved(1, "bearer and API key, placed as the card says",
        _CARD + "test_a_key_is_sent_where_the_card_says", _CARD + "test_help_and_version"),
    "AUTH_002": _proved(1, "a variable for each credential; the option wins",
        _CARD + "test_a_key_is_sent_where_the_card_says",
        _SEND + "test_no_credential_is_shown_or_sent_to_the_card"),
    "AUTH_003": _proved(1, "a warning where a credential goes over an unverified connection",
        _TX + "test_a_server_that_is_not_verified_is_warned_of"),
    "AUTH_004": _proved(1, "credentials are redacted", _SEND + "test_no_credential_is_shown_or_sent_to_the_card",
        _HELP + "test_settings_show_no_secrets"),
    "TX_001": _proved(1, "the transport is the card's", _CARD + "test_the_card_s_order_of_interfaces_counts",
        _SEND + "test_an_error_has_the_same_name_over_every_binding"),
    "TX_002": _proved(1, "--transport is an ordered wish", _SEND + "test_a_transport_that_is_not_offered_is_passed_over",
        _SEND + "test_an_error_has_the_same_name_over_every_binding",
        _CARD + "test_the_card_s_order_of_interfaces_counts"),
    "TX_003": _proved(1, "the tenant of the interface goes with every request",
        _CARD + "test_the_card_s_order_of_interfaces_counts"),
    "VER_001": _proved(1, "A2A-Version on every request; no silent downgrade",
        _CARD + "test_an_older_version_is_spoken_only_if_asked_for",
        _SEND + "test_errors_have_the_codes_of_the_specification"),
    "DEFAULT_001": _proved(1, "the six defaults, each with an option", _HELP + "test_each_level_of_settings_wins_over_the_next",
        _HELP + "test_the_six_defaults"),
    "CONFIG_001": _proved(1, "what is kept is visible in config show, and private",
        _HELP + "test_each_level_of_settings_wins_over_the_next",
        _HELP + "test_logins_are_shown_without_their_secrets"),
    "CLI_001": _proved(1, "help and version", _CARD + "test_help_and_version",
        _HELP + "test_each_level_of_settings_wins_over_the_next"),
    "SKILL_001": _less(1, "at most one SKILL.md", NA, "none ships"),
    "SKILL_002": _less(1, "a SKILL.md repeats no rules", NA, "none ships"),
    "CARD_GET_002": _proved(2, "card get --validate", _CARD + "test_a_card_that_is_not_valid_is_refused_if_asked"),
    "TASK_LIST_001": _proved(2, "task list with pages and filters",
        _SEND + "test_tasks_are_listed_in_pages_and_by_state_and_context"),
    "TASK_SUBSCRIBE_001": _proved(2, "task subscribe", _SEND + "test_a_task_can_be_followed"),
    "TASK_SUBSCRIBE_002": _proved(2, "a stream resumes after a drop", _TX + "test_a_task_is_followed_over_a_restart"),
    "AUTH_005": _proved(2, "auth login by device code", "auth/test_idp.py::test_typed"),
    "AUTH_006": _proved(2, "auth login by client credentials", "auth/test_idp.py::test_a_program_logs_in"),
    "AUTH_007": _proved(2, "tokens are kept securely and used", "auth/test_idp.py::test_typed"),
    "TX_004": _proved(2, "two transports", _SEND + "test_an_error_has_the_same_name_over_every_binding"),
    "VER_003": _proved(2, "capabilities are looked at before a call",
        _CARD + "test_what_a_card_requires_or_lacks_is_said_before_anything_is_sent"),
    "CONFIG_002": _proved(2, "the order of settings; config show", _HELP + "test_each_level_of_settings_wins_over_the_next"),
    "DOWNLOAD_001": _proved(2, "task download", _SEND + "test_what_a_task_made_can_be_saved"),
    "OUT_007": _proved(2, "--debug shows raw messages", _SEND + "test_no_credential_is_shown_or_sent_to_the_card",
        _TX + "test_raw_messages_of_grpc_are_shown_without_credentials"),
    "CONFORM_001": _proved(2, "conformance, also called check", "cli/test_check.py::test_json"),
    "CLI_002": _proved(2, "completion in bash, zsh, fish and PowerShell", _HELP + "test_a_shell_takes_the_completion_script",
        _HELP + "test_what_powershell_asks_for"),
    "PUSH_001": _proved(2, "task push-config", _SEND + "test_webhooks_of_a_task"),
    "CARD_GET_003": _proved(3, "card get --extended", _CARD + "test_the_extended_card_is_fetched_with_a_credential"),
    "AUTH_008": _proved(3, "no credential to the card", _SEND + "test_no_credential_is_shown_or_sent_to_the_card"),
    "CARD_GET_004": _proved(3, "signatures: verified, unverifiable, absent",
        _CARD + "test_the_signature_of_a_card_is_reported_as_it_is"),
    "CARD_GET_005": _proved(3, "catalog:NAME, an entry of an AI Catalog", "cli/test_catalog.py::test_an_entry_stands_for_its_agent",
        "cli/test_catalog.py::test_a_card_in_the_catalog_itself"),
    "PUSH_002": _proved(3, "a local receiver", "cli/test_push.py::test_listen_prints_what_comes"),
    "CHAT_001": _proved(3, "chat carries context and task", _CHAT + "test_a_conversation_with_a_question_and_a_file",
        _CHAT + "test_without_a_terminal_nothing_is_waited_for"),
    "TX_005": _proved(3, "gRPC", _TX + "test_every_command_works_over_grpc"),
    "AUTH_009": _proved(3, "mutual TLS", _TX + "test_a_certificate_of_the_client"),
    "AUTH_010": _proved(3, "OpenID Connect", "auth/test_idp.py::test_typed"),
    "AUTH_011": _proved(3, "AUTH_REQUIRED inside a task", _SEND + "test_the_outcome_is_not_the_exit_code"),
    "DEMO_SERVER_001": _proved(3, "demo-server", _HELP + "test_the_demo_server_shows_every_state"),
    "VER_002": _proved(3, "extensions that the server requires",
        _CARD + "test_what_a_card_requires_or_lacks_is_said_before_anything_is_sent"),
}  # fmt: skip


def page() -> str:
    """The report as a page."""
    lines = [
        "# The command line and its specification",
        "",
        "How `accord` stands to the A2A command line specification 0.2 (revision of 2026-08-17): every requirement, and the",
        "test that proves it. The ids are those of the specification without `A2ACLI_`. The tests run against agents served by",
        "Accord, over JSON-RPC, HTTP+JSON and gRPC. Made by `python -m tests.cli.compliance`.",
        "",
        "All three tiers are satisfied: every row passes, or does not apply. The default form of output, `answer`, is ours: the",
        "answer alone on standard output, and task, context and state on standard error; `-o text` is the specification's text.",
        "",
        "| tier | rows | pass | partial | fail | not measured | n/a |",
        "|---|---|---|---|---|---|---|",
    ]
    for tier in (1, 2, 3):
        found = [one.status for one in REQUIREMENTS.values() if one.tier == tier]
        counts = [found.count(status) for status in (PASS, PARTIAL, FAIL, NOT_MEASURED, NA)]
        lines.append(f"| {tier} | {len(found)} | {' | '.join(map(str, counts))} |")
    for tier in (1, 2, 3):
        lines += [
            "",
            f"## Tier {tier}",
            "",
            "| id | requirement | status | tests, or what is missing |",
            "|---|---|---|---|",
        ]
        for id_, one in REQUIREMENTS.items():
            if one.tier == tier:
                tests = ", ".join(f"`{test}`" for test in one.tests)
                about = ". ".join(filter(None, [one.note.rstrip("."), tests]))
                lines.append(f"| {id_} | {one.says} | {one.status.replace('_', ' ')} | {about} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
