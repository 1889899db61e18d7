//! Links between documents lead somewhere.

use super::{Files, Finding};

/// Every relative link of a document points at a file or folder of the repository, and at a heading that exists.
pub(crate) fn check_links(files: &Files) -> Vec<Finding> {
    let documents = files.iter().filter(|(path, _)| path.ends_with(".md"));
    documents.flat_map(|(path, text)| check_document(files, path, text)).collect()
}

fn check_document(files: &Files, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in prose_lines(text) {
        for target in targets(line) {
            if let Some(problem) = check_target(files, path, target) {
                findings.push(Finding::error(format!("{path}:{}", index + 1), problem));
            }
        }
    }
    findings
}

fn check_target(files: &Files, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let wanted = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
    let folder = format!("{wanted}/");
    let Some(text) = files.get(&wanted) else {
        let is_folder = files.keys().any(|path| path.starts_with(&folder));
        return (!is_folder).then(|| format!("the link leads to {wanted}, which does not exist"));
    };
    let found =
        anchor.is_empty() || !wanted.ends_with(".md") || headings(text).any(|heading| heading == anchor);
    (!found).then(|| format!("the link leads to #{anchor}, which is no heading of {wanted}"))
}

/// Lines outside of code blocks, with their index.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    })
}

/// What the links of a line point at.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

/// The path a link names, from the top of the repository; one that leads out of it keeps its dots and so is not found.
fn resolve(from: &str, link: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Headings in the form links use: lower case, words joined by dashes, no punctuation.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = prose_lines(text).filter(|(_, line)| line.starts_with('#'));
    titles.map(|(_, line)| {
        let kept = line.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        let files = Files::from([
            ("docs/a.md".to_owned(), text.to_owned()),
            ("docs/b/c.md".to_owned(), "# Title, with: marks\n```\n# no heading\n```\n".to_owned()),
            ("LICENSE".to_owned(), String::new()),
        ]);
        check_links(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let links =
            "[a](b/c.md) [b](../LICENSE) [c](b) [d](./a.md) [e](https://x.y/z) [f](b/c.md#title-with-marks)";
        assert_eq!(check(links), Vec::<String>::new());
        assert_eq!(check("```\n[a](gone.md)\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn links_that_lead_nowhere_are_refused() {
        assert_eq!(
            check("x\n[a](gone.md)\n"),
            ["error: docs/a.md:2: the link leads to docs/gone.md, which does not exist"]
        );
        assert_eq!(check("[a](../../LICENSE)").len(), 1);
        assert_eq!(
            check("[a](b/c.md#no-heading)"),
            ["error: docs/a.md:1: the link leads to #no-heading, which is no heading of docs/b/c.md"]
        );
        assert_eq!(check("[a](#here)").len(), 1);
    }
}
