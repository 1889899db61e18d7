//! Requests of the API in the system account, and those of clusters everywhere.

transcripts! { "system":
    requests_of_clusters,
    system_account,
    purged_account,
}
