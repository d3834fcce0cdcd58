//! The rules, by theme. Each file is a table; docs/rewrite-rules.md is made from them.

mod algebra;
mod concat;
mod contract;
mod convert;
mod convolution;
mod index;
mod layout;
mod matmul;
mod page;
mod reduce;
mod reshape;
mod scores;
mod select;
pub(crate) mod shapes;
mod strength;
#[cfg(test)]
pub(crate) mod tests;
mod transpose;

pub use page::page;

use crate::rule::{Ready, Rule};
use std::sync::LazyLock;

/// The tables, with the name of their theme.
pub const THEMES: [(&str, &[Rule]); 14] = [
    ("algebra", algebra::RULES),
    ("strength", strength::RULES),
    ("select", select::RULES),
    ("convert", convert::RULES),
    ("reduce", reduce::RULES),
    ("scores", scores::RULES),
    ("index", index::RULES),
    ("layout", layout::RULES),
    ("transpose", transpose::RULES),
    ("reshape", reshape::RULES),
    ("concat", concat::RULES),
    ("contract", contract::RULES),
    ("matmul", matmul::RULES),
    ("convolution", convolution::RULES),
];

/// Every rule, in the order in which they run.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    THEMES.iter().flat_map(|(_, rules)| rules.iter())
}

/// Every rule with its patterns parsed.
pub(crate) fn ready() -> &'static [Ready] {
    static READY: LazyLock<Vec<Ready>> = LazyLock::new(|| all().map(Ready::new).collect());
    &READY
}
