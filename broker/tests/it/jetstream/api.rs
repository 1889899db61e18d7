//! The API itself: who may ask, what a request may hold, pages, levels, account information.

transcripts! { "api":
    account_info,
    unknown_subjects,
    empty_requests,
    strict_json,
    loose_json,
    api_levels,
    names_in_pages,
    lists,
    accounts_without_jetstream,
    not_enabled,
    domain_prefix,
    other_accounts,
    one_value_only,
}
