//! Priority groups: overflow, pinned clients, priorities.

transcripts! { "groups":
    overflow_by_pending,
    overflow_by_ack_pending,
    overflow_by_either,
    overflow_among_others,
    requests_refused,
    pinned,
    unpin_rules,
    unpin_with_nobody_pinned,
    unpin_with_a_waiting_pull,
    pin_ends_by_itself,
    pin_after_a_restart,
    pinned_requester_gone,
    prioritized,
    policy_changed,
    pin_and_ack,
    pin_and_nak,
    pin_and_term,
    pin_and_progress,
}
