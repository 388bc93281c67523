"""Every rule of A2A 1.0, and the tests that prove it, or the reason why none does.

The ids group the rules of the specification by subject: GEN requests in general, SND send, HIS
history, CTX ids and contexts, STR streams, SUB subscriptions, GET, LST lists, CAN cancel, PCF push
configs, PDL push delivery, XCD extended card, CRD card, SIG signatures, VER versions, EXT
extensions, AUT authentication, ITA authorization inside a task, AZN access, TEN tenants, MSG
messages and task life, IDM idempotency, BND bindings, CUS custom bindings, OPS operation, ERR
errors.

`test_requirements.py` keeps this list complete: every id is here, every test exists and names the
rule it proves.
"""

from typing import NamedTuple

__all__ = ["COUNTS", "RULES", "Rule"]

COUNTS = {  # how many rules each group has
    "GEN": 9,
    "SND": 12,
    "HIS": 4,
    "CTX": 13,
    "STR": 9,
    "SUB": 4,
    "GET": 3,
    "LST": 9,
    "CAN": 4,
    "PCF": 7,
    "PDL": 11,
    "XCD": 5,
    "CRD": 7,
    "SIG": 7,
    "VER": 7,
    "EXT": 8,
    "AUT": 6,
    "ITA": 8,
    "AZN": 4,
    "TEN": 5,
    "MSG": 4,
    "IDM": 2,
    "BND": 5,
    "CUS": 3,
    "OPS": 4,
    "ERR": 8,
}

CLIENT = "a rule for clients: nothing a server does can prove it"
RECEIVER = "a rule for those who receive push notifications"
NO_SIGNING = "optional: cards are not signed yet"
NO_CUSTOM_BINDING = "there is no custom binding"


class Rule(NamedTuple):
    says: str
    tests: tuple[str, ...] = ()
    because: str = ""  # why there is no test


def proven(says: str, *tests: str) -> Rule:
    return Rule(says, tests)


def unproven(says: str, because: str) -> Rule:
    return Rule(says, (), because)


RULES = {
    "GEN-1": proven(
        "every failure is answered with an error that helps",
        "interaction/test_skills.py::test_a_failing_reply_is_an_error_and_tells_no_secrets",
        "interaction/test_skills.py::test_a_failing_route_is_our_fault_and_tells_no_secrets",
        "interaction/test_skills.py::test_a_failing_skill_fails_its_task_and_tells_no_secrets",
    ),
    "GEN-2": proven(
        "input is checked before anything is done, and the error names the field",
        "interaction/test_bind.py::test_data_that_does_not_fit_names_the_field",
        "interaction/test_errors.py::test_a_refused_request_leaves_no_trace",
        "interaction/test_get.py::test_a_negative_history_length_is_refused",
        "interaction/test_json.py::test_all_wrong_fields_are_named_at_once",
        "interaction/test_json.py::test_required_members_are_required",
        "interaction/test_json.py::test_what_is_not_base64_is_refused",
        "interaction/test_rest.py::test_a_bad_query_parameter_is_named",
        "interaction/test_skills.py::test_an_unknown_skill_is_refused",
    ),
    "GEN-3": proven(
        "missing or wrong credentials are refused with a challenge",
        "auth/test_api_keys.py::test_without_a_valid_key_nothing_is_done",
        "auth/test_oauth.py::test_a_token_that_proves_nothing_is_refused",
        "auth/test_oauth.py::test_the_challenge_says_what_is_needed",
    ),
    "GEN-4": proven(
        "a caller without permission gets an authorization error",
        "auth/test_api_keys.py::test_a_skill_may_need_a_scope",
        "auth/test_matrix.py::test_the_matrix",
    ),
    "GEN-5": proven(
        "what a caller may not see looks as if it were not there",
        "interaction/test_scope.py::test_a_task_of_another_tenant_cannot_be_told_from_none",
    ),
    "GEN-6": proven(
        "passing failures can be told from lasting ones, with a hint when to retry",
        "interaction/test_turns.py::test_the_messages_waiting_for_a_task_are_bounded",
    ),
    "GEN-7": proven(
        "what the card does not offer is refused with the error made for it",
        "conformance/test_sdk_client.py::test_the_sdk_learns_that_there_is_no_push",
        "conformance/test_sdk_client.py::test_the_server_refuses_an_extended_card",
        "interaction/test_capabilities.py::test_a_required_extension_must_be_activated",
        "interaction/test_capabilities.py::test_an_extended_card_is_refused_where_there_is_none",
        "interaction/test_capabilities.py::test_an_inline_push_config_is_refused_not_ignored",
        "interaction/test_capabilities.py::test_push_configs_are_refused_while_the_card_does_not_offer_them",
    ),
    "GEN-8": proven(
        "clients look at the card before they use what is optional",
        "conformance/test_sdk_client.py::test_the_server_refuses_an_extended_card",
    ),
    "GEN-9": proven(
        "a task goes on whatever becomes of the connection",
        "interaction/test_send.py::test_a_caller_who_hangs_up_stops_nothing",
        "interaction/test_send.py::test_a_send_that_does_not_wait_returns_the_task_at_once",
    ),
    "SND-1": proven(
        "the answer is a task or a message",
        "interaction/test_send.py::test_a_reply_skill_answers_with_a_bare_message",
    ),
    "SND-2": proven(
        "the answer holds exactly one of the two",
        "conformance/test_sdk_client.py::test_the_sdk_gets_a_bare_message",
        "interaction/test_send.py::test_a_reply_skill_answers_with_a_bare_message",
    ),
    "SND-3": proven(
        "a blocking send returns when the task is terminal or interrupted",
        "conformance/test_sdk_client.py::test_the_sdk_sends_and_waits",
        "interaction/test_auth_required.py::test_a_task_that_needs_authorization_says_what_for",
        "interaction/test_cancel.py::test_whoever_reads_or_waits_sees_the_cancel",
        "interaction/test_send.py::test_a_blocking_send_returns_at_a_question",
        "interaction/test_send.py::test_a_blocking_send_waits_for_the_end_of_the_work",
    ),
    "SND-4": proven(
        "a send that does not block returns as soon as the task exists",
        "conformance/test_sdk_client.py::test_the_sdk_sends_and_does_not_wait",
        "interaction/test_send.py::test_a_send_that_does_not_wait_returns_the_task_at_once",
    ),
    "SND-5": proven(
        "returnImmediately changes nothing for messages, streams and push",
        "interaction/test_send.py::test_a_reply_skill_answers_with_a_bare_message",
        "interaction/test_stream.py::test_return_immediately_changes_nothing_about_a_stream",
    ),
    "SND-6": proven(
        "a terminal task takes no message",
        "interaction/test_send.py::test_a_finished_conversation_goes_on_in_a_new_task",
        "interaction/test_send.py::test_a_message_for_a_finished_task_is_refused",
    ),
    "SND-7": proven(
        "a message for an unknown task is TaskNotFound",
        "interaction/test_send.py::test_a_message_for_an_unknown_task_is_refused",
    ),
    "SND-8": proven(
        "content the agent can't take is ContentTypeNotSupported",
        "interaction/test_bind.py::test_a_message_without_text_is_no_text",
        "interaction/test_card.py::test_input_modes_that_were_given_are_held_to",
        "interaction/test_card.py::test_later_messages_of_a_task_are_held_to_its_modes",
    ),
    "SND-9": proven(
        "a task that has not ended may take further messages",
        "interaction/test_turns.py::test_a_waiting_message_starts_the_next_turn_of_an_open_task",
    ),
    "SND-10": unproven(
        "output is shaped to the accepted output modes",
        "advice we don't follow yet: skills are not told the accepted output modes",
    ),
    "SND-11": proven(
        "an inline push config registers a webhook",
        "interaction/test_capabilities.py::test_an_inline_push_config_is_refused_not_ignored",
        "push/test_configs.py::test_a_config_comes_with_a_send",
    ),
    "SND-12": proven(
        "the order in which a request is judged",
        "interaction/test_errors.py::test_the_first_thing_wrong_is_what_is_told",
    ),
    "HIS-1": proven(
        "without a limit the server gives its own amount of history",
        "interaction/test_get.py::test_history_is_cut_from_the_front",
    ),
    "HIS-2": proven(
        "historyLength 0 leaves history out",
        "interaction/test_get.py::test_history_is_cut_from_the_front",
        "interaction/test_get.py::test_send_honours_the_history_length",
        "interaction/test_list.py::test_history_in_a_list_is_cut_as_anywhere",
    ),
    "HIS-3": proven(
        "never more than the n newest messages",
        "conformance/test_sdk_client.py::test_the_sdk_gets_a_task",
        "interaction/test_get.py::test_history_is_cut_from_the_front",
        "interaction/test_get.py::test_history_of_a_finished_task_is_cut_the_same_way",
        "interaction/test_get.py::test_send_honours_the_history_length",
        "interaction/test_list.py::test_history_in_a_list_is_cut_as_anywhere",
    ),
    "HIS-4": proven(
        "negative is refused, order is kept, every task in an answer is cut",
        "interaction/test_get.py::test_a_negative_history_length_is_refused",
        "interaction/test_get.py::test_history_is_cut_from_the_front",
        "interaction/test_get.py::test_the_snapshot_of_a_stream_honours_the_history_length",
    ),
    "CTX-1": proven(
        "a message without a context gets one, and it is returned",
        "interaction/test_send.py::test_a_reply_skill_answers_with_a_bare_message",
        "interaction/test_send.py::test_a_task_and_its_context_get_ids_from_the_server",
    ),
    "CTX-2": proven(
        "a client's contextId is taken as it is or refused",
        "interaction/test_send.py::test_a_context_chosen_by_the_client_is_kept",
    ),
    "CTX-3": proven(
        "clients don't invent contextIds",
        "conformance/test_client_rules.py::test_the_client_invents_no_context",
    ),
    "CTX-4": proven(
        "one contextId is one conversation",
        "interaction/test_send.py::test_a_context_chosen_by_the_client_is_kept",
    ),
    "CTX-5": proven(
        "task ids are made by the server, each once",
        "interaction/test_send.py::test_a_message_for_an_unknown_task_is_refused",
        "interaction/test_send.py::test_a_task_and_its_context_get_ids_from_the_server",
    ),
    "CTX-6": proven(
        "a taskId in a message names an existing task",
        "interaction/test_send.py::test_a_message_for_an_unknown_task_is_refused",
    ),
    "CTX-7": proven(
        "a taskId alone brings its context along",
        "interaction/test_send.py::test_the_task_says_which_context_an_answer_belongs_to",
    ),
    "CTX-8": proven(
        "a context that is not the task's is refused",
        "interaction/test_send.py::test_a_context_that_is_not_the_tasks_is_refused",
    ),
    "CTX-9": proven(
        "contextId alone starts a new task there, taskId continues one",
        "conformance/test_client_rules.py::test_the_client_invents_no_context",
        "interaction/test_send.py::test_a_context_chosen_by_the_client_is_kept",
        "interaction/test_send.py::test_a_finished_conversation_goes_on_in_a_new_task",
    ),
    "CTX-10": proven(
        "a question is answered by a message that names the task",
        "conformance/test_sdk_client.py::test_the_sdk_answers_a_question",
        "interaction/test_send.py::test_the_task_says_which_context_an_answer_belongs_to",
    ),
    "CTX-11": proven(
        "referenced tasks are handed to the agent",
        "interaction/test_send.py::test_the_skill_sees_the_tasks_a_message_refers_to",
    ),
    "CTX-12": proven(
        "agent messages name context, and task if there is one",
        "interaction/test_send.py::test_what_the_agent_says_names_its_task_and_context",
    ),
    "CTX-13": proven(
        "tasks of one context run side by side",
        "interaction/test_send.py::test_tasks_of_one_context_run_side_by_side",
    ),
    "STR-1": proven(
        "a stream shows progress as it happens",
        "interaction/test_stream.py::test_a_stream_shows_the_task_and_then_every_change",
        "interaction/test_stream.py::test_progress_is_shown_while_the_work_goes_on",
    ),
    "STR-2": proven(
        "a stream is one message, or a task and its updates",
        "conformance/test_sdk_client.py::test_the_sdk_gets_a_bare_message",
        "conformance/test_sdk_client.py::test_the_sdk_streams",
        "interaction/test_stream.py::test_a_reply_streams_as_one_message",
        "interaction/test_stream.py::test_a_stream_shows_the_task_and_then_every_change",
    ),
    "STR-3": proven(
        "a stream closes at the end of the task",
        "interaction/test_cancel.py::test_whoever_reads_or_waits_sees_the_cancel",
        "interaction/test_stream.py::test_a_stream_shows_the_task_and_then_every_change",
    ),
    "STR-4": unproven(
        "a last snapshot may be sent before closing",
        "optional, and not done: the last update is the last frame",
    ),
    "STR-5": proven(
        "a stream is refused as a send is",
        "interaction/test_stream.py::test_a_stream_is_refused_as_a_send_is_with_a_plain_answer",
    ),
    "STR-6": proven(
        "events come in the order they happened",
        "interaction/test_stream.py::test_a_stream_shows_the_task_and_then_every_change",
        "interaction/test_stream.py::test_readers_of_one_task_see_the_same_events_in_the_same_order",
    ),
    "STR-7": proven(
        "several streams of a task show the same and don't touch each other",
        "interaction/test_stream.py::test_closing_one_stream_closes_no_other",
        "interaction/test_stream.py::test_readers_of_one_task_see_the_same_events_in_the_same_order",
    ),
    "STR-8": proven(
        "a reconnecting client may have missed status messages",
        "interaction/test_subscribe.py::test_a_broken_stream_goes_on_where_it_broke",
    ),
    "STR-9": proven(
        "append and lastChunk say how chunks make an artifact",
        "interaction/test_stream.py::test_an_artifact_sent_again_replaces_the_earlier_one",
        "interaction/test_stream.py::test_yields_are_chunks_of_one_artifact",
    ),
    "SUB-1": proven(
        "a subscription begins with the task as it stands",
        "conformance/test_sdk_client.py::test_the_sdk_subscribes",
        "interaction/test_subscribe.py::test_a_late_reader_starts_from_the_task_as_it_stands",
    ),
    "SUB-2": proven(
        "a subscription closes when the task ends",
        "conformance/test_sdk_client.py::test_the_sdk_subscribes",
        "interaction/test_subscribe.py::test_a_late_reader_starts_from_the_task_as_it_stands",
    ),
    "SUB-3": proven(
        "unknown and ended tasks can't be subscribed to",
        "interaction/test_subscribe.py::test_a_finished_task_cannot_be_subscribed_to",
        "interaction/test_subscribe.py::test_an_unknown_task_cannot_be_subscribed_to",
    ),
    "SUB-4": proven(
        "every task that has not ended can be",
        "interaction/test_subscribe.py::test_a_late_reader_starts_from_the_task_as_it_stands",
        "interaction/test_subscribe.py::test_a_subscription_follows_a_task_parked_before_a_restart",
        "interaction/test_subscribe.py::test_a_subscription_to_a_parked_task_lives_until_its_end",
    ),
    "GET-1": proven(
        "get returns the bare task, or TaskNotFound",
        "conformance/test_sdk_client.py::test_the_sdk_gets_a_task",
        "interaction/test_get.py::test_a_task_can_be_read_as_often_as_wanted",
        "interaction/test_get.py::test_an_unknown_task_is_not_found",
    ),
    "GET-2": proven(
        "get checks that the caller may see the task",
        "interaction/test_scope.py::test_a_task_of_another_tenant_cannot_be_told_from_none",
    ),
    "GET-3": proven(
        "get changes nothing",
        "interaction/test_get.py::test_a_task_can_be_read_as_often_as_wanted",
    ),
    "LST-1": proven(
        "only the caller's tasks are listed",
        "interaction/test_list.py::test_a_task_at_work_is_listed_as_it_stands",
        "interaction/test_scope.py::test_any_tenant_is_accepted_and_keeps_its_own_tasks",
    ),
    "LST-2": proven(
        "pages are walked with a cursor",
        "conformance/test_sdk_client.py::test_the_sdk_pages_through_a_list",
        "interaction/test_list.py::test_pages_follow_each_other_without_gap_or_overlap",
        "interaction/test_list.py::test_tasks_made_while_paging_do_not_shift_the_pages",
        "interaction/test_restart.py::test_lists_and_totals_survive_a_stop",
    ),
    "LST-3": proven(
        "newest status first",
        "interaction/test_list.py::test_the_newest_status_comes_first",
        "interaction/test_restart.py::test_lists_and_totals_survive_a_stop",
    ),
    "LST-4": proven(
        "nextPageToken is always there, empty at the end",
        "conformance/test_sdk_client.py::test_the_sdk_pages_through_a_list",
        "interaction/test_list.py::test_a_page_that_ends_with_the_list_has_no_next",
        "interaction/test_list.py::test_an_empty_list_has_all_its_members",
        "interaction/test_list.py::test_pages_follow_each_other_without_gap_or_overlap",
    ),
    "LST-5": proven(
        "artifacts are absent unless asked for",
        "interaction/test_list.py::test_artifacts_are_listed_only_when_asked_for",
    ),
    "LST-6": proven(
        "pageSize is 1 to 100, 50 by default; a page may be shorter",
        "interaction/test_list.py::test_a_page_size_out_of_range_is_refused",
        "interaction/test_list.py::test_a_page_ends_early_when_it_holds_enough",
    ),
    "LST-7": proven(
        "filters by context, state and time",
        "conformance/test_sdk_client.py::test_the_sdk_filters_a_list",
        "interaction/test_list.py::test_tasks_can_be_filtered_by_context_and_state",
        "interaction/test_list.py::test_the_lower_bound_in_time_is_inclusive",
    ),
    "LST-8": proven(
        "totalSize counts the matches, pageSize is the one applied",
        "conformance/test_sdk_client.py::test_the_sdk_pages_through_a_list",
        "interaction/test_list.py::test_an_empty_list_has_all_its_members",
        "interaction/test_list.py::test_pages_follow_each_other_without_gap_or_overlap",
        "interaction/test_list.py::test_tasks_can_be_filtered_by_context_and_state",
        "interaction/test_restart.py::test_lists_and_totals_survive_a_stop",
    ),
    "LST-9": proven(
        "a token that is none is refused",
        "interaction/test_list.py::test_a_token_this_server_did_not_give_is_refused",
    ),
    "CAN-1": proven(
        "cancel tries, and returns the task",
        "conformance/test_sdk_client.py::test_the_sdk_cancels",
        "interaction/test_cancel.py::test_a_question_can_be_cancelled",
        "interaction/test_cancel.py::test_a_working_task_is_stopped_and_returned",
    ),
    "CAN-2": proven(
        "ended tasks are not cancelable, unknown ones not found",
        "conformance/test_sdk_client.py::test_the_sdk_cancels",
        "interaction/test_cancel.py::test_an_unknown_task_cannot_be_cancelled",
        "interaction/test_cancel.py::test_other_ends_are_not_cancelable",
    ),
    "CAN-3": proven(
        "cancelling again changes nothing",
        "interaction/test_cancel.py::test_cancelling_again_returns_the_same_task",
        "interaction/test_cancel.py::test_two_cancels_at_once_agree",
    ),
    "CAN-4": proven(
        "cancel checks access",
        "interaction/test_scope.py::test_a_task_of_another_tenant_cannot_be_told_from_none",
    ),
    "PCF-1": proven(
        "create registers a webhook and returns it with its id",
        "push/test_configs.py::test_a_config_is_created_read_listed_and_deleted",
    ),
    "PCF-2": proven(
        "configs of unknown tasks, and unknown configs, are TaskNotFound",
        "push/test_configs.py::test_configs_of_what_is_not_there_are_not_found",
    ),
    "PCF-3": proven(
        "get returns a config",
        "push/test_configs.py::test_a_config_is_created_read_listed_and_deleted",
    ),
    "PCF-4": proven(
        "list returns all configs of a task",
        "push/test_configs.py::test_a_config_is_created_read_listed_and_deleted",
    ),
    "PCF-5": proven(
        "delete is for good, and may be repeated",
        "push/test_configs.py::test_a_config_is_created_read_listed_and_deleted",
        "push/test_configs.py::test_a_deleted_config_gets_no_more_calls",
    ),
    "PCF-6": proven(
        "all four check access to the task",
        "push/test_configs.py::test_another_tenants_configs_are_not_found",
    ),
    "PCF-7": proven(
        "a task may have several configs",
        "push/test_configs.py::test_a_config_is_created_read_listed_and_deleted",
    ),
    "PDL-1": proven(
        "the body of a call is one stream response",
        "push/test_configs.py::test_a_config_comes_with_a_send",
    ),
    "PDL-2": proven(
        "calls are authenticated as configured",
        "push/test_signing.py::test_credentials_are_sent_exactly_as_configured",
    ),
    "PDL-3": proven(
        "at least one attempt per webhook",
        "push/test_delivery.py::test_failures_are_tried_again_in_order",
    ),
    "PDL-4": proven(
        "time limits, retries with growing pauses",
        "push/test_delivery.py::test_attempts_follow_the_schedule",
    ),
    "PDL-5": proven(
        "no calls to private addresses",
        "push/test_guard.py::test_refused_when_it_is_registered",
    ),
    "PDL-6": proven(
        "receivers answer 2xx",
        "push/test_receiver.py::test_a_repeated_delivery_is_acknowledged_and_not_given_on",
    ),
    "PDL-7": proven(
        "receivers check who calls and for which task",
        "push/test_receiver.py::test_what_is_not_proved_is_refused",
    ),
    "PDL-8": proven(
        "receivers cope with duplicates",
        "push/test_receiver.py::test_a_repeated_delivery_is_acknowledged_and_not_given_on",
    ),
    "PDL-9": proven(
        "webhook URLs are HTTPS, tokens are secrets",
        "push/test_configs.py::test_credentials_are_told_to_nobody",
        "push/test_guard.py::test_refused_when_it_is_registered",
    ),
    "PDL-10": unproven("receivers fetch the task after a notification", RECEIVER),
    "PDL-11": proven(
        "a signed token may prove the sender",
        "push/test_signing.py::test_a_delivery_is_signed_with_a_published_key",
    ),
    "XCD-1": proven(
        "the extended card needs authentication",
        "auth/test_extended_card.py::test_each_caller_gets_its_own",
        "auth/test_extended_card.py::test_it_needs_authentication",
        "auth/test_extended_card.py::test_over_grpc_too",
    ),
    "XCD-2": proven(
        "it may differ by caller", "auth/test_extended_card.py::test_each_caller_gets_its_own"
    ),
    "XCD-3": proven(
        "it gives nothing away that the caller may not know",
        "auth/test_extended_card.py::test_each_caller_gets_its_own",
    ),
    "XCD-4": unproven("clients replace the public card with it", CLIENT),
    "XCD-5": proven(
        "it is refused as the capability says",
        "interaction/test_capabilities.py::test_an_extended_card_is_refused_where_there_is_none",
    ),
    "CRD-1": proven(
        "a card is published at the well-known place",
        "interaction/test_card.py::test_the_card_says_what_is_served",
    ),
    "CRD-2": proven(
        "every binding is declared, truthfully",
        "interaction/test_card.py::test_every_interface_of_the_card_can_be_used",
        "interaction/test_card.py::test_the_card_says_what_is_served",
        "interaction/test_card.py::test_the_newest_version_is_preferred",
    ),
    "CRD-3": proven(
        "clients take the first interface they can use, with its tenant",
        "conformance/test_client_rules.py::test_every_request_carries_the_tenant_of_its_interface",
    ),
    "CRD-4": proven(
        "the card is cacheable",
        "interaction/test_card.py::test_head_of_the_card_has_the_headers_of_get_and_no_body",
        "interaction/test_card.py::test_the_card_can_be_cached",
        "interaction/test_card.py::test_the_card_is_not_sent_again_if_it_is_as_old_as_known",
    ),
    "CRD-5": proven(
        "no secrets or internals in the card",
        "interaction/test_card.py::test_a_strangers_host_header_is_not_believed",
    ),
    "CRD-6": proven(
        "the mandatory members are there",
        "interaction/test_card.py::test_a_card_needs_nothing_but_a_name_and_a_skill",
        "interaction/test_card.py::test_the_card_says_what_is_served",
    ),
    "CRD-7": proven(
        "several versions may be offered as several interfaces",
        "interaction/test_card.py::test_the_newest_version_is_preferred",
    ),
    "SIG-1": unproven("cards may be signed", NO_SIGNING),
    "SIG-2": unproven("the canonical form that is signed", NO_SIGNING),
    "SIG-3": unproven("JSON canonicalization", NO_SIGNING),
    "SIG-4": unproven("what the protected header holds", NO_SIGNING),
    "SIG-5": unproven("how the signature is made", NO_SIGNING),
    "SIG-6": unproven("clients verify signatures", NO_SIGNING),
    "SIG-7": proven(
        "cards that canonicalize the same way everywhere",
        "interaction/test_card.py::test_a_card_holds_no_empty_or_unknown_member",
    ),
    "VER-1": proven(
        "clients send A2A-Version, as a header or a parameter",
        "conformance/test_client_rules.py::test_every_request_names_the_version",
        "interaction/test_version.py::test_the_header_goes_before_the_query_parameter",
        "interaction/test_version.py::test_the_version_may_be_a_query_parameter",
    ),
    "VER-2": proven(
        "patch numbers don't matter",
        "conformance/test_client_rules.py::test_every_request_names_the_version",
        "interaction/test_version.py::test_a_version_is_its_first_two_numbers",
    ),
    "VER-3": proven(
        "a version not served is VersionNotSupported",
        "interaction/test_version.py::test_a_version_is_its_first_two_numbers",
        "interaction/test_version.py::test_an_old_version_can_be_left_out",
        "interaction/test_version.py::test_an_unknown_version_is_refused",
        "interaction/test_version.py::test_every_operation_checks_the_version",
    ),
    "VER-4": proven(
        "no version means 0.3, or what the names in the request say",
        "interaction/test_version.py::test_the_names_of_an_old_version_mean_that_version",
    ),
    "VER-5": proven(
        "clients negotiate version and binding",
        "conformance/test_client_rules.py::test_version_and_binding_are_the_newest_both_speak",
    ),
    "VER-6": proven(
        "old and new peers side by side",
        "interaction/test_version.py::test_the_names_of_an_old_version_mean_that_version",
    ),
    "VER-7": proven(
        "the first two numbers are compared, garbage is refused",
        "interaction/test_version.py::test_a_version_is_its_first_two_numbers",
        "interaction/test_version.py::test_an_unknown_version_is_refused",
    ),
    "EXT-1": proven(
        "extensions are declared in the card",
        "interaction/test_capabilities.py::test_extensions_are_declared_in_the_card",
        "interaction/test_capabilities.py::test_the_card_has_the_schemas_of_skills",
    ),
    "EXT-2": proven(
        "an extension is active only in requests that ask for it",
        "interaction/test_capabilities.py::test_an_activated_extension_is_named_in_the_answer",
        "interaction/test_capabilities.py::test_extensions_are_inactive_until_asked_for",
    ),
    "EXT-3": proven(
        "the answer names those in force",
        "interaction/test_capabilities.py::test_an_activated_extension_is_named_in_the_answer",
    ),
    "EXT-4": proven(
        "unknown ones are ignored, required ones never replaced by another version",
        "interaction/test_capabilities.py::test_a_required_extension_must_be_activated",
        "interaction/test_capabilities.py::test_an_activated_extension_is_named_in_the_answer",
    ),
    "EXT-5": proven(
        "a required extension that is not activated is an error",
        "interaction/test_capabilities.py::test_a_required_extension_must_be_activated",
    ),
    "EXT-6": proven(
        "extension URIs carry a version",
        "interaction/test_capabilities.py::test_extensions_are_declared_in_the_card",
    ),
    "EXT-7": proven(
        "extension data is in metadata, under the URI",
        "interaction/test_capabilities.py::test_extension_data_travels_in_metadata_and_names",
    ),
    "EXT-8": unproven("what extensions may and may not do", "a guide for authors of extensions"),
    "AUT-1": unproven(
        "production traffic is encrypted",
        "a matter of how the server is run: TLS in front of it or in it",
    ),
    "AUT-2": unproven("clients verify certificates", CLIENT),
    "AUT-3": proven(
        "clients send credentials in headers",
        "conformance/test_client_rules.py::test_credentials_travel_in_headers_alone",
    ),
    "AUT-4": proven(
        "every request is authenticated as declared",
        "auth/test_api_keys.py::test_a_key_names_its_caller",
        "auth/test_matrix.py::test_the_matrix",
        "auth/test_oauth.py::test_a_token_names_its_caller",
        "auth/test_tls.py::test_a_certificate_names_its_caller",
    ),
    "AUT-5": proven(
        "skills and data may be authorized one by one",
        "auth/test_api_keys.py::test_a_message_to_a_task_needs_the_scope_of_its_skill",
        "auth/test_api_keys.py::test_a_skill_may_need_a_scope",
    ),
    "AUT-6": proven(
        "the kinds of schemes, the same on every binding",
        "auth/test_api_keys.py::test_a_key_may_be_in_the_query_or_a_cookie",
        "auth/test_api_keys.py::test_basic",
        "auth/test_api_keys.py::test_one_of_two_schemes_is_enough_and_two_may_be_needed",
        "auth/test_oauth.py::test_oauth_tokens_are_introspected",
        "auth/test_oauth.py::test_openid_connect_finds_the_keys_by_discovery",
        "auth/test_tls.py::test_a_certificate_and_a_key",
    ),
    "ITA-1": proven(
        "AUTH_REQUIRED says what is needed",
        "interaction/test_auth_required.py::test_a_task_that_needs_authorization_says_what_for",
    ),
    "ITA-2": proven(
        "credentials come out of band",
        "interaction/test_auth_required.py::test_streams_stay_open_and_the_work_goes_on_by_itself",
    ),
    "ITA-3": proven(
        "streams stay open meanwhile, and the work goes on by itself",
        "interaction/test_auth_required.py::test_streams_stay_open_and_the_work_goes_on_by_itself",
    ),
    "ITA-4": proven(
        "messages are taken meanwhile",
        "interaction/test_auth_required.py::test_a_message_is_taken_while_authorization_is_awaited",
    ),
    "ITA-5": unproven("clients respond, delegate or fulfil", CLIENT),
    "ITA-6": proven(
        "clients without a stream subscribe or poll",
        "conformance/test_client_rules.py::test_a_client_without_a_stream_can_wait_for_the_grant",
    ),
    "ITA-7": unproven(
        "in-band credentials are for the asking agent alone", "no credentials are taken in band"
    ),
    "ITA-8": proven(
        "neither state nor message authorizes anything by itself",
        "interaction/test_auth_required.py::test_a_message_is_taken_while_authorization_is_awaited",
    ),
    "AZN-1": proven(
        "every operation is scoped to its caller",
        "interaction/test_scope.py::test_any_tenant_is_accepted_and_keeps_its_own_tasks",
    ),
    "AZN-2": proven(
        "access is checked before existence can show",
        "interaction/test_scope.py::test_a_task_of_another_tenant_cannot_be_told_from_none",
    ),
    "AZN-3": proven(
        "how access is modelled is free, and documented",
        "docs/test_security.py::test_an_agent_is_served_as_the_page_says",
    ),
    "AZN-4": proven(
        "cancel, subscribe and push configs check access to the task",
        "interaction/test_scope.py::test_a_task_of_another_tenant_cannot_be_told_from_none",
    ),
    "TEN-1": proven(
        "clients send the tenant of the interface they chose",
        "conformance/test_client_rules.py::test_every_request_carries_the_tenant_of_its_interface",
        "conformance/test_client_rules.py::test_no_tenant_is_sent_where_the_card_has_none",
    ),
    "TEN-2": proven(
        "a tenant is any text",
        "interaction/test_scope.py::test_a_tenant_may_be_any_text",
        "interaction/test_scope.py::test_any_tenant_is_accepted_and_keeps_its_own_tasks",
    ),
    "TEN-3": proven(
        "HTTP+JSON takes it in the path",
        "interaction/test_scope.py::test_a_tenant_may_be_any_text",
        "interaction/test_scope.py::test_every_path_can_have_a_tenant_in_front",
        "interaction/test_scope.py::test_the_tenant_may_be_in_path_body_or_query",
    ),
    "TEN-4": proven(
        "agents may be told apart by URL instead",
        "interaction/test_mount.py::test_two_agents_live_in_one_host",
    ),
    "TEN-5": proven(
        "path and body must agree; tenants don't see each other",
        "interaction/test_scope.py::test_a_tenant_said_twice_must_be_the_same",
        "interaction/test_scope.py::test_any_tenant_is_accepted_and_keeps_its_own_tasks",
    ),
    "MSG-1": proven(
        "results are artifacts, not messages",
        "interaction/test_skills.py::test_what_a_skill_returns_becomes_an_artifact",
    ),
    "MSG-2": proven(
        "messages may be kept, and are no reliable delivery",
        "interaction/test_turns.py::test_everything_said_is_in_the_history_in_order",
    ),
    "MSG-3": proven(
        "tasks can be rejected; every status has its time",
        "interaction/test_json.py::test_times_are_utc_with_milliseconds",
        "interaction/test_list.py::test_the_newest_status_comes_first",
        "interaction/test_skills.py::test_a_skill_may_say_why_it_fails_or_declines",
    ),
    "MSG-4": proven(
        "terminal is final",
        "interaction/test_cancel.py::test_a_question_can_be_cancelled",
        "interaction/test_send.py::test_a_message_for_a_finished_task_is_refused",
    ),
    "IDM-1": proven(
        "reading, cancelling and deleting can be repeated",
        "interaction/test_cancel.py::test_cancelling_again_returns_the_same_task",
        "interaction/test_get.py::test_a_task_can_be_read_as_often_as_wanted",
    ),
    "IDM-2": proven(
        "sending can be, by key or messageId",
        "interaction/test_idempotency.py::test_a_refused_message_does_not_use_up_its_key",
        "interaction/test_idempotency.py::test_a_stream_asked_for_again_shows_the_same_task",
        "interaction/test_idempotency.py::test_an_answer_sent_again_is_taken_once",
        "interaction/test_idempotency.py::test_an_answer_under_a_key_streams_all_that_follows_it",
        "interaction/test_idempotency.py::test_another_key_is_another_task",
        "interaction/test_idempotency.py::test_the_same_message_again_gives_the_same_task",
        "interaction/test_idempotency.py::test_two_sends_at_once_are_one_task",
    ),
    "BND-1": proven(
        "every binding does the same",
        "conformance/test_sdk_client.py::test_all_bindings_show_the_sdk_the_same",
        "interaction/test_errors.py::test_an_error_means_the_same_on_every_binding",
    ),
    "BND-2": proven(
        "the JSON rules: names, enums, times, required and unknown members",
        "interaction/test_json.py::test_members_are_written_in_camel_case_and_enums_by_name",
        "interaction/test_json.py::test_required_members_are_required",
        "interaction/test_json.py::test_times_are_utc_with_milliseconds",
        "interaction/test_json.py::test_unknown_members_are_ignored_and_not_kept",
        "interaction/test_jsonrpc.py::test_unknown_members_of_the_envelope_are_ignored",
    ),
    "BND-3": proven(
        "every binding shows the same data",
        "conformance/test_sdk_client.py::test_all_bindings_show_the_sdk_the_same",
        "interaction/test_rest.py::test_the_answer_is_of_the_type_asked_for",
    ),
    "BND-4": proven(
        "JSON-RPC 2.0, and service parameters as headers",
        "interaction/test_jsonrpc.py::test_a_malformed_envelope_is_an_invalid_request",
        "interaction/test_jsonrpc.py::test_every_frame_of_a_stream_carries_the_id",
        "interaction/test_jsonrpc.py::test_requests_on_one_connection_are_answered_in_order",
        "interaction/test_jsonrpc.py::test_the_id_is_echoed_as_it_came",
    ),
    "BND-5": proven(
        "HTTP+JSON parameters in path and query",
        "interaction/test_rest.py::test_a_bad_query_parameter_is_named",
        "interaction/test_rest.py::test_an_id_in_the_body_must_be_the_one_in_the_path",
        "interaction/test_rest.py::test_an_id_is_one_segment_whatever_is_in_it",
        "interaction/test_rest.py::test_an_unknown_id_comes_back_decoded",
        "interaction/test_rest.py::test_query_parameters_are_camel_case_and_percent_encoded",
    ),
    "CUS-1": unproven("custom bindings have a URI", NO_CUSTOM_BINDING),
    "CUS-2": unproven("custom bindings keep the whole of the protocol", NO_CUSTOM_BINDING),
    "CUS-3": unproven("custom bindings are tested against the standard ones", NO_CUSTOM_BINDING),
    "OPS-1": proven(
        "no secrets in logs or answers",
        "interaction/test_skills.py::test_a_failing_reply_is_an_error_and_tells_no_secrets",
        "interaction/test_skills.py::test_a_failing_skill_fails_its_task_and_tells_no_secrets",
    ),
    "OPS-2": proven(
        "sizes, depth and rates are limited",
        "interaction/test_idempotency.py::test_a_key_too_long_is_refused",
        "interaction/test_json.py::test_a_body_too_large_is_refused",
        "interaction/test_json.py::test_a_body_too_large_is_refused_though_its_length_is_not_told",
        "interaction/test_json.py::test_a_deep_value_inside_the_limit_is_fine",
        "interaction/test_json.py::test_brackets_in_text_are_not_depth",
        "interaction/test_json.py::test_sizes_and_ids_are_bounded",
        "interaction/test_turns.py::test_the_messages_waiting_for_a_task_are_bounded",
    ),
    "OPS-3": proven(
        "content is checked and can't inject or make the server call addresses",
        "interaction/test_bind.py::test_a_url_is_handed_over_and_not_fetched",
        "interaction/test_json.py::test_sizes_and_ids_are_bounded",
        "interaction/test_json.py::test_what_an_agent_writes_cannot_break_the_frame",
    ),
    "OPS-4": unproven("traces and metrics", "a guide for operators, with no rule to break"),
    "ERR-1": proven(
        "an error has a code and a message",
        "interaction/test_errors.py::test_an_error_means_the_same_on_every_binding",
    ),
    "ERR-2": proven(
        "every detail has its @type",
        "interaction/test_errors.py::test_every_detail_says_what_it_is",
    ),
    "ERR-3": proven(
        "details are google.rpc types",
        "interaction/test_bind.py::test_data_that_does_not_fit_names_the_field",
        "interaction/test_errors.py::test_every_detail_says_what_it_is",
    ),
    "ERR-4": proven(
        "the codes of the table, with the same meaning everywhere",
        "conformance/test_sdk_client.py::test_the_sdk_understands_our_errors",
        "interaction/test_errors.py::test_an_error_means_the_same_on_every_binding",
        "interaction/test_errors.py::test_no_two_errors_share_a_reason_or_an_a2a_code",
    ),
    "ERR-5": proven(
        "ErrorInfo with reason and domain",
        "interaction/test_errors.py::test_an_error_means_the_same_on_every_binding",
    ),
    "ERR-6": proven(
        "its metadata is text to text",
        "interaction/test_errors.py::test_every_detail_says_what_it_is",
    ),
    "ERR-7": proven(
        "further details may follow",
        "interaction/test_errors.py::test_every_detail_says_what_it_is",
    ),
    "ERR-8": proven(
        "clients go by ErrorInfo first",
        "conformance/test_client_rules.py::test_errors_are_told_apart_by_reason_and_then_by_code",
        "conformance/test_client_rules.py::test_statuses_of_the_first_release_are_understood",
    ),
}
