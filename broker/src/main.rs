//! The server's program: reads the command line, then runs, tests a file, or signals another process.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use broker::reload::Loaded;
use broker::server::{COMPATIBLE_VERSION, VERSION};
use broker::signals::Signals;
use broker::{Server, files, logging, signal_sender};
use config::Diagnostic;
use config::flags::{self, Action, CommandLine};

/// Caches and batches come and go beside indexes that stay: the system's allocator keeps what lies between them for ever, this one gives it
/// back. Its own thread does that, also for a server that idles.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let program = files::program();
    let command = match flags::parse_args(&arguments) {
        Ok(command) => command,
        Err(e) => {
            say(&format!("{program}: {e}\n{}", flags::usage(&program)));
            return ExitCode::from(2);
        }
    };
    match &command.action {
        Action::Version => print(&format!("{program}: v{COMPATIBLE_VERSION} (Myelin {VERSION})")),
        Action::Help => print(&flags::usage(&program)),
        Action::HelpTls => print(&flags::help_tls(&program)),
        Action::Signal { command, target } => {
            if let Err(e) = signal_sender::send(*command, target.as_deref(), &program) {
                return fail(&format!("{program}: {e}"));
            }
            ExitCode::SUCCESS
        }
        Action::Test => test(&program, command),
        Action::Run => run(&program, command),
    }
}

/// Checks a configuration file.
fn test(program: &str, command: CommandLine) -> ExitCode {
    let Some(path) = command.config_file.clone() else {
        return fail(&format!("{program}: -t checks a configuration file: name one with -c"));
    };
    match Loaded::read(Some(path.clone()), command.overrides) {
        Ok((loaded, warnings)) => {
            report(program, &warnings);
            let digest = loaded.digest.unwrap_or_default();
            say(&format!("{program}: configuration file {path} is valid ({digest})"));
            ExitCode::SUCCESS
        }
        Err(errors) => {
            report(program, &errors);
            ExitCode::FAILURE
        }
    }
}

fn run(program: &str, command: CommandLine) -> ExitCode {
    let (loaded, warnings) = match Loaded::read(command.config_file, command.overrides) {
        Ok(loaded) => loaded,
        Err(errors) => {
            report(program, &errors);
            return ExitCode::FAILURE;
        }
    };
    match logging::prepare(&loaded.options.logging) {
        Ok(log) => log.commit(),
        Err(e) => return fail(&format!("{program}: {e}")),
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return fail(&format!("{program}: starting threads: {e}")),
    };
    runtime.block_on(serve(program, loaded))
}

async fn serve(program: &str, loaded: Loaded) -> ExitCode {
    let signals = match Signals::catch() {
        Ok(signals) => signals,
        Err(e) => return fail(&format!("{program}: catching signals: {e}")),
    };
    tracing::info!("Starting {program}");
    let server: Arc<Server> = match Server::start(loaded).await {
        Ok(server) => server,
        Err(e) => {
            tracing::error!("{e}");
            return fail(&format!("{program}: {e}"));
        }
    };
    // The files come last: whoever waits for them finds everything else done.
    tracing::info!("Server is ready");
    match files::Written::write(&server) {
        Ok(files) => *server.files.lock() = files,
        Err(e) => tracing::error!("{e}"),
    }
    signals.handle(Arc::clone(&server)).await;
    server.drain().await;
    *server.files.lock() = files::Written::default();
    ExitCode::SUCCESS
}

fn report(program: &str, diagnostics: &[Diagnostic]) {
    for diagnostic in diagnostics {
        say(&format!("{program}: {diagnostic}"));
    }
}

fn fail(text: &str) -> ExitCode {
    say(text);
    ExitCode::FAILURE
}

// A terminal that is gone is no reason to fail: nobody is left to be told.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn print(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    ExitCode::SUCCESS
}
