//! Repository chores: tidy checks and code generation.

mod codegen;
mod tidy;

use anyhow::{Result, bail};

const USAGE: &str = "usage: xtask codegen [--check] | tidy [--shrink]";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["codegen"] => codegen::run(false),
        ["codegen", "--check"] => codegen::run(true),
        ["tidy"] => tidy::run(false),
        ["tidy", "--shrink"] => tidy::run(true),
        _ => bail!(USAGE),
    }
}
