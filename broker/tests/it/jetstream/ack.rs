//! Acknowledgements: every verb, redelivery, delays, limits, advisories and metrics.

transcripts! { "ack":
    plain,
    confirmations,
    twice,
    all_up_to,
    none,
    nak,
    nak_with_delay,
    in_progress,
    next,
    terminate,
    nonsense,
    redelivery,
    deliveries_only_grow,
    samples,
    floors,
    limits_pass_pending,
    survives_a_crash,
}
