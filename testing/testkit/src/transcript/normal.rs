//! What differs from run to run, replaced by what it is.

/// Years whose times are replaced: those of the run. Scripts use other years for times that they compare.
const YEARS: std::ops::Range<u32> = 2026..2090;
/// Numbers after these are replaced.
const NUMBERS: [&str; 6] = [
    "\"rtt\":",
    "\"ack_time\":",
    "\"pause_remaining\":",
    "\"active\":",
    "\"max_storage_used\":",
    "\"host\":\"127.0.0.1\",\"id\":",
];
/// Text after these is replaced.
const TEXTS: [(&str, &str); 3] =
    [("\"_nats.ver\":\"", "version"), ("\"server_id\":\"", "server"), ("\"start_version\":\"", "version")];
/// Digits of a time in nanoseconds since 1970.
const NANOSECONDS_LEN: usize = 19;
/// Characters of a generated id.
const NUID_LEN: usize = 22;
/// Characters of a server's id.
const SERVER_ID_LEN: usize = 56;
/// From here on a run of one letter is shown by its length.
const RUN_LEN: usize = 64;
/// Flow control subjects end in something random.
const FLOW_CONTROL: &str = "$JS.FC.";

/// The text with everything replaced that differs from run to run.
pub(super) fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut after_word = false;
    while let Some(first) = rest.chars().next() {
        let (shown, len) = match replacement(rest, after_word) {
            Some((shown, len)) => (shown, len),
            None => (first.to_string(), first.len_utf8()),
        };
        out.push_str(&shown);
        after_word = rest[..len].ends_with(|last: char| last.is_ascii_alphanumeric());
        rest = &rest[len..];
    }
    out
}

fn replacement(rest: &str, after_word: bool) -> Option<(String, usize)> {
    let run = rest.bytes().take_while(|&byte| byte == b'x').count();
    if run >= RUN_LEN {
        return Some((format!("<x*{run}>"), run));
    }
    for key in NUMBERS {
        if let Some(number) = rest.strip_prefix(key) {
            let number = number.trim_start_matches([' ', '-']);
            if digits(number) > 0 {
                return Some((format!("{key}<n>"), rest.len() - number.len() + digits(number)));
            }
        }
    }
    for (key, what) in TEXTS {
        if let Some(value) = rest.strip_prefix(key) {
            return Some((format!("{key}<{what}>"), key.len() + value.find('"')?));
        }
    }
    if let Some(subject) = rest.strip_prefix(FLOW_CONTROL) {
        return flow_control(subject);
    }
    if after_word || !rest.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return None;
    }
    if let Some(len) = time_len(rest) {
        return Some(("<time>".to_owned(), len));
    }
    let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    match word {
        NANOSECONDS_LEN if digits(rest) == word && rest.starts_with('1') => Some(("<ns>".to_owned(), word)),
        SERVER_ID_LEN if rest.starts_with('N') => Some(("<server>".to_owned(), word)),
        NUID_LEN => Some(("<nuid>".to_owned(), word)),
        _ => None,
    }
}

fn flow_control(subject: &str) -> Option<(String, usize)> {
    let end = subject.find([' ', ')', '\r', '\\', '"', '@']).unwrap_or(subject.len());
    let (fixed, _) = subject[..end].rsplit_once('.')?;
    Some((format!("{FLOW_CONTROL}{fixed}.<id>"), FLOW_CONTROL.len() + end))
}

/// Length of a time in RFC 3339 whose year is that of a run.
fn time_len(text: &str) -> Option<usize> {
    let date = text.get(..11)?;
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        _ => byte.is_ascii_digit(),
    };
    if !date.bytes().enumerate().all(shape) || !YEARS.contains(&date[..4].parse().ok()?) {
        return None;
    }
    let end = text.find('Z')?;
    text[11..end].bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte)).then_some(end + 1)
}

fn digits(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn what_changes_is_replaced_and_the_rest_stays() {
        for (text, expected) in [
            ("{\"ts\":\"2026-12-02T10:31:51.5Z\"}", "{\"ts\":\"<time>\"}"),
            ("0001-01-01T00:00:00Z 2099-01-01T00:00:00Z", "0001-01-01T00:00:00Z 2099-01-01T00:00:00Z"),
            ("$JS.ACK.S.C.1.2.3.1764671511000000000.0", "$JS.ACK.S.C.1.2.3.<ns>.0"),
            ("\"id\":\"ABCDEFGHIJKLMNOPQRSTUV\"", "\"id\":\"<nuid>\""),
            ("\"_nats.ver\":\"2.15.1\",", "\"_nats.ver\":\"<version>\","),
            ("\"active\":-1,\"active\":12", "\"active\":<n>,\"active\":<n>"),
            ("$JS.FC.S.C.abcd payload", "$JS.FC.S.C.<id> payload"),
        ] {
            assert_eq!(normal(text), expected);
        }
    }
}
