//! Direct reads: single messages, batches, the last of many subjects.

transcripts! { "direct":
    single,
    by_subject_in_the_subject,
    not_allowed,
    bad_requests,
    batches,
    batch_bytes,
    last_of_many,
    last_of_many_bounds,
    last_of_too_many,
    by_time,
}
