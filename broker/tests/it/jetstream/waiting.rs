//! What happens to waiting clients, in which numbers and at which pace messages come.

transcripts! { "waiting":
    consumer_deleted,
    stream_deleted,
    server_stops,
    consumer_updated,
    filters_count_exactly,
    filters_changed,
    last_per_subject_counts,
    replay_original,
    samples_of_some,
    samples_of_ack_all,
    samples_of_next,
    flow_control_asks,
    flow_control_stalls,
    rate_limit,
}
