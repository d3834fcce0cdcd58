//! The rules, by theme. Each file is a table; docs/rewrite-rules.md is made from them.

mod algebra;
mod convert;
mod index;
mod layout;
mod matmul;
mod reduce;
mod select;
mod strength;
#[cfg(test)]
mod tests;

use crate::rule::Rule;

/// The tables, with the name of their theme.
pub const THEMES: [(&str, &[Rule]); 8] = [
    ("algebra", algebra::RULES),
    ("strength", strength::RULES),
    ("select", select::RULES),
    ("convert", convert::RULES),
    ("reduce", reduce::RULES),
    ("index", index::RULES),
    ("layout", layout::RULES),
    ("matmul", matmul::RULES),
];

/// Every rule, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    THEMES.iter().flat_map(|(_, rules)| rules.iter())
}
