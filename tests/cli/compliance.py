"""The requirements of the A2A command line specification 0.2 (revision of 2026-08-17), and the tests
that prove them, or what is missing. docs/cli-compliance.md and .yaml are made from this table:

    python -m tests.cli.compliance
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple

__all__ = ["PAGE", "REPORT", "REQUIREMENTS", "Requirement", "page", "report"]

PAGE = Path(__file__).parents[2] / "docs" / "cli-compliance.md"
REPORT = PAGE.with_suffix(".yaml")

PASS, PARTIAL, FAIL, NOT_MEASURED, NA = "pass", "partial", "fail", "not_measured", "na"


class Requirement(NamedTuple):
    tier: int
    says: str
    tests: tuple[str, ...] = ()  # below tests/, each names the requirement in its docstring
    note: str = ""  # why it is not `pass`
    status: str = PASS


_CARD = "cli/test_card.py::"
_SEND = "cli/test_send.py::"
_SKILL = "cli/test_skill.py::"
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
        _CARD + "test_an_older_version_is_spoken_and_said",
        _SEND + "test_errors_have_the_codes_of_the_specification"),
    "DEFAULT_001": _proved(1, "the six defaults, each with an option", _HELP + "test_each_level_of_settings_wins_over_the_next",
        _HELP + "test_the_six_defaults"),
    "CONFIG_001": _proved(1, "what is kept is visible in config show, and private",
        _HELP + "test_each_level_of_settings_wins_over_the_next",
        _HELP + "test_logins_are_shown_without_their_secrets"),
    "CLI_001": _proved(1, "help and version", _CARD + "test_help_and_version",
        _HELP + "test_each_level_of_settings_wins_over_the_next"),
    "SKILL_001": _proved(1, "at most one SKILL.md, short, that sends to the help",
        _SKILL + "test_one_skill_ships_and_sends_to_the_help",
        _SKILL + "test_every_command_of_its_examples_runs"),
    "SKILL_002": _proved(1, "a SKILL.md repeats no rules", _SKILL + "test_it_repeats_no_rules"),
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


# Where the specification has it.
_SECTIONS = {
    "CARD_GET_001": "§10.1, §13",
    "SEND_001": "§10.2",
    "SEND_002": "§10.2, §6.5",
    "SEND_003": "§10.2, §9.2",
    "SEND_004": "§10.2",
    "SEND_005": "§10.2",
    "SEND_006": "§10.2",
    "TASK_GET_001": "§10.3",
    "TASK_CANCEL_001": "§10.4",
    "INTERACT_001": "§8.1",
    "INTERACT_002": "§8.1",
    "INTERACT_003": "§4.1, §4",
    "INTERACT_004": "§8.2",
    "INTERACT_005": "§6.3, §4.1, §8.3",
    "TASK_POLL_001": "§9.3",
    "TASK_POLL_002": "§9.3",
    "TASK_POLL_003": "§9.1, §9.3",
    "TASK_POLL_004": "§9.3",
    "OUT_001": "§11.1, §11.5, §8.2",
    "OUT_002": "§11.3, App. B",
    "OUT_003": "§11.3, §11.4, App. B",
    "OUT_004": "§11.4, App. B, App. D",
    "OUT_005": "§11.2, §6.1",
    "OUT_006": "§11.5",
    "EXIT_001": "§11.6, App. D",
    "EXIT_002": "§6.6, §11.6",
    "AUTH_001": "§12.1",
    "AUTH_002": "§12.1, §6.5",
    "AUTH_003": "§12.1, §6.5",
    "AUTH_004": "§12.1, §7.2",
    "TX_001": "§13.1",
    "TX_002": "§13.1, §6.5",
    "TX_003": "§13.1",
    "VER_001": "§13.2",
    "DEFAULT_001": "§6.5",
    "CONFIG_001": "§8.3",
    "CLI_001": "§7.1, §7.2, §6.5",
    "SKILL_001": "§14.1, §14.2",
    "SKILL_002": "§14.3",
    "CARD_GET_002": "§10.1",
    "TASK_LIST_001": "§7.1, App. A",
    "TASK_SUBSCRIBE_001": "§7.1, §9.2",
    "TASK_SUBSCRIBE_002": "§9.4, §9.2",
    "AUTH_005": "§12.2",
    "AUTH_006": "§12.2",
    "AUTH_007": "§12.2",
    "TX_004": "§13.1",
    "VER_003": "§13.3",
    "CONFIG_002": "§8.3",
    "DOWNLOAD_001": "§7.1",
    "OUT_007": "§7.2",
    "CONFORM_001": "§7.1",
    "CLI_002": "§7.1",
    "PUSH_001": "§7.1, App. A",
    "CARD_GET_003": "§10.1, §12.4",
    "AUTH_008": "§12.4",
    "CARD_GET_004": "§10.1",
    "CARD_GET_005": "§10.1",
    "PUSH_002": "§9.2",
    "CHAT_001": "§8.1, §7.1",
    "TX_005": "§13.1",
    "AUTH_009": "§12.3",
    "AUTH_010": "§12.3",
    "AUTH_011": "§12.3",
    "DEMO_SERVER_001": "§7.1, §3",
    "VER_002": "§13.3, A2A §4.6",
}
_DEFAULTS = {
    "transport_server_preference_order": "--transport",
    "task_completion_wait_by_default": "--async",
    "output_human_readable_text": "-o; the default form is the answer alone, with the rest on stderr",
    "detail_level_concise": "--verbose",
    "protocol_version_highest_mutual": "--a2a-version",
    "transport_security_tls_on": "--insecure",
}
_ERRORS = (
    "USAGE", "CARD_NOT_FOUND", "CARD_INVALID", "UNREACHABLE", "CREDENTIALS_MISSING", "AUTH_FAILED",
    "TIMEOUT", "INTERNAL",
)  # fmt: skip


def report() -> str:
    """The report as YAML, for programs. Every text is written as JSON, which YAML is a superset
    of.
    """
    quote = functools.partial(json.dumps, ensure_ascii=False)
    lines = [
        "report:",
        '  tool: "accord"',
        '  language: "Python"',
        '  spec_version: "0.2"',
        '  spec_revision: "2026-08-17"',
        '  a2a_versions: ["1.0"]',
        '  agent_tested: "agents served by accord"',
        '  agent_tck_conformant: "unknown"',
        '  transports_covered: ["JSON-RPC", "HTTP+JSON", "gRPC"]',
        "  tier_claimed: 3",
        "summary:",
    ]
    for tier in (1, 2, 3):
        found = [one.status for one in REQUIREMENTS.values() if one.tier == tier]
        counts = {name: found.count(name) for name in (PASS, PARTIAL, FAIL, NOT_MEASURED, NA)}
        is_satisfied = counts[PASS] + counts[NA] == len(found)
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        lines.append(
            f"  tier_{tier}: {{total: {len(found)}, {told}, satisfied: {str(is_satisfied).lower()}}}"
        )
    lines.append("requirements:")
    for id_, one in REQUIREMENTS.items():
        lines += [
            f"  A2ACLI_{id_}:",
            f"    tier: {one.tier}",
            f"    area: {id_.rpartition('_')[0]}",
            f"    spec: {quote(_SECTIONS[id_])}",
            f"    requirement: {quote(one.says)}",
            f"    status: {one.status}",
            f"    note: {quote(one.note or None)}",
            f"    evidence: {quote(', '.join(f'tests/{test}' for test in one.tests) or None)}",
        ]
    lines.append("default_001_breakdown:")
    for name, note in _DEFAULTS.items():
        lines.append(f"  {name}: {{shipped: true, overridable: true, note: {quote(note)}}}")
    lines.append("error_codes:")
    lines += [f"  A2ACLI_ERR_{name}: {{emitted: true, note: null}}" for name in _ERRORS]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The report as a page."""
    lines = [
        "# The command line and its specification",
        "",
        "How `accord` stands to the A2A command line specification 0.2 (revision of 2026-08-17): every requirement, and the",
        "test that proves it. The ids are those of the specification without `A2ACLI_`. The tests run against agents served by",
        "Accord, over JSON-RPC, HTTP+JSON and gRPC. Made by `python -m tests.cli.compliance`, with the same [as YAML](cli-compliance.yaml).",
        "",
        "All three tiers are satisfied: every row passes. The default form of output, `answer`, is ours: the",
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
    REPORT.write_text(report())
