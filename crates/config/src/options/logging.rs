//! Log destination, level and form.

/// Form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One line of text, as client test suites expect it.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Logging options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// `debug`.
    pub debug: bool,
    /// `trace`; implied by `trace_verbose` and `trace_headers`.
    pub trace: bool,
    /// `trace_verbose`: trace the system account too.
    pub trace_verbose: bool,
    /// `trace_headers`: trace the headers of a message and not its payload.
    pub trace_headers: bool,
    /// `logtime`: lines carry a time.
    pub logtime: bool,
    /// `logtime_utc`.
    pub logtime_utc: bool,
    /// `logfile`; `None` is standard error.
    pub file: Option<String>,
    /// `logfile_size_limit` in bytes; 0 never rotates.
    pub size_limit: u64,
    /// `logfile_max_num`: files kept, the open one among them; 0 keeps all.
    pub max_num: u32,
    /// `log_format`. Not an option of the reference server.
    pub format: LogFormat,
}

impl Default for Logging {
    fn default() -> Self {
        Self {
            debug: false,
            trace: false,
            trace_verbose: false,
            trace_headers: false,
            logtime: true,
            logtime_utc: false,
            file: None,
            size_limit: 0,
            max_num: 0,
            format: LogFormat::Text,
        }
    }
}
