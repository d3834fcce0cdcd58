//! Small programs on which rules have to be picked, and what has to come out.

use super::{rewritten, themes};
use crate::rule::Ready;
use crate::{Class, Options, Platform};
use std::fmt::Write;
use std::sync::LazyLock;

mod concat;
mod convolution;
mod layout;
mod matmul;

static RULES: LazyLock<Vec<Ready>> =
    LazyLock::new(|| themes(&["layout", "transpose", "reshape", "concat", "contract", "matmul", "convolution"]));

/// A program of these lines, `TYPE = OP`, numbered from 0; it returns the last value, or those of a `return` line.
pub(super) fn program(lines: &[&str]) -> String {
    let (mut text, mut inputs) = ("graph @main {\n".to_owned(), 0);
    for (i, line) in lines.iter().enumerate() {
        if line.starts_with("return") {
            writeln!(text, "  {line}").expect("a string");
            continue;
        }
        let line = match line.strip_suffix("input") {
            Some(typed) => format!("{typed}input {inputs} \"x{inputs}\" user"),
            None => (*line).to_owned(),
        };
        inputs += usize::from(line.contains("= input "));
        writeln!(text, "  %{i}: {line}").expect("a string");
    }
    if !lines.iter().any(|l| l.starts_with("return")) {
        writeln!(text, "  return %{} \"y\"", lines.len() - 1).expect("a string");
    }
    text + "}\n"
}

/// Holds `rule` to be among those that made something of the program; `None` if it makes nothing new, but finds that
/// something is there. The ops that are left, without inputs and constants, have to be `ops`.
#[track_caller]
pub(super) fn picks(rule: Option<&str>, lines: &[&str], ops: &[&str]) {
    picks_on(Platform::Cpu, rule, lines, ops);
}

/// [`picks`] on one platform.
#[track_caller]
pub(super) fn picks_on(platform: Platform, rule: Option<&str>, lines: &[&str], ops: &[&str]) {
    let graph = ir::text::parse(&program(lines)).expect("a program");
    let options = Options::new(Class::Reassociating, platform);
    let (made, changes) = rewritten(&graph, options, &RULES);
    ir::verify(&made).expect("well-typed");
    let (text, rules) = (ir::text::canonical(&made), changes.iter().map(|c| c.rule).collect::<Vec<_>>());
    assert!(rule.is_none_or(|r| rules.contains(&r)), "{rule:?} is not among {rules:?}\n{text}");
    let op = |line: &str| -> Option<String> {
        let (typed, op) = line.trim().split_once(" = ")?;
        let head = &op[..op.find(['(', ' ']).unwrap_or(op.len())];
        (head != "input" && head != "constant")
            .then(|| format!("{head} {}", typed.split_once(": ").map_or("", |t| t.1)))
    };
    let left: Vec<String> = text.lines().filter_map(op).collect();
    assert_eq!(left, ops, "{rule:?}: {rules:?}\n{text}");
}

/// Holds every row to [`picks`], and every rule of `theme` but `others` to have one.
#[track_caller]
pub(super) fn all_picked(theme: &str, rows: &[(&str, &[&str], &[&str])], others: &[&str]) {
    for (rule, lines, ops) in rows {
        picks(Some(rule), lines, ops);
    }
    let (_, rules) = super::THEMES.iter().find(|(name, _)| *name == theme).expect("a theme");
    let without = |r: &&crate::Rule| !rows.iter().any(|row| row.0 == r.name) && !others.contains(&r.name);
    let missing: Vec<&str> = rules.iter().filter(without).map(|r| r.name).collect();
    assert!(missing.is_empty(), "no row picks {missing:?}");
}
