//! What differs from run to run in the output of the command line tool, replaced by what it is.

use super::normal::normal;

/// From here on a run of blanks is two blanks: columns are as wide as what stands in them.
const BLANKS_LEN: usize = 3;
/// What the lines of tables are made of, and how long a run of it is shown.
const RULES: [char; 5] = ['─', '-', '=', '━', '═'];
const RULE_LEN: usize = 3;
/// What begins a cell of a table, where each length of time is one that was measured.
const CELL: char = '│';
/// Texts after which a length of time is one that was measured.
const MEASURED_AFTER: [&str; 10] = [
    "Last Seen:",
    "<time> (",
    "active=",
    "age=",
    "last_delivery=",
    "last_ack=",
    "RTT:",
    "rtt",
    "in",
    "Pause Remaining:",
];
/// Texts before which a length of time is one that was measured.
const MEASURED_BEFORE: [&str; 1] = [" ago"];
/// A time as the tool writes it, and the time of day that begins a line of its log.
const TIME: &str = "dddd-dd-dd dd:dd:dd";
const CLOCK: &str = "dd:dd:dd";
/// What stands between these two texts was measured, or counts what was; to the end of the line without a second one.
const MEASURED_BETWEEN: [(&str, &str); 8] = [
    (" stats: ", ""),
    ("backup in one with ", ""),
    (" done! [", "]"),
    ("Received ", " compressed data"),
    ("<duration>, ", " uncompressed"),
    ("Client ID: ", ""),
    ("_INBOX.<nuid>.", ""),
    ("\"jetstream\":true,\"seq\":", ","),
];
/// A header whose last word is the name of a consumer that a server made for itself.
const SOURCE: &str = "Nats-Stream-Source: ";
/// Members of documents in which the servers differ on purpose (`docs/differences.md`), from here to there: how often
/// and how data is synced, what the server is called and can do.
const DIFFERENCES: [(&str, &str); 5] = [
    ("\"feature_flags\":{", "},"),
    ("\"sync_interval\":", ","),
    ("\"sync_always\":", ","),
    ("\"compress_ok\":", ","),
    ("\"flags\":", ","),
];
/// Units of lengths of time.
const UNITS: [&str; 8] = ["ns", "µs", "ms", "s", "m", "h", "d", "y"];

/// Replaces lines of output.
pub(super) struct Replacer {
    known: Vec<(String, &'static str)>,
}

impl Replacer {
    /// With texts of this run and what stands for them; the first that fits wins.
    pub(super) fn new(known: &[(String, &'static str)]) -> Self {
        Self { known: known.to_vec() }
    }

    /// A line of output with everything replaced that differs from run to run.
    pub(super) fn line(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (text, shown) in &self.known {
            line = line.replace(text, shown);
        }
        // The tool prints differences with either kind of blank, by lot.
        line = line.replace('\u{a0}', " ");
        squeeze(&cut(scan(&normal(&without_differences(&line)))))
    }
}

/// Takes out members of documents in which the servers differ on purpose.
fn without_differences(line: &str) -> String {
    let mut line = line.to_owned();
    for (begin, end) in DIFFERENCES {
        if let Some(start) = line.find(begin)
            && let Some(len) = line[start + begin.len()..].find(end)
        {
            line.replace_range(start..start + begin.len() + len + end.len(), "");
        }
    }
    line
}

/// Replaces what stands between known texts.
fn cut(mut line: String) -> String {
    for (before, after) in MEASURED_BETWEEN {
        let Some(start) = line.find(before).map(|at| at + before.len()) else { continue };
        let len = if after.is_empty() { Some(line.len() - start) } else { line[start..].find(after) };
        if let Some(len) = len {
            line.replace_range(start..start + len, "<measured>");
        }
    }
    if let Some(start) = line.find(SOURCE).map(|at| at + SOURCE.len())
        && let Some((known, _)) = line[start..].rsplit_once(' ')
    {
        let end = start + known.len() + 1;
        line.replace_range(end.., "<id>");
    }
    line
}

/// Replaces times and versions as the tool writes them.
fn scan(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let before = out.chars().next_back();
        let begins = !before.is_some_and(|last| last.is_ascii_alphanumeric() || last == '.' || last == '-');
        let found = if begins && first.is_ascii_digit() { replacement(&out, rest) } else { None };
        let len = match found {
            Some((shown, len)) => {
                out.push_str(shown);
                len
            }
            None => {
                out.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[len..];
    }
    out
}

fn replacement(before: &str, rest: &str) -> Option<(&'static str, usize)> {
    if let Some(len) = time_len(rest) {
        return Some(("<time>", len));
    }
    if matches!(before, "" | "[") && fits(rest, CLOCK) {
        return Some(("<clock>", CLOCK.len()));
    }
    if let Some(patch) = rest.strip_prefix("2.15.") {
        let digits = patch.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(patch.len());
        return Some(("<version>", rest.len() - patch.len() + digits));
    }
    let len = duration_len(rest)?;
    let measured = before.starts_with(CELL)
        || MEASURED_BEFORE.iter().any(|text| rest[len..].starts_with(text))
        || MEASURED_AFTER.iter().any(|text| before.trim_end().ends_with(text));
    measured.then_some(("<duration>", len))
}

/// Whether a text begins with this shape, in which `d` is any digit.
fn fits(text: &str, shape: &str) -> bool {
    let same = |(byte, wanted): (u8, u8)| if wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
    text.len() >= shape.len() && text.bytes().zip(shape.bytes()).all(same)
}

/// Length of `2026-12-02 15:48:45`, with a fraction and a zone if there are any.
fn time_len(text: &str) -> Option<usize> {
    if !fits(text, TIME) {
        return None;
    }
    let mut len = TIME.len();
    if let Some(fraction) = text[len..].strip_prefix('.') {
        len += 1 + fraction.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(fraction.len());
    }
    for zone in [" +0000 UTC", " UTC"] {
        if text[len..].starts_with(zone) {
            return Some(len + zone.len());
        }
    }
    Some(len)
}

/// Length of `1m2.5s` and the like.
fn duration_len(text: &str) -> Option<usize> {
    let mut len = 0;
    loop {
        let rest = &text[len..];
        let number =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let unit = UNITS.iter().find(|&&unit| rest[number..].starts_with(unit)).filter(|_| number > 0);
        let Some(unit) = unit else { break };
        len += number + unit.len();
    }
    let ends = !text[len..].starts_with(|letter: char| letter.is_ascii_alphanumeric());
    (len > 0 && ends).then_some(len)
}

/// Shortens runs whose length depends on the widths of columns, and drops blanks at the end.
fn squeeze(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut letters = line.trim_end().chars().peekable();
    while let Some(letter) = letters.next() {
        let mut run = 1;
        while letters.next_if_eq(&letter).is_some() {
            run += 1;
        }
        let shown = match letter {
            ' ' if out.ends_with(CELL) || !out.is_empty() && letters.peek() == Some(&CELL) => 1,
            ' ' if run >= BLANKS_LEN && !out.is_empty() => 2,
            _ if RULES.contains(&letter) && run > RULE_LEN => RULE_LEN,
            _ => run,
        };
        out.extend(std::iter::repeat_n(letter, shown));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::Replacer;

    #[test]
    fn what_was_measured_is_replaced_and_what_was_configured_stays() {
        let replacer = Replacer::new(&[("127.0.0.1:4".to_owned(), "<address>")]);
        for (line, expected) in [
            ("Stream S created 2026-12-02 15:48:45", "Stream S created <time>"),
            ("15:48:45 Published 2 bytes", "<clock> Published 2 bytes"),
            ("  Duplicate Window: 2m0s", "  Duplicate Window: 2m0s"),
            ("   Last Seen: 12.5ms", "   Last Seen: <duration>"),
            (
                "received 2026-12-02 15:48:45 (1m2.5s) on Subject a",
                "received <time> (<duration>) on Subject a",
            ),
            ("│  S    │ 2.17s │", "│ S │ <duration> │"),
            ("╭──────┬───╮", "╭───┬───╮"),
            ("[15:48:45] subj: s.a", "[<clock>] subj: s.a"),
            (
                "Received 893 B compressed data in 2ms, 1 B uncompressed",
                "Received <measured> compressed data in <duration>, <measured> uncompressed",
            ),
            ("  Nats-Stream-Source: O 1 > > o.a Abc", "  Nats-Stream-Source: O 1 > > o.a <id>"),
            ("Host Version: 2.15.1", "Host Version: <version>"),
            ("Connected to nats://127.0.0.1:4  ", "Connected to nats://<address>"),
            ("1.2.15.1 2026-12-02", "1.2.15.1 2026-12-02"),
        ] {
            assert_eq!(replacer.line(line), expected);
        }
    }
}
