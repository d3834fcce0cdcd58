//! Bodies of reductions, scatters, sorts: StableHLO spells them out, core ops name them.
//!
//! NaN is never compared away: IEEE comparisons are false on NaN, so each rule asks for `x != x` itself.

use crate::scope::{Scope, V};
use ir::{Combiner, Comparison, DType, Reducer, Result, TensorType};

const PRED: DType = DType::Bool;

impl<'c> Scope<'_, 'c> {
    /// Combines two accumulators of a reduction. Arguments and results: (value), or (value, index) for arg-reductions.
    pub(crate) fn reducer(
        &self,
        reducer: Reducer,
        dtypes: &[DType],
        lhs: &[V<'c>],
        rhs: &[V<'c>],
    ) -> Result<Vec<V<'c>>> {
        if let (&[value, index], &[v0, i0], &[v1, i1]) = (dtypes, lhs, rhs) {
            return self.arg_reducer(reducer, [value, index], [v0, i0], [v1, i1]);
        }
        let name = match reducer {
            Reducer::Add => "stablehlo.add",
            Reducer::Multiply => "stablehlo.multiply",
            Reducer::Maximum | Reducer::ArgMax => "stablehlo.maximum",
            Reducer::Minimum | Reducer::ArgMin => "stablehlo.minimum",
            Reducer::And => "stablehlo.and",
            Reducer::Or => "stablehlo.or",
            Reducer::Xor => "stablehlo.xor",
        };
        lhs.iter().zip(rhs).zip(dtypes).map(|((&l, &r), &d)| self.scalar(name, &[l, r], d)).collect()
    }

    /// The better value, NaN best; among equals (two NaNs too) the smaller index. Symmetric in its arguments, so that
    /// plugins may combine in any order.
    fn arg_reducer(
        &self,
        reducer: Reducer,
        [value, index]: [DType; 2],
        a: [V<'c>; 2],
        b: [V<'c>; 2],
    ) -> Result<Vec<V<'c>>> {
        let better = if reducer == Reducer::ArgMin { Comparison::Lt } else { Comparison::Gt };
        let mut wins = self.compared(better, value, a[0], b[0])?;
        let mut ties = self.compared(Comparison::Eq, value, a[0], b[0])?;
        if value.is_float() {
            let (a_nan, b_nan) = (self.is_nan(value, a[0])?, self.is_nan(value, b[0])?);
            let only_a = self.scalar("stablehlo.and", &[a_nan, self.not(b_nan)?], PRED)?;
            let both = self.scalar("stablehlo.and", &[a_nan, b_nan], PRED)?;
            wins = self.scalar("stablehlo.or", &[wins, only_a], PRED)?;
            ties = self.scalar("stablehlo.or", &[ties, both], PRED)?;
        }
        let first = self.compared(Comparison::Lt, index, a[1], b[1])?;
        let wins_tie = self.scalar("stablehlo.and", &[ties, first], PRED)?;
        let take_a = self.scalar("stablehlo.or", &[wins, wins_tie], PRED)?;
        let choose = |i: usize, d| self.scalar("stablehlo.select", &[take_a, a[i], b[i]], d);
        Ok(vec![choose(0, value)?, choose(1, index)?])
    }

    /// What a scatter leaves where `old` is and `update` arrives.
    pub(crate) fn combiner(&self, combiner: Combiner, dtype: DType, old: V<'c>, update: V<'c>) -> Result<V<'c>> {
        let name = match combiner {
            Combiner::Set => return Ok(update),
            Combiner::Add => "stablehlo.add",
            Combiner::Multiply => "stablehlo.multiply",
            Combiner::Maximum => "stablehlo.maximum",
            Combiner::Minimum => "stablehlo.minimum",
        };
        self.scalar(name, &[old, update], dtype)
    }

    /// Whether `a` sorts before `b`: a strict weak order with NaN greatest and `-0` equal to `0`.
    pub(crate) fn sorts_before(&self, dtype: DType, descending: bool, a: V<'c>, b: V<'c>) -> Result<V<'c>> {
        let (less, more) = if descending { (b, a) } else { (a, b) };
        let below = self.compared(Comparison::Lt, dtype, less, more)?;
        if !dtype.is_float() {
            return Ok(below);
        }
        let number = self.compared(Comparison::Eq, dtype, less, less)?;
        let below_nan = self.scalar("stablehlo.and", &[number, self.is_nan(dtype, more)?], PRED)?;
        self.scalar("stablehlo.or", &[below, below_nan], PRED)
    }

    /// Whether `select_and_scatter` keeps `best` rather than `candidate`: the first maximum, or the last NaN.
    pub(crate) fn keeps(&self, dtype: DType, best: V<'c>, candidate: V<'c>) -> Result<V<'c>> {
        let at_least = self.compared(Comparison::Ge, dtype, best, candidate)?;
        if !dtype.is_float() {
            return Ok(at_least);
        }
        let number = self.compared(Comparison::Eq, dtype, candidate, candidate)?;
        let above = self.scalar("stablehlo.and", &[self.is_nan(dtype, best)?, number], PRED)?;
        self.scalar("stablehlo.or", &[at_least, above], PRED)
    }

    fn is_nan(&self, dtype: DType, x: V<'c>) -> Result<V<'c>> {
        self.compared(Comparison::Ne, dtype, x, x)
    }

    fn not(&self, x: V<'c>) -> Result<V<'c>> {
        self.scalar("stablehlo.not", &[x], PRED)
    }

    fn compared(&self, c: Comparison, dtype: DType, a: V<'c>, b: V<'c>) -> Result<V<'c>> {
        self.compare(c, &TensorType::new(dtype, []), a, b)
    }

    fn scalar(&self, name: &'static str, operands: &[V<'c>], dtype: DType) -> Result<V<'c>> {
        self.elementwise(name, operands, &TensorType::new(dtype, []))
    }
}
