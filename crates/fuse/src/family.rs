//! Left sides that stand for several patterns: any elementwise op, any number of operands.

/// Names of the elementwise ops of one operand.
const UNARY: &str = "abs acos acosh asin asinh atanh bessel_i1e cbrt ceil cosh cosine count_leading_zeros digamma erf \
     erf_inv erfc exponential exponential_minus_one floor imag is_finite lgamma log log_plus_one logistic negate not \
     popcnt real round_nearest_even rsqrt sign sine sinh sqrt tan tanh";
/// Names of the elementwise ops of two operands.
const BINARY: &str = "add and atan2 complex divide maximum minimum multiply next_after or power remainder \
     shift_left shift_right_arithmetic shift_right_logical subtract xor zeta compare_eq compare_ne compare_lt \
     compare_le compare_gt compare_ge";
/// What the names stand for in a pattern.
const FAMILIES: [(&str, &str); 2] = [("(unary ", UNARY), ("(binary ", BINARY)];
/// What follows a part that may be repeated.
const REPEATED: &str = "...";
/// Parts at most: more operands than that are left alone.
const PARTS: usize = 12;

/// One member of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spelled {
    family: Option<&'static str>,
    /// The op in place of the family's name.
    pub(crate) name: Option<&'static str>,
    parts: usize,
}

/// The members of what `left` stands for: one if it is a plain pattern.
pub(crate) fn members(left: &str) -> Vec<Spelled> {
    let plain = Spelled { family: None, name: None, parts: 1 };
    if left.contains(REPEATED) {
        return (1..=PARTS).map(|parts| Spelled { parts, ..plain }).collect();
    }
    let Some((family, names)) = FAMILIES.iter().find(|(family, _)| left.contains(family)) else { return vec![plain] };
    names.split(' ').map(|name| Spelled { family: Some(family), name: Some(name), parts: 1 }).collect()
}

impl Spelled {
    /// A pattern of the rule for this member.
    pub(crate) fn spell(&self, text: &str) -> String {
        let mut spelled = match (self.family, self.name) {
            (Some(family), Some(name)) => text.replace(family, &format!("({name} ")),
            _ => text.to_owned(),
        };
        while let Some((before, after)) = spelled.split_once(REPEATED) {
            let start = part(before);
            let parts: Vec<String> = (0..self.parts).map(|i| before[start..].replace('*', &i.to_string())).collect();
            spelled = format!("{}{}{after}", &before[..start], parts.join(" "));
        }
        spelled
    }
}

/// Where the last part of `text` starts: a variable or what stands in balanced parentheses.
fn part(text: &str) -> usize {
    let mut open = 0usize;
    for (i, c) in text.char_indices().rev() {
        match c {
            ')' => open += 1,
            '(' if open <= 1 => return i,
            '(' => open -= 1,
            ' ' if open == 0 => return i + 1,
            _ => {}
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ops_of_so_many_operands() {
        use ir::Op::{Binary, Compare, Unary};
        let op = |n: &str| ir::text::elementwise(n);
        assert!(UNARY.split(' ').all(|n| matches!(op(n), Some(Unary(_)))));
        assert!(BINARY.split(' ').all(|n| matches!(op(n), Some(Binary(_) | Compare(_)))));
    }

    #[test]
    fn a_part_is_repeated() {
        let all = members("(concatenate (slice ?x* ?s)... ?a)");
        assert_eq!(all.len(), PARTS);
        assert_eq!(
            all[1].spell("(concatenate (slice ?x* ?s)... ?a)"),
            "(concatenate (slice ?x0 ?s) (slice ?x1 ?s) ?a)"
        );
        assert_eq!(all[0].spell("(concatenate ?x*... ?a)"), "(concatenate ?x0 ?a)");
    }

    #[test]
    fn a_name_is_each_op_in_turn() {
        let all = members("(binary ?x ?x)");
        assert_eq!(all[0].spell("(binary ?x ?x)"), "(add ?x ?x)");
        assert_eq!(members("(add ?x ?y)")[0].spell("(add ?x ?y)"), "(add ?x ?y)");
    }
}
