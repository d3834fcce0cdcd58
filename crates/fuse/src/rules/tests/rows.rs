//! For each rule a small program in which it is worth it, and what comes out: extraction picks what the rule makes.

use super::{rewritten, themes};
use crate::rule::Ready;
use crate::{Class, Options, Platform};
use ir::Graph;
use std::sync::LazyLock;

mod algebra;
mod convert;
mod index;
mod reduce;
mod select;
mod strength;

static RULES: LazyLock<Vec<Ready>> =
    LazyLock::new(|| themes(&["algebra", "strength", "select", "convert", "reduce", "index", "layout"]));

/// A rule, the lines of a program (`in TYPE` is the next input) and those that are expected.
type Row = (&'static str, &'static [&'static str], &'static [&'static str]);

fn graph(lines: &[&str]) -> Graph {
    let mut inputs = 0;
    let mut text = String::from("graph @g {\n");
    for (i, line) in lines.iter().enumerate() {
        let value = match line.strip_prefix("in ") {
            Some(ty) => {
                inputs += 1;
                format!("{ty} = input {} \"x{}\" user", inputs - 1, inputs - 1)
            }
            None => (*line).to_owned(),
        };
        text += &format!("  %{i}: {value}\n");
    }
    text += &format!("  return %{} \"y\"\n}}\n", lines.len() - 1);
    ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// What is wrong with a row, if anything.
fn wrong(&(rule, before, after): &Row) -> Option<String> {
    let options = Options::new(Class::PrecisionChanging, Platform::Cpu);
    let (made, changes) = rewritten(&graph(before), options, &RULES);
    let used: Vec<&str> = changes.iter().map(|c| c.rule).collect();
    let text = ir::text::canonical(&made);
    let same = !after.is_empty() && text == ir::text::canonical(&graph(after));
    (!same || !used.contains(&rule)).then(|| format!("{rule}: used {used:?}\n{}", ir::text::print(&made)))
}

#[test]
fn rules_are_picked() {
    let themes = [algebra::ROWS, strength::ROWS, select::ROWS, convert::ROWS, reduce::ROWS, index::ROWS];
    let faults: Vec<String> = themes.into_iter().flatten().filter_map(wrong).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
