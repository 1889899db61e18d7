//! What the official command line tool shows its user, command by command (`testkit::transcript::walk`).

use std::path::PathBuf;

use testkit::{tools, transcript};

use crate::target;

/// A test for each named section of a file, and one that no section was forgotten.
macro_rules! walkthroughs {
    ($file:ident: $($section:ident),+ $(,)?) => {
        mod $file {
            $(
                #[tokio::test]
                async fn $section() {
                    super::walk(stringify!($file), stringify!($section)).await;
                }
            )+

            #[test]
            fn every_section_is_a_test() {
                let file = super::file(stringify!($file));
                crate::jetstream::compare_sections(&file, &[$(stringify!($section)),+]);
            }
        }
    };
}

walkthroughs! { stream: every_flag, life, from_a_file, mirrors_and_sources, view }
// `stream graph` and `consumer graph` draw rates against the time of day until they are ended: nothing of it is the same twice.
walkthroughs! { consumer: every_flag, life, groups, subscribe, sub }
walkthroughs! { kv: buckets, keys, watched, mirrored }
walkthroughs! { object: buckets, objects, watched }
walkthroughs! { operations: account, details, checks, backups, measurements, counters }

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/jetstream/walkthroughs")
        .join(format!("{name}.txt"))
}

async fn walk(name: &str, section: &str) {
    let Some(tool) = tools::nats() else { return };
    transcript::walk(&target(), &tool, &file(name), section).await;
}
