//! Stored messages: reading, deleting and purging them.

transcripts! { "messages":
    get,
    get_by_subject,
    get_by_time,
    delete,
    delete_denied,
    purge,
    purge_filtered,
    purge_sequence,
    purge_keep,
    purge_denied,
    purge_with_consumers,
    after_a_crash,
}
