//! What differs from run to run in the output of commands, replaced by what it is.

/// Units of lengths of time.
const UNITS: [&str; 7] = ["ns", "µs", "ms", "s", "m", "h", "d"];
/// Shapes in which `d` is a digit, `x` one in lower case hexadecimal, and `*` everything that comes.
const DATE: &str = "dddd-dd-dd";
const CLOCK: &str = "dd:dd:dd*";
const TIME: &str = "dddd-dd-ddTdd:dd:dd*";
const UID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
/// What a line begins with whose rest is measured or made up.
const MEASURED: [&str; 6] =
    ["Resource Version:", "Last Applied Hash:", "Rate:", "Service Rate:", "myelin.dev/owner:", "done!"];
/// Lengths of the two parts with which a Deployment makes the names of its pods.
const SET_LEN: std::ops::RangeInclusive<usize> = 8..=10;
const POD_LEN: usize = 5;

/// Lines with everything replaced that differs from run to run; events last, each once.
pub(super) fn all(lines: &[String]) -> Vec<String> {
    let mut plain = Vec::with_capacity(lines.len());
    let mut events = Vec::new();
    for line in lines {
        match event(line) {
            Some(told) => events.extend(told),
            None => plain.push(normal(line)),
        }
    }
    events.sort();
    events.dedup();
    plain.append(&mut events);
    plain
}

/// A line with everything replaced that differs from run to run.
pub(super) fn normal(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(word).collect();
    let line = words.join(" ");
    let measured = MEASURED.iter().find(|start| line.starts_with(**start));
    measured.map_or_else(|| line.clone(), |start| format!("{start} <n>"))
}

/// An event in a list of events or a description: `Some` of nothing if it is one that only some runs have, because they were slow.
fn event(line: &str) -> Option<Option<String>> {
    let mut words = line.split_whitespace().skip_while(|word| is_duration(word)).peekable();
    let kind = words.next().filter(|word| ["Normal", "Warning"].contains(word))?;
    let reason = words.next()?;
    if kind == "Warning" || reason == "MetricsAvailable" {
        return Some(None);
    }
    // How often and when it came stands in front of where it came from.
    let told = words.skip_while(|word| !word.contains('/')).map(|word| match word.parse::<f64>() {
        Ok(_) => "<n>",
        Err(_) => word,
    });
    Some(Some(format!("{kind} {reason} {}", told.collect::<Vec<_>>().join(" "))))
}

fn word(word: &str) -> String {
    let core = word.trim_matches(['(', ')', ',', '.', '"']);
    if is_duration(core) || [DATE, CLOCK, TIME].iter().any(|shape| fits(core, shape)) {
        return word.replacen(core, "<time>", 1);
    }
    let id = |part: &str| fits(part.strip_prefix("pvc-").unwrap_or(part), UID);
    let without_ids: Vec<&str> = word.split('/').map(|part| if id(part) { "<uid>" } else { part }).collect();
    let word = without_ids.join("/");
    match generated(&word) {
        Some(kept) => format!("{kept}-<id>"),
        None => word,
    }
}

fn fits(text: &str, shape: &str) -> bool {
    let (shape, open) = shape.strip_suffix('*').map_or((shape, false), |shape| (shape, true));
    let same = |(byte, wanted): (u8, u8)| match wanted {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        _ => byte == wanted,
    };
    (text.len() == shape.len() || open && text.len() > shape.len())
        && text.bytes().zip(shape.bytes()).all(same)
}

/// Whether a word is a length of time such as `2m30s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let unit = UNITS.iter().find(|unit| rest[digits..].starts_with(**unit)).filter(|_| digits > 0);
        let Some(unit) = unit else { return false };
        rest = &rest[digits + unit.len()..];
    }
    !text.is_empty()
}

/// The part of a pod's name that its Deployment has.
fn generated(text: &str) -> Option<&str> {
    let (rest, pod) = text.rsplit_once('-')?;
    let (name, set) = rest.rsplit_once('-')?;
    let made = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
    let fits = pod.len() == POD_LEN && SET_LEN.contains(&set.len()) && made(pod) && made(set);
    (fits && set.bytes().any(|byte| byte.is_ascii_digit())).then_some(name)
}
