//! The log: one line per event in the reference's form, or as JSON; to stderr or a file that rotates by size.
//!
//! Client test suites wait for some of these lines, so the text form is `[pid] date time [LVL] message`.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use chrono::{DateTime, Local, Utc};
use config::options::{LogFormat, Logging};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// Longest name of a rotated file's date part: `2026.12.02.06.59.00.123456789`.
const ROTATED_FORMAT: &str = "%Y.%m.%d.%H.%M.%S.%f";

/// A log file does not open.
#[derive(Debug, thiserror::Error)]
#[error("error opening log file {path:?}: {source}")]
pub struct LogError {
    path: String,
    source: std::io::Error,
}

/// A log destination that is ready to be used.
#[derive(Debug)]
pub struct Prepared {
    sink: Sink,
    level: LevelFilter,
}

#[derive(Debug)]
struct Sink {
    options: Logging,
    file: Option<LogFile>,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
}

static SINK: OnceLock<Mutex<Sink>> = OnceLock::new();
/// Kept beside the sink so that a disabled event costs no lock.
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Opens what the options name; nothing changes yet.
pub fn prepare(options: &Logging) -> Result<Prepared, LogError> {
    let file = options.file.as_deref().map(|path| LogFile::open(Path::new(path))).transpose()?;
    let level = if options.trace {
        LevelFilter::TRACE
    } else if options.debug {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    Ok(Prepared { sink: Sink { options: options.clone(), file }, level })
}

impl Prepared {
    /// Puts it in force; the first time also installs the log of the process.
    pub fn commit(self) {
        LEVEL.store(rank(self.level), Ordering::Relaxed);
        match SINK.get() {
            Some(sink) => {
                *sink.lock() = self.sink;
                tracing::callsite::rebuild_interest_cache();
            }
            None => {
                SINK.get_or_init(|| Mutex::new(self.sink));
                let log = tracing_subscriber::registry().with(Log);
                // Only a second log in one process fails here; the first one stays, which is what is wanted.
                let _ = tracing::subscriber::set_global_default(log);
            }
        }
    }
}

/// Opens the log file anew, after somebody has moved it away (SIGUSR1).
pub fn reopen() {
    let Some(sink) = SINK.get() else { return };
    let mut sink = sink.lock();
    let Some(path) = sink.file.as_ref().map(|file| file.path.clone()) else {
        drop(sink);
        tracing::info!("File log re-open ignored, not a file logger");
        return;
    };
    let opened = LogFile::open(&path);
    let result = opened.map(|file| sink.file = Some(file));
    drop(sink);
    match result {
        Ok(()) => tracing::info!("File log re-opened"),
        Err(e) => tracing::error!("Failed to re-open file log: {e}"),
    }
}

fn rank(level: LevelFilter) -> u8 {
    match level.into_level() {
        None => 0,
        Some(Level::ERROR) => 1,
        Some(Level::WARN) => 2,
        Some(Level::INFO) => 3,
        Some(Level::DEBUG) => 4,
        Some(Level::TRACE) => 5,
    }
}

/// Level as the log shows it.
fn label(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERR",
        Level::WARN => "WRN",
        Level::INFO => "INF",
        Level::DEBUG => "DBG",
        Level::TRACE => "TRC",
    }
}

impl LogFile {
    fn open(path: &Path) -> Result<Self, LogError> {
        let failed = |source| LogError { path: path.display().to_string(), source };
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok(Self { path: path.to_owned(), file, size })
    }

    /// Moves the full file aside, starts a new one and removes rotated files beyond `max_num`.
    fn rotate(&mut self, max_num: u32) -> std::io::Result<()> {
        let name = format!("{}.{}", self.path.display(), Local::now().format(ROTATED_FORMAT));
        std::fs::rename(&self.path, name)?;
        self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        self.size = 0;
        if max_num > 0 {
            remove_oldest(&self.path, max_num as usize)?;
        }
        Ok(())
    }
}

/// Keeps `keep` files in all, the current one included. Rotated names sort by time.
fn remove_oldest(path: &Path, keep: usize) -> std::io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = format!("{}.", name.to_string_lossy());
    let mut rotated: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect();
    rotated.sort();
    let excess = (rotated.len() + 1).saturating_sub(keep);
    rotated.iter().take(excess).try_for_each(std::fs::remove_file)
}

impl Sink {
    fn write(&mut self, line: &[u8]) {
        // The log is the last resort: there is nobody left to tell of its own failures.
        let Some(log) = &mut self.file else {
            let _ = std::io::stderr().lock().write_all(line);
            return;
        };
        let _ = log.file.write_all(line);
        log.size += line.len() as u64;
        if self.options.size_limit > 0 && log.size >= self.options.size_limit {
            let _ = log.rotate(self.options.max_num);
        }
    }

    fn time(&self) -> String {
        if self.options.logtime_utc { stamp(&Utc::now()) } else { stamp(&Local::now()) }
    }

    fn line(&self, level: Level, message: &str) -> Vec<u8> {
        let pid = std::process::id();
        let time = self.options.logtime.then(|| self.time());
        match self.options.format {
            LogFormat::Text => {
                let time = time.map(|time| format!("{time} ")).unwrap_or_default();
                format!("[{pid}] {time}[{}] {message}\n", label(level)).into_bytes()
            }
            LogFormat::Json => {
                let mut line = serde_json::json!({ "level": label(level), "pid": pid, "message": message });
                if let (Some(time), Some(fields)) = (time, line.as_object_mut()) {
                    fields.insert("time".into(), time.into());
                }
                format!("{line}\n").into_bytes()
            }
        }
    }
}

fn stamp<Z: chrono::TimeZone>(time: &DateTime<Z>) -> String
where
    Z::Offset: std::fmt::Display,
{
    time.format("%Y/%m/%d %H:%M:%S%.6f").to_string()
}

/// The one receiver of events.
struct Log;

impl<S: Subscriber> Layer<S> for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        if is_ours(metadata)
            && rank(LevelFilter::from_level(*metadata.level())) <= LEVEL.load(Ordering::Relaxed)
        {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVEL.load(Ordering::Relaxed) {
            0 => LevelFilter::OFF,
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message::default();
        event.record(&mut message);
        let Some(sink) = SINK.get() else { return };
        let mut sink = sink.lock();
        let line = sink.line(*event.metadata().level(), &message.0);
        sink.write(&line);
    }
}

/// What libraries say is not for the operator of a server.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    let crate_name = metadata.target().split("::").next();
    matches!(crate_name, Some("broker" | "myelin"))
}

/// Collects the text of an event; further fields follow as `name=value`.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        use std::fmt::Write as _;
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(options: Logging) -> Sink {
        prepare(&options).unwrap().sink
    }

    #[test]
    fn a_text_line_has_the_form_that_tools_parse() {
        let line = sink(Logging::default()).line(Level::INFO, "Server is ready");
        let line = String::from_utf8(line).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], format!("[{}]", std::process::id()));
        assert_eq!((words[1].len(), words[2].len()), ("2026/12/02".len(), "06:59:00.123456".len()));
        assert_eq!(words[3..].join(" "), "[INF] Server is ready\n");
        let bare = sink(Logging { logtime: false, ..Logging::default() }).line(Level::WARN, "x");
        assert_eq!(String::from_utf8(bare).unwrap(), format!("[{}] [WRN] x\n", std::process::id()));
    }

    #[test]
    fn a_json_line_is_one_object() {
        let line =
            sink(Logging { format: LogFormat::Json, ..Logging::default() }).line(Level::ERROR, "a \"b\"");
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&value["level"], &value["message"]), (&"ERR".into(), &"a \"b\"".into()));
        assert!(value["time"].is_string());
    }

    #[test]
    fn a_full_file_rotates_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        let options = Logging {
            file: Some(path.display().to_string()),
            size_limit: 100,
            max_num: 3,
            ..Logging::default()
        };
        let mut sink = sink(options);
        for _ in 0..10 {
            sink.write(&[b'x'; 120]);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }
}
