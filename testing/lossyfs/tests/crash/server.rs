//! The real server on the file system that forgets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lossyfs::Mounted;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use testkit::jetstream::JetStream;
use testkit::load::{self, Load, connect};
use testkit::{Builder, Server, Signal, Target, eventually};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::loads::{Big, Window};

/// How often the server is killed in the ordinary run, and the variable that says otherwise.
const ROUNDS: u32 = 20;
const ROUNDS_VARIABLE: &str = "MYELIN_LOSSY_ROUNDS";
/// Repeats the choices of an earlier run.
const SEED_VARIABLE: &str = "MYELIN_LOSSY_SEED";
/// Rounds within which a planted fault must be found.
const ROUNDS_FAULTY: u32 = 20;
/// Bytes that the file system holds: all segments that the log may have, and the streams.
const CAPACITY: u64 = 1 << 30;
/// Publishes that are acknowledged in a round before the kill, at least and at most.
const LOAD: (usize, usize) = (10, 300);
/// Longest time after which a stop is broken off, in milliseconds.
const STOP_MS: u64 = 30;
/// Longest time after which a start is broken off, in milliseconds.
const START_MS: u64 = 700;
/// What a check says when something acknowledged is missing.
const LOSSES: [&str; 3] = ["is gone", "the last sequence is", "the floor is"];
/// What it says when the server itself told first that something is missing.
const TOLD: &str = "a loss of power is told as damage";

/// How a life of the server ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Kill,
    Stop,
    KillWhileStopping,
}

/// What one test does.
struct Plan {
    rounds: u32,
    /// More options of the `jetstream` block.
    options: &'static str,
    /// Ends to choose from.
    ends: &'static [End],
    /// Plants a fault in the disk, once the streams are there.
    forgets_names: bool,
}

/// The streams that are under load.
struct Loads {
    common: Load,
    window: Window,
    big: Big,
}

impl Loads {
    async fn create(js: &mut JetStream) -> Self {
        Self { common: Load::create(js).await, window: Window::create(js).await, big: Big::create(js).await }
    }

    /// Starts all clients of a round. They end with the server.
    async fn start(&self, server: &Server, round: u32) -> JoinSet<std::io::Result<()>> {
        let mut clients = self.common.start(server, round).await;
        let wire = connect(server, &format!("r{round}id")).await;
        clients.spawn(self.window.clone().publish(wire, format!("r{round}id")));
        clients.spawn(self.window.clone().work(connect(server, &format!("r{round}floor")).await));
        let wire = connect(server, &format!("r{round}big")).await;
        clients.spawn(self.big.clone().publish(wire, format!("r{round}big")));
        clients
    }

    async fn check(&self, js: &mut JetStream) {
        self.common.check(js).await;
        self.window.check(js).await;
        self.big.check(js).await;
    }
}

/// The server binary: that of this build, unless the environment names another.
pub(crate) fn target() -> Target {
    let named = std::env::var_os("MYELIN_BROKER").map(PathBuf::from);
    let path = named.unwrap_or_else(|| {
        let tests = std::env::current_exe().unwrap();
        tests.parent().and_then(Path::parent).unwrap().join("myelin")
    });
    assert!(
        path.exists(),
        "{} is missing: run `cargo build -p broker` first, or set MYELIN_BROKER",
        path.display()
    );
    Target::myelin(&path.to_string_lossy())
}

/// A server, the disk that it is on, and all chance.
struct Run {
    server: Server,
    disk: Mounted,
    random: StdRng,
}

impl Run {
    async fn start(plan: &Plan, seed: u64) -> Self {
        let disk = Mounted::new(CAPACITY).unwrap();
        let options = plan.options;
        let config = format!(
            "server_name: js\njetstream {{ store_dir: \"{}/js\" {options} }}\n",
            disk.path().display()
        );
        let server = Builder::new(&target()).config(config).start().await;
        Self { server, disk, random: StdRng::seed_from_u64(seed) }
    }

    /// Loses the power of a server that is not running.
    fn crash(&mut self, what: &str) {
        let seed = self.random.random();
        let crash = self.disk.crash(seed);
        eprintln!("{what}, seed of the crash {seed}: {crash}");
    }

    async fn end(&mut self, end: End) {
        match end {
            End::Kill => self.server.kill().await,
            End::Stop => assert!(self.server.stop().await.success(), "{}", self.server.log()),
            End::KillWhileStopping => {
                self.server.signal(Signal::TERM);
                let time = self.moment(STOP_MS);
                // It may be through before.
                if timeout(time, self.server.await_exit()).await.is_err() {
                    self.server.kill().await;
                }
            }
        }
    }

    /// Starts again, now and then with the power lost in the middle of it.
    async fn restart(&mut self, round: u32) {
        while self.random.random_ratio(1, 5) {
            let time = self.moment(START_MS);
            let _ = timeout(time, self.server.restart()).await;
            self.server.kill().await;
            self.crash(&format!("round {round}, killed at the start"));
        }
        self.server.restart().await;
        let log = self.server.log();
        assert!(!log.to_lowercase().contains("damage"), "{TOLD}: {log}");
    }

    fn moment(&mut self, most_ms: u64) -> Duration {
        Duration::from_millis(self.random.random_range(1..=most_ms))
    }
}

/// Ends the server under load so many times, each time with the power lost, and checks what clients were told.
async fn rounds(plan: &Plan, seed: u64) {
    let mut run = Run::start(plan, seed).await;
    let loads = Loads::create(&mut JetStream::connect(&run.server).await).await;
    run.end(End::Stop).await;
    if plan.forgets_names {
        run.disk.forget_names();
    }
    run.server.restart().await;
    for round in 0..plan.rounds {
        let clients = loads.start(&run.server, round).await;
        let log = &loads.common.log;
        let goal = log.acknowledged() + run.random.random_range(LOAD.0..=LOAD.1);
        eventually("there is load", async || (log.acknowledged() >= goal).then_some(())).await;
        let end = plan.ends[run.random.random_range(0..plan.ends.len())];
        run.end(end).await;
        run.crash(&format!("round {round}, {end:?}"));
        load::ended(clients, round).await;
        run.restart(round).await;
        let mut js = JetStream::connect(&run.server).await;
        loads.check(&mut js).await;
        loads.common.publish_and_delete(&mut js).await;
    }
    let (log, work) = (loads.common.log.acknowledged(), loads.common.work.confirmed());
    let (window, big) = (loads.window.confirmed(), loads.big.acknowledged());
    eprintln!("acknowledged: {log} in LOG, {big} in BIG; confirmed: {work} in WORK, {window} in WINDOW");
    assert!(log > plan.rounds as usize && work > 0 && window > 0 && big > 0, "there was no load");
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(error) => panic!("{variable}={text}: {error}"),
    }
}

fn run(plan: &Plan) {
    let seed = number(SEED_VARIABLE).unwrap_or_else(rand::random);
    eprintln!("{SEED_VARIABLE}={seed}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(rounds(plan, seed));
}

/// What was acknowledged is there after every loss of power.
pub(crate) fn nothing_acknowledged_is_lost() {
    let count = number(ROUNDS_VARIABLE).map_or(ROUNDS, |count| u32::try_from(count).unwrap());
    let ends = &[End::Kill, End::Kill, End::Stop, End::KillWhileStopping];
    run(&Plan { rounds: count, options: "", ends, forgets_names: false });
}

/// A planted fault: whoever acknowledges before the sync loses messages, and this test sees it.
pub(crate) fn a_weak_server_is_caught() {
    let options = ", sync_interval: \"1h\"";
    is_caught(&Plan { rounds: ROUNDS_FAULTY, options, ends: &[End::Kill], forgets_names: false }, &LOSSES);
}

/// A planted fault: on a disk whose syncs of directories do nothing messages are lost, so names count as they should.
pub(crate) fn a_disk_that_forgets_names_is_caught() {
    let plan = Plan { rounds: ROUNDS_FAULTY, options: "", ends: &[End::Kill], forgets_names: true };
    // The log's next segment is synced, but has no name.
    is_caught(&plan, &[&LOSSES[..], &[TOLD]].concat());
}

/// The checks must find that something acknowledged is missing, and say one of these.
fn is_caught(plan: &Plan, findings: &[&str]) {
    eprintln!("a panic that tells of a loss is what follows now");
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(plan))) else {
        panic!("nothing was lost in {} crashes", plan.rounds);
    };
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(findings.iter().any(|finding| text.contains(finding)), "this is no loss: {text}");
}
