//! `/subsz`: the interest of accounts in figures and, on request, the subscriptions of this server.

use std::ops::Range;
use std::sync::Arc;

use api::monitor::{OptionsError, SubDetail, SublistStats, Subsz, SubszOptions};
use routing::interest::Side;

use super::accounts::{count, sublist_stats};
use super::{PageError, now, signed, text};
use crate::net::sink::{Account, Subscription};
use crate::server::Server;

/// `/subsz`.
pub fn subsz(server: &Server, options: &SubszOptions) -> Result<Subsz, PageError> {
    let test = options.test.as_bytes();
    if !test.is_empty() && !subject::is_literal(test) {
        return Err(OptionsError::TestSubject(options.test.clone()).into());
    }
    let accounts = if options.account.is_empty() {
        server.accounts.all()
    } else {
        server.accounts.get(&options.account).into_iter().collect()
    };
    let page = options.page();
    let mut document = Subsz {
        server_id: server.identity.id.clone(),
        now: now(),
        stats: total_stats(&accounts),
        offset: page.offset,
        limit: page.limit,
        ..Subsz::default()
    };
    if options.subscriptions {
        let (total, list) = list(&accounts, test, page.range(usize::MAX));
        document.total = signed(total as u64);
        document.subscriptions_list = list;
    }
    Ok(document)
}

/// Counts the local subscriptions that match and describes those on the page.
fn list(accounts: &[Arc<Account>], test: &[u8], page: Range<usize>) -> (usize, Vec<SubDetail>) {
    let mut total = 0;
    let mut found = Vec::new();
    for account in accounts {
        account.interest.for_each(|subscription| {
            let matches = test.is_empty() || subject::matches(test, &subscription.subject);
            if subscription.side != Side::Local || !matches {
                return;
            }
            if page.contains(&total) {
                found.push((account, Arc::clone(subscription)));
            }
            total += 1;
        });
    }
    // Texts are made outside of the lock that publishers wait for.
    let describe = |(account, subscription): (&Arc<Account>, Arc<Subscription>)| SubDetail {
        account: account.name().to_owned(),
        account_tag: account.name().to_owned(),
        ..describe(&subscription)
    };
    (total, found.into_iter().map(describe).collect())
}

/// A subscription with its counters, without its account.
pub(super) fn describe(subscription: &Subscription) -> SubDetail {
    SubDetail {
        subject: text(&subscription.subject),
        queue: subscription.queue.as_deref().map(text).unwrap_or_default(),
        sid: text(&subscription.sid),
        msgs: signed(subscription.delivered()),
        max: signed(subscription.max()),
        cid: subscription.sink.id(),
        ..SubDetail::default()
    }
}

fn total_stats(accounts: &[Arc<Account>]) -> SublistStats {
    accounts.iter().map(|account| sublist_stats(account.interest.stats())).fold(
        SublistStats::default(),
        |sum, stats| SublistStats {
            num_subscriptions: sum.num_subscriptions.saturating_add(stats.num_subscriptions),
            num_inserts: sum.num_inserts.saturating_add(stats.num_inserts),
            num_removes: sum.num_removes.saturating_add(stats.num_removes),
            ..sum
        },
    )
}

/// Subscriptions of all accounts, those that peers have told of included.
pub(super) fn total(server: &Server) -> u32 {
    let all = server.accounts.everywhere();
    all.iter().map(|account| count(account.interest.len())).fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use routing::account::Limits;

    use super::*;
    use crate::net::sink::Sink;
    use crate::system::Internal;

    fn account(name: &str, subjects: &[&str]) -> Arc<Account> {
        let account = Account::new(name, false, Limits::default());
        let (internal, _) = Internal::new(7, 1);
        let sink = Sink::Internal(Arc::new(internal));
        for (number, subject) in subjects.iter().enumerate() {
            let sid = number.to_string();
            let subscription = Subscription::local(sink.clone(), subject.as_bytes(), None, sid.as_bytes());
            account.interest.insert(name, &Arc::new(subscription)).unwrap();
        }
        let remote = Subscription::route(sink, b"a.remote", None);
        account.interest.insert(name, &Arc::new(remote)).unwrap();
        Arc::new(account)
    }

    #[test]
    fn a_test_subject_picks_local_subscriptions_over_all_accounts() {
        let accounts = [account("A", &["a.b", "a.*", "c"]), account("B", &["a.>"])];
        let (total, list) = list(&accounts, b"a.b", 0..10);
        assert_eq!(total, 3);
        let mut shown: Vec<_> = list.iter().map(|sub| (sub.account.as_str(), sub.subject.as_str())).collect();
        shown.sort_unstable();
        assert_eq!(shown, [("A", "a.*"), ("A", "a.b"), ("B", "a.>")]);
        assert!(list.iter().all(|sub| sub.cid == 7));
    }

    #[test]
    fn pages_follow_each_other_without_gap_or_overlap() {
        let accounts = [account("A", &["a", "b", "c"]), account("B", &["d", "e"])];
        let mut seen = Vec::new();
        for start in [0, 2, 4, 6] {
            let (total, page) = list(&accounts, b"", start..start + 2);
            assert_eq!(total, 5);
            seen.extend(page.into_iter().map(|sub| sub.subject));
        }
        seen.sort();
        assert_eq!(seen, ["a", "b", "c", "d", "e"]);
        assert_eq!(list(&accounts, b"", usize::MAX..usize::MAX).1, []);
    }
}
