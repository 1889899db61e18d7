//! Pushing: deliver subjects and groups, interest, heartbeats, flow control, pace.

transcripts! { "push":
    delivers,
    queue_group,
    interest_comes_and_goes,
    interest_shown,
    already_bound,
    heartbeats,
    heartbeat_after_messages,
    flow_control,
    redelivery,
    max_ack_pending,
    ephemeral_without_interest,
    ordered,
    headers_only,
    ack_reply_shown,
    stream_deleted,
    restart,
}
