//! The life of consumers: ephemerals, resets, pauses, and limits that others set.

transcripts! { "lifecycle":
    ephemeral_without_pulls,
    ephemeral_defaults,
    ephemeral_kept_by_a_waiting_pull,
    ephemeral_goes_with_its_requester,
    ephemeral_after_a_restart,
    reset_to_the_floor,
    reset_to_a_sequence,
    reset_with_waiting_pulls,
    reset_rules,
    reset_push,
    reset_work_queue,
    reset_after_a_restart,
    limits_of_the_stream,
    limits_of_the_stream_change,
    limits_of_the_server,
    pause_push,
    paused_redelivery,
    leader_cannot_step_down,
    pause_by_update,
    advisories,
}
