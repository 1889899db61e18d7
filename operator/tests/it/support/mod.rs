//! What the tests stand on.

pub(crate) mod apiserver;
pub(crate) mod broker;
pub(crate) mod gate;
pub(crate) mod kubelet;
pub(crate) mod objects;
pub(crate) mod tools;
pub(crate) mod world;

use std::time::Duration;

/// Longest wait for anything; generous because the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);
/// Pause between looks.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Waits until `look` finds something, and says what was waited for when it does not.
pub(crate) async fn until<T, F: AsyncFnMut() -> Option<T>>(what: &str, mut look: F) -> T {
    let mut looks = tokio::time::interval(LOOK);
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            looks.tick().await;
            if let Some(found) = look().await {
                return found;
            }
        }
    });
    found.await.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
}
