//! Which masks leave a number in each row.

use super::{rewritten, themes};
use crate::{Class, Options, Platform};

/// Whether rows of products are known to hold a number under `mask`, lines that end in `%p`.
fn known(mask: &str, chosen: &str, class: Class) -> bool {
    let text = format!(
        "graph @g {{\n  %a: f32[2,4,8] = input 0 \"a\" user\n  %b: f32[2,4,8] = input 1 \"b\" user\n  \
         %m: bool[2,4,4] = input 2 \"m\" user\n  %f: f32[2,4,4] = input 3 \"f\" user\n  \
         %d: f32[2,4,4] = dot_general(lhs_batch:[0],rhs_batch:[0],lhs_contract:[2],rhs_contract:[2],precision:highest,out:f32) %a, %b\n  \
         %e: f32[2,4,4] = constant 0.125\n  %s: f32[2,4,4] = multiply %d, %e\n  %i: f32[2,4,4] = constant -inf\n  \
         %c: i32[4,4] = iota(dtype:i32,shape:[4,4],dim:1)\n  %r: i32[4,4] = iota(dtype:i32,shape:[4,4],dim:0)\n  \
         {mask}\n  %x: f32[2,4,4] = {chosen}\n  %t: f32[2,4] = reduce(reducer:maximum,dims:[2]) %x\n  \
         %n: f32[2,4] = constant -inf\n  %y: bool[2,4] = compare_eq %t, %n\n  return %y \"y\"\n}}\n"
    );
    let graph = ir::text::parse(&numbered(&text)).unwrap_or_else(|e| panic!("{e}\n{}", numbered(&text)));
    let (_, changes) = rewritten(&graph, Options::new(class, Platform::Tpu), &themes(&["select", "scores"]));
    changes.iter().any(|change| change.rule == "row-with-scores")
}

/// Values by number, as the text form has them, for letters.
fn numbered(text: &str) -> String {
    let letters: Vec<&str> = text.lines().filter_map(|l| l.trim_start().strip_prefix('%')?.split(':').next()).collect();
    let name = |letter: &str| format!("%{}", letters.iter().position(|l| *l == letter).expect("a value"));
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |made, part| made + &name(&part[..1]) + &part[1..])
}

const CAUSAL: &str =
    "%q: bool[4,4] = compare_le %c, %r\n  %p: bool[2,4,4] = broadcast_in_dim(shape:[2,4,4],dims:[1,2]) %q";
const STRICT: &str =
    "%q: bool[4,4] = compare_lt %c, %r\n  %p: bool[2,4,4] = broadcast_in_dim(shape:[2,4,4],dims:[1,2]) %q";
const LATER: &str =
    "%q: bool[4,4] = compare_gt %c, %r\n  %p: bool[2,4,4] = broadcast_in_dim(shape:[2,4,4],dims:[1,2]) %q";
const GIVEN: &str = "%p: bool[2,4,4] = not %m";

#[test]
fn rows_under_a_causal_mask_hold_a_number() {
    assert!(known(CAUSAL, "select %p, %s, %i", Class::Reassociating));
    assert!(known(LATER, "select %p, %i, %s", Class::Reassociating), "what is masked is what comes later");
    assert!(known(GIVEN, "tanh %s", Class::Reassociating), "without a mask there is none to be all of a row");
}

#[test]
fn rows_that_may_be_empty_are_asked() {
    assert!(!known(STRICT, "select %p, %s, %i", Class::Reassociating), "the first row has no column before it");
    assert!(!known(LATER, "select %p, %s, %i", Class::Reassociating), "the last row has no column behind it");
    assert!(!known(GIVEN, "select %p, %s, %i", Class::Reassociating), "any mask may come");
    assert!(!known(CAUSAL, "select %p, %f, %i", Class::Reassociating), "an input may hold infinities");
    assert!(!known(CAUSAL, "add %s, %f", Class::Reassociating), "a mask that is added may be minus infinity");
    assert!(!known(CAUSAL, "select %p, %s, %i", Class::Exact), "products may be infinite");
}
