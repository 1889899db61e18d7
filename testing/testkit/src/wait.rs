//! Bounded waits for conditions.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How long a test waits for something that should come at once. Generous, because tests share two cores.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two looks at a condition.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Runs a future with a bound; panics with `what` when the bound passes.
pub async fn within<F: Future>(bound: Duration, what: &str, future: F) -> F::Output {
    match timeout(bound, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {bound:?}: {what}"),
    }
}

/// Looks again and again until `probe` gives a value; panics with `what` after [`PATIENCE`].
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    eventually_ok(what, async || probe().await.ok_or("the condition did not hold")).await
}

/// Like [`eventually`], for probes that can say what they saw; the last thing seen is part of the panic.
pub async fn eventually_ok<T, E, F>(what: &str, mut probe: F) -> T
where
    F: AsyncFnMut() -> Result<T, E>,
    E: std::fmt::Display,
{
    let deadline = Instant::now() + PATIENCE;
    let mut ticks = interval(POLL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match probe().await {
            Ok(value) => return value,
            Err(seen) => assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}; last: {seen}"),
        }
    }
}
