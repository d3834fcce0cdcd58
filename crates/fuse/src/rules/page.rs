//! docs/rewrite-rules.md, made of the tables.

use super::THEMES;
use crate::formulate;
use std::fmt::Write;

const LAW: &str = "\
# Rewrite rules

Made from the tables in crates/fuse/src/rules by `cargo run -p torchtpu-fuse --example rules`; do not edit.

## The law

1. A rule has a name, a class, a reason and a property test: it holds in the reference evaluator on random programs that
   its left side matches (40 in `make test`, 500 in `make test-all`), empty tensors and wrapping integers among them. An
   exact one holds with NaN, infinities and both zeros too; any other is held to finite values only, and may turn an
   infinity into NaN or back, or overflow on the way where numbers are near the type's greatest: a sum that is divided after
   it is added up can be infinite where a sum of quotients is not.
2. Its class says what it may do to values. *exact*: the same bits. *reassociating*: the same in exact arithmetic, so that
   roundings differ as between two right implementations. *precision-changing*: roundings of narrow types are left out,
   and quotients become products with a reciprocal, which is less exact.
   `numerics=\"exact\"` allows the first, `\"reassociate\"` (the default) the first two, `\"fast\"` all.
3. A right side is never worse than its left side on every platform. The cost of the whole program decides whether it is
   taken; a program that no rule makes cheaper stays as it was.
4. No rule merely commutes or associates. Two may lead to and fro between two forms: the e-graph holds both, once.
5. What is done is a function of the program and the options: rules run in the order of this page, under limits that are
   counts, never times.

In the patterns, attributes are the last operand: `?p` in `(transpose ?x ?p)` is the permutation.
";

/// The page.
pub fn page() -> String {
    let mut out = LAW.to_owned();
    for (theme, rules) in THEMES {
        let _ = writeln!(out, "\n## {theme}\n\n| rule | class | from | to | because |\n|---|---|---|---|---|");
        for r in rules {
            let (name, class, right) = (r.name, r.class.name(), r.right.text());
            let _ = writeln!(out, "| {name} | {class} | `{}` | `{right}` | {} |", r.left, r.why);
        }
    }
    let head = "| rule | class | because |\n|---|---|---|";
    let _ = writeln!(out, "\n## Formulations and layouts, for the CPU plugin only\n\n{head}");
    for (name, class, why) in formulate::told() {
        let _ = writeln!(out, "| {name} | {} | {why} |", class.name());
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_docs_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rewrite-rules.md");
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == super::page(), "cargo run -p torchtpu-fuse --example rules > docs/rewrite-rules.md");
    }
}
