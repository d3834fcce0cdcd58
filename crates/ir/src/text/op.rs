//! Names and attributes of ops.

use crate::op::{Comparison, Op};
use ron::extensions::Extensions;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as Unknown, StrDeserializer};
use serde::{Deserialize, Serialize};

fn options() -> ron::Options {
    ron::Options::default().with_default_extension(Extensions::UNWRAP_VARIANT_NEWTYPES)
}

fn ron_of(value: &impl Serialize) -> String {
    // Ops hold numbers, names and lists of them: nothing that RON could refuse.
    options().to_string(value).unwrap_or_else(|e| format!("unprintable({e})"))
}

/// The op as text, without operands. Inputs and constants are printed by their own rules.
pub(super) fn spell(op: &Op) -> String {
    match op {
        Op::Unary(u) => ron_of(u),
        Op::Binary(b) => ron_of(b),
        Op::Compare(c) => format!("compare_{}", ron_of(c)),
        other => ron_of(other),
    }
}

/// What `op` is called, without its attributes.
pub fn name(op: &Op) -> String {
    let mut spelt = spell(op);
    spelt.truncate(spelt.find('(').unwrap_or(spelt.len()));
    spelt
}

/// The op that `text` spells; `Err` says why there is none.
pub(super) fn read(text: &str) -> Result<Op, String> {
    if let Some(op) = elementwise(text) {
        return Ok(op);
    }
    let op: Op = options().from_str(text).map_err(|e| format!("`{text}` is no op: {}", e.code))?;
    match op {
        Op::Input { .. } | Op::Constant(_) | Op::Unary(_) | Op::Binary(_) | Op::Compare(_) => {
            Err(format!("`{text}` is not how this op is written"))
        }
        op => Ok(op),
    }
}

/// The op without attributes that is called `text`.
pub fn elementwise(text: &str) -> Option<Op> {
    fn named<'a, T: Deserialize<'a>>(text: &'a str) -> Option<T> {
        let name: StrDeserializer<'a, Unknown> = text.into_deserializer();
        T::deserialize(name).ok()
    }
    let comparison = || text.strip_prefix("compare_").and_then(named::<Comparison>).map(Op::Compare);
    named(text).map(Op::Unary).or_else(|| named(text).map(Op::Binary)).or_else(comparison)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Binary, Unary};

    #[test]
    fn elementwise_names_are_bare_and_distinct() {
        for op in [Op::Unary(Unary::Not), Op::Binary(Binary::And), Op::Compare(Comparison::Ge)] {
            assert_eq!(read(&spell(&op)), Ok(op));
        }
        assert_eq!(spell(&Op::Unary(Unary::RoundNearestEven)), "round_nearest_even");
        assert_eq!(spell(&Op::Compare(Comparison::Lt)), "compare_lt");
    }

    #[test]
    fn attributes_are_checked() {
        assert_eq!(read("select"), Ok(Op::Select));
        for (text, message) in [
            ("tanhh", "`tanhh` is no op"),
            ("reverse(dims:[0],dim:1)", "is no op"),
            ("reverse", "is no op"),
            ("select()", "is no op"),
            ("compare(lt)", "is not how this op is written"),
        ] {
            assert!(read(text).unwrap_err().contains(message), "{text}: {:?}", read(text));
        }
    }
}
