//! What is done to a result before it leaves the cache.

/// `max(result * scale + bias + addend, 0)`, each of the four where it is asked for, in this order. The first three are further
/// operands of the call, of the result's element type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Finish {
    /// A number for each feature: a column of a product, a feature of a convolution.
    pub scale: bool,
    /// Likewise.
    pub bias: bool,
    /// A number for each element.
    pub addend: bool,
    /// Numbers below zero become zero; NaN stays.
    pub relu: bool,
}

impl Finish {
    /// The numbers of a call: what is done, then the call's own.
    pub fn encode(self, call: Vec<i64>) -> Vec<i64> {
        let flags = [self.scale, self.bias, self.addend, self.relu];
        let bits = flags.iter().enumerate().map(|(i, &flag)| i64::from(flag) << i).sum();
        [bits].into_iter().chain(call).collect()
    }

    /// How many elements each further operand has, of a result of so many, which are of so many features.
    pub fn sizes(self, features: usize, elements: usize) -> impl Iterator<Item = usize> {
        let all = [(self.scale, features), (self.bias, features), (self.addend, elements)];
        all.into_iter().filter(|operand| operand.0).map(|operand| operand.1)
    }

    /// What [`Finish::encode`] wrote, and the call's own numbers; `None` if it did not write this.
    pub fn decode(numbers: &[i64]) -> Option<(Finish, &[i64])> {
        let (&bits, call) = numbers.split_first()?;
        let [scale, bias, addend, relu] = [0, 1, 2, 3].map(|i| bits >> i & 1 != 0);
        let finish = Finish { scale, bias, addend, relu };
        (0..16).contains(&bits).then_some((finish, call))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for bits in 0..16 {
            let numbers = [bits, 7, 9];
            let (finish, call) = Finish::decode(&numbers).expect("written so");
            assert_eq!(finish.encode(call.to_vec()), numbers);
        }
        assert_eq!(Finish::decode(&[16, 7]), None);
        assert_eq!(Finish::decode(&[-1, 7]), None);
        assert_eq!(Finish::decode(&[]), None);
    }
}
