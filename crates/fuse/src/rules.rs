//! The rules, by theme. Each file is a table; docs/rewrite-rules.md is made from them.

mod algebra;
mod concat;
mod contract;
mod convolution;
mod layout;
mod matmul;
mod page;
mod reshape;
mod shapes;
#[cfg(test)]
mod tests;
mod transpose;

pub use page::page;

use crate::rule::{Ready, Rule};
use std::sync::LazyLock;

/// The tables, with the name of their theme.
pub const THEMES: [(&str, &[Rule]); 8] = [
    ("algebra", algebra::RULES),
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
