//! Consumers of one stream, read together: when many of them are asked for, one list tells what else each would be asked for.
//!
//! Shared by all who read over the same connection. Whatever goes wrong with a list, the consumer is asked for by itself, so that a list
//! is never the reason why something is not known.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;

use super::need::{Reading, Sample};
use crate::jetstream::api::Js;
use crate::jetstream::problem::Problem;

/// Consumers that are asked for one by one at most; and so many pay for one page of a list.
pub const SINGLE_MAX: usize = 20;
/// Time without lists after one that did not come, and how long it is believed how many pages a list has.
const PAUSE: Duration = Duration::from_secs(60);

/// Lists of one connection, by stream.
#[derive(Default)]
pub struct Lists(Mutex<HashMap<String, Arc<tokio::sync::Mutex<Board>>>>);

/// What is known of the consumers of a stream.
#[derive(Default)]
struct Board {
    /// Consumers that are asked for, and until when that counts.
    wanted: HashMap<String, Instant>,
    list: Option<List>,
    /// Pages of a list that did not pay, and when that was found out.
    pages: Option<(usize, Instant)>,
    /// When a list did not come.
    failed: Option<Instant>,
}

impl Board {
    /// Whether those that are wanted pay for a list.
    fn pays(&self) -> bool {
        let fresh = |at: &Instant| at.elapsed() < PAUSE;
        let pages = self.pages.filter(|(_, at)| fresh(at)).map_or(1, |(pages, _)| pages);
        self.wanted.len() > SINGLE_MAX.saturating_mul(pages) && !self.failed.as_ref().is_some_and(fresh)
    }
}

/// What a list said of those that were wanted.
struct List {
    asked: Instant,
    at: Timestamp,
    samples: HashMap<String, Sample>,
}

impl Lists {
    /// What a list says about a consumer that is read each `interval`; `None` when it is better asked for by itself. A list is good for half
    /// an interval, so that two looks never see the same one.
    pub async fn find(&self, js: &Js<'_>, stream: &str, name: &str, interval: Duration) -> Option<Reading> {
        let board = self.board(stream);
        let mut board = board.lock().await;
        let now = Instant::now();
        board.wanted.retain(|_, until| *until > now);
        board.wanted.insert(name.to_owned(), now + interval * 2);
        if board.list.as_ref().is_none_or(|list| list.asked.elapsed() > interval / 2) {
            board.list = None;
            if !board.pays() {
                return None;
            }
            match read(js, stream, &board.wanted).await {
                Ok(Ok(list)) => board.list = Some(list),
                Ok(Err(pages)) => board.pages = Some((pages, Instant::now())),
                Err(_) => board.failed = Some(Instant::now()),
            }
        }
        let list = board.list.as_ref()?;
        list.samples.get(name).map(|sample| Reading { at: list.at, sample: sample.clone() })
    }

    fn board(&self, stream: &str) -> Arc<tokio::sync::Mutex<Board>> {
        let mut boards = self.0.lock();
        if let Some(board) = boards.get(stream) {
            return Arc::clone(board);
        }
        let now = Instant::now();
        // One that is locked is in use.
        boards.retain(|_, board| {
            board.try_lock().map_or(true, |board| board.wanted.values().any(|until| *until > now))
        });
        Arc::clone(boards.entry(stream.to_owned()).or_default())
    }
}

/// Reads a list, or says how many pages it has when the wanted consumers do not pay for so many.
async fn read(
    js: &Js<'_>,
    stream: &str,
    wanted: &HashMap<String, Instant>,
) -> Result<Result<List, usize>, Problem> {
    let asked = Instant::now();
    let mut samples = HashMap::new();
    let mut offset = 0;
    let mut read = 0;
    loop {
        let missing = || Problem::transient("SourceMissing", format!("there is no stream {stream}"));
        let page = js.consumers_from(stream, offset).await?.ok_or_else(missing)?;
        let count = page.consumers.len();
        read += 1;
        offset += i64::try_from(count).unwrap_or(i64::MAX);
        for info in page.consumers.iter().filter(|info| info.config.is_some()) {
            if wanted.contains_key(&info.name) {
                samples.insert(info.name.clone(), Sample::of_consumer(info));
            }
        }
        if count == 0 || offset >= page.page.total {
            return Ok(Ok(List { asked, at: Timestamp::now(), samples }));
        }
        // As many as it would be when each were as long as this one, and one more than there were when they become shorter.
        let total = usize::try_from(page.page.total).unwrap_or(usize::MAX);
        let pages = total.div_ceil(count).max(read + 1);
        if wanted.len() <= SINGLE_MAX.saturating_mul(pages) {
            return Ok(Err(pages));
        }
    }
}
