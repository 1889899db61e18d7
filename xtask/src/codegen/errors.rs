//! Constants of the table of JetStream errors.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Generated;

const TABLE: &str = "crates/api/data/jetstream-errors.tsv";
const OUTPUT: &str = "crates/api/src/error/jetstream/table.rs";

/// One row of the table.
struct Row<'a> {
    err_code: u16,
    code: u16,
    name: &'a str,
    text: &'a str,
}

/// The constants and the sorted table of all of them.
pub(super) fn jetstream(root: &Path) -> Result<Generated> {
    let table = fs::read_to_string(root.join(TABLE)).with_context(|| format!("read {TABLE}"))?;
    let rows = rows(&table)?;
    let mut text = format!(
        "//! Written by `cargo run -p xtask -- codegen` from {TABLE}. Change it there.\n\n\
         use super::ErrorCode;\n\nimpl ErrorCode {{\n"
    );
    for Row { err_code, code, name, text: message } in &rows {
        writeln!(text, "    /// `{message}`")?;
        writeln!(
            text,
            "    pub const {name}: Self = Self {{ err_code: {err_code}, code: {code}, text: {message:?} }};"
        )?;
    }
    writeln!(text, "}}\n\n/// All errors by number.\npub static ALL: [ErrorCode; {}] = [", rows.len())?;
    for Row { name, .. } in &rows {
        writeln!(text, "    ErrorCode::{name},")?;
    }
    text.push_str("];\n");
    Ok(Generated { path: OUTPUT.into(), text })
}

/// The rows, each checked, in rising order of their numbers.
fn rows(table: &str) -> Result<Vec<Row<'_>>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (at, line) in table.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let row = row(line).with_context(|| format!("{TABLE}, line {}", at + 1))?;
        ensure!(
            rows.last().is_none_or(|last| last.err_code < row.err_code),
            "line {} is not in order",
            at + 1
        );
        ensure!(rows.iter().all(|other| other.name != row.name), "{} stands twice", row.name);
        rows.push(row);
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row<'_>> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[err_code, code, name, text] = fields.as_slice() else {
        anyhow::bail!("{} fields instead of 4", fields.len());
    };
    Ok(Row {
        err_code: err_code.parse().context("number")?,
        code: code.parse().context("status")?,
        name,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_out_of_order_or_with_a_name_twice_are_refused() {
        assert_eq!(rows("# x\n1\t400\tA\ttext\n2\t500\tB\ttext {x}\n").unwrap().len(), 2);
        for table in
            ["2\t400\tA\tt\n1\t400\tB\tt\n", "1\t400\tA\tt\n2\t400\tA\tt\n", "1\t400\tA\n", "x\t1\tA\tt\n"]
        {
            assert!(rows(table).is_err(), "{table}");
        }
    }
}
