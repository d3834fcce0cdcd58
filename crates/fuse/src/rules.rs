//! The rules, by theme. Each file is a table; docs/rewrite-rules.md is made from them.

mod algebra;
mod layout;
mod matmul;
mod page;
#[cfg(test)]
mod tests;

pub use page::page;

use crate::rule::Rule;

/// The tables, with the name of their theme.
pub const THEMES: [(&str, &[Rule]); 3] =
    [("algebra", algebra::RULES), ("layout", layout::RULES), ("matmul", matmul::RULES)];

/// Every rule, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    THEMES.iter().flat_map(|(_, rules)| rules.iter())
}
