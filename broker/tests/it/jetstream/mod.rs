//! JetStream on one server. What clients see is kept as transcripts, recorded from the reference and compared byte for
//! byte (`testkit::transcript`); what needs many turns, several clients or a crash is code.

use std::fs;
use std::path::{Path, PathBuf};

use crate::target;

/// A test for each named section of a transcript file, and one that no section was forgotten.
macro_rules! transcripts {
    ($file:literal: $($section:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $section() {
                crate::jetstream::play($file, stringify!($section)).await;
            }
        )+

        #[test]
        fn every_section_is_a_test() {
            crate::jetstream::check_sections($file, &[$(stringify!($section)),+]);
        }
    };
}

mod ack;
mod api;
mod budget;
mod cases;
mod consumer;
mod crash;
mod damage;
mod dead_letters;
mod direct;
mod encryption;
mod ephemeral;
mod features;
mod groups;
mod lifecycle;
mod limits;
mod messages;
mod numbers;
mod order;
mod per_subject;
mod publish;
mod pull;
mod push;
mod redelivery;
mod snapshot;
mod snapshot_cli;
mod snapshot_refused;
mod storage;
mod stream;
mod system;
mod waiting;
mod walkthrough;

/// Where a transcript is.
fn transcript(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/jetstream/transcripts")
        .join(format!("{name}.txt"))
}

/// Every file below a directory, in order.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

async fn play(file: &str, section: &str) {
    testkit::transcript::play(&target(), &transcript(file), section).await;
}

fn check_sections(file: &str, listed: &[&str]) {
    compare_sections(&transcript(file), listed);
}

fn compare_sections(file: &Path, listed: &[&str]) {
    let mut listed: Vec<String> = listed.iter().map(|&name| name.to_owned()).collect();
    let mut sections = testkit::transcript::sections(file);
    listed.sort();
    sections.sort();
    assert_eq!(sections, listed);
}
