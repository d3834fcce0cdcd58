//! Rows: what is computed of each row by itself, such as its sum, or its softmax, and what is combined of all of them.

use crate::Combines;
use crate::share::{self, cut, size};
use std::ops::Range;

/// What an element takes for each step, in multiplications.
const WORK: usize = 2;

/// How much less the elements of a list take, which wait for nothing: to wake a thread takes some 50 us, and most lists are done by then.
const IN_VECTORS: usize = 8;

/// The most operands and steps there are, and the most dimensions.
const MOST: usize = 64;

/// Rows that are combined with each other one by one, and the most parts that rows are combined in.
const GROUP: usize = 32;
const MOST_PARTS: usize = 64;

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // as `ir` names them
pub enum OfOne {
    Abs,
    Exponential,
    Log,
    Logistic,
    Negate,
    Rsqrt,
    Sqrt,
    Erf,
    Tanh,
}

/// A function of two numbers. Comparisons give one for true and nought for false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum OfTwo {
    Add,
    Divide,
    Equal,
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
    /// NaN if either is.
    Maximum,
    /// NaN if either is.
    Minimum,
    Multiply,
    NotEqual,
    Subtract,
}

impl OfOne {
    /// All of them, by their number, which programs that are kept hold.
    pub const ALL: [OfOne; 9] = [
        OfOne::Abs,
        OfOne::Exponential,
        OfOne::Log,
        OfOne::Logistic,
        OfOne::Negate,
        OfOne::Rsqrt,
        OfOne::Sqrt,
        OfOne::Erf,
        OfOne::Tanh,
    ];
}

impl OfTwo {
    /// All of them, by their number.
    pub const ALL: [OfTwo; 12] = [
        OfTwo::Add,
        OfTwo::Divide,
        OfTwo::Equal,
        OfTwo::Greater,
        OfTwo::GreaterEqual,
        OfTwo::Less,
        OfTwo::LessEqual,
        OfTwo::Maximum,
        OfTwo::Minimum,
        OfTwo::Multiply,
        OfTwo::NotEqual,
        OfTwo::Subtract,
    ];
}

/// What a step makes of values before it, which are told by their numbers: first those of the operands, then of the steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// The number.
    Constant(f64),
    /// The function of a value.
    One(OfOne, usize),
    /// The function of two.
    Two(OfTwo, usize, usize),
    /// The second where the first is not nought, else the third.
    Select(usize, usize, usize),
    /// Of each row the elements combined. Sums are added up in lanes, floats of 32 bits as such.
    Reduce(Combines, usize),
    /// Of each place in a row the elements of all rows combined, in an order that [`Rows::combined_parts`] tells. No step reads it.
    Gather(Combines, usize),
}

impl Step {
    /// The values it reads.
    pub fn reads(self) -> impl Iterator<Item = usize> {
        let values = match self {
            Step::Constant(_) => [None; 3],
            Step::One(_, a) | Step::Reduce(_, a) | Step::Gather(_, a) => [Some(a), None, None],
            Step::Two(_, a, b) => [Some(a), Some(b), None],
            Step::Select(a, b, c) => [Some(a), Some(b), Some(c)],
        };
        values.into_iter().flatten()
    }
}

/// An operand, whose elements are in row-major order of the dimensions it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Which of the dimensions it has, the first as the least bit; along others it is the same. Of a row's all or none.
    pub has: u64,
    /// Whether it holds truth values, of a byte each.
    pub truths: bool,
    /// Whether it is a number of 64 bits, however wide the others are.
    pub wide: bool,
    /// If it is a number, which one of how many that are given.
    pub place: usize,
    #[allow(missing_docs)] // told with the place
    pub of: usize,
}

impl Operand {
    /// One that has these dimensions, all of it.
    pub fn with(has: u64, truths: bool) -> Operand {
        Operand { has, truths, wide: false, place: 0, of: 1 }
    }
}

/// Steps that are taken for each row of a tensor. Values hold an element for each place of a row, or one number for all of it, or an
/// element for each place in all rows together. A call computes one of them or several.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Extents of the tensor.
    pub extents: Vec<usize>,
    /// How many of its dimensions count rows; the others, at least one, are a row's.
    pub outer: usize,
    /// What is given.
    pub operands: Vec<Operand>,
    /// What is computed, in order.
    pub steps: Vec<Step>,
    /// The steps' values that are wanted, by number.
    pub results: Vec<usize>,
    /// For each result the operand whose memory it may take, if there is one: it is written as soon as nobody reads the operand there.
    pub takes: Vec<Option<usize>>,
}

impl Rows {
    /// What programs call: `stablehlo.custom_call @torchtpu.rows(operands...)`.
    pub const TARGET: &str = "torchtpu.rows";

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.extents[..self.outer].iter().product()
    }

    /// Elements of a row.
    pub fn length(&self) -> usize {
        self.extents[self.outer..].iter().product()
    }

    /// For each value, whether it holds an element for each place of a row.
    pub fn are_whole(&self) -> Vec<bool> {
        let rows = (1u64 << self.outer) - 1;
        let mut whole: Vec<bool> = self.operands.iter().map(|operand| operand.has & !rows != 0).collect();
        for step in &self.steps {
            let is_reduced = matches!(step, Step::Reduce(..) | Step::Gather(..));
            whole.push(!is_reduced && step.reads().any(|value| whole[value]));
        }
        whole
    }

    /// What a value is gathered by, if it is a step's that gathers.
    pub fn gathers(&self, value: usize) -> Option<Combines> {
        match self.steps.get(value.checked_sub(self.operands.len())?) {
            Some(Step::Gather(of, _)) => Some(*of),
            _ => None,
        }
    }

    /// Whether something is combined of all rows.
    pub fn is_gathering(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Gather(..)))
    }

    /// How many elements the operands have, and then the results.
    pub fn sizes(&self) -> (Vec<usize>, Vec<usize>) {
        let has = |operand: &Operand| {
            let extents = self.extents.iter().enumerate();
            operand.of * extents.filter(|(d, _)| operand.has >> d & 1 == 1).map(|(_, extent)| extent).product::<usize>()
        };
        let whole = self.are_whole();
        let made = |&value: &usize| match (whole[value], self.gathers(value)) {
            (true, _) => self.rows() * self.length(),
            (false, None) => self.rows(),
            (false, Some(_)) => self.length(),
        };
        (self.operands.iter().map(has).collect(), self.results.iter().map(made).collect())
    }

    /// As [`Rows::decode_all`] reads it. Operands and results of a call are those of the first, then of the second, and so on.
    pub fn encode_all(all: &[Rows]) -> Vec<i64> {
        let each = all.iter().map(Rows::encode);
        each.flat_map(|numbers| std::iter::once(numbers.len() as i64).chain(numbers)).collect()
    }

    /// What [`Rows::encode_all`] wrote of at least one; `None` if it did not write this.
    pub fn decode_all(numbers: &[i64]) -> Option<Vec<Rows>> {
        let (mut left, mut all) = (Numbers(numbers), vec![]);
        while !left.0.is_empty() {
            let length = left.below(numbers.len())?;
            let (own, rest) = left.0.split_at_checked(length)?;
            all.push(Rows::decode(own)?);
            left = Numbers(rest);
        }
        (!all.is_empty()).then_some(all)
    }

    /// As [`Rows::decode`] reads it.
    fn encode(&self) -> Vec<i64> {
        let count = |n: usize| n as i64;
        let mut numbers = vec![count(self.extents.len()), count(self.outer)];
        numbers.extend(self.extents.iter().map(|&extent| count(extent)));
        numbers.push(count(self.operands.len()));
        numbers.extend(
            self.operands
                .iter()
                .flat_map(|o| [o.has as i64, o.truths.into(), o.wide.into(), count(o.place), count(o.of)]),
        );
        numbers.push(count(self.steps.len()));
        numbers.extend(self.steps.iter().flat_map(|&step| match step {
            Step::Constant(number) => [0, number.to_bits() as i64, 0, 0],
            Step::One(of, a) => [1, of as i64, count(a), 0],
            Step::Two(of, a, b) => [2, of as i64, count(a), count(b)],
            Step::Select(a, b, c) => [3, count(a), count(b), count(c)],
            Step::Reduce(of, a) => [4, of as i64, count(a), 0],
            Step::Gather(of, a) => [5, of as i64, count(a), 0],
        }));
        let takes = self.takes.iter().map(|takes| takes.map_or(-1, count));
        numbers.extend(self.results.iter().zip(takes).flat_map(|(&value, takes)| [count(value), takes]));
        numbers
    }

    /// What [`Rows::encode`] wrote; `None` if it did not write this.
    fn decode(numbers: &[i64]) -> Option<Rows> {
        let mut left = Numbers(numbers);
        let (rank, outer) = (left.below(MOST)?, left.below(MOST)?);
        let extents = (0..rank).map(|_| left.below(1 << 48)).collect::<Option<Vec<_>>>()?;
        let count = left.below(MOST)?;
        let operands = (0..count).map(|_| left.operand(rank)).collect::<Option<Vec<_>>>()?;
        let steps = left.below(MOST)?;
        let steps = (0..steps).map(|i| left.step(count + i)).collect::<Option<Vec<_>>>()?;
        let (mut results, mut takes) = (vec![], vec![]);
        while !left.0.is_empty() {
            results.push(left.below(count + steps.len())?);
            takes.push(left.taken(count)?);
        }
        let rows = Rows { extents, outer, operands, steps, results, takes };
        rows.is_sound().then_some(rows)
    }

    /// Whether the host takes it: everything in it is there, and small enough to be counted.
    pub fn is_sound(&self) -> bool {
        let count = self.operands.len() + self.steps.len();
        let in_order = self.steps.iter().enumerate();
        let few = self.extents.len() < MOST && self.operands.len() < MOST && self.steps.len() < MOST;
        let mut in_order = in_order.map(|(i, step)| (self.operands.len() + i, step));
        if !few || self.outer >= self.extents.len() || size(self.extents.iter().map(|&extent| extent.max(1))).is_none()
        {
            return false;
        }
        let inner = (self.outer..self.extents.len()).fold(0, |all, d| all | 1u64 << d);
        let is_there = |o: &Operand| o.place < o.of && (o.has == 0 || o.of == 1 && !o.wide) && !(o.truths && o.wide);
        if !self.operands.iter().all(|o| [0, inner].contains(&(o.has & inner)) && is_there(o)) {
            return false;
        }
        let is_computed = |&value: &usize| (self.operands.len()..count).contains(&value);
        let is_there = |at: usize, value: usize| value < at && self.gathers(value).is_none();
        if !in_order.all(|(at, step)| step.reads().all(|v| is_there(at, v))) || !self.results.iter().all(is_computed) {
            return false;
        }
        let is_distinct = |i: usize| !self.results[..i].contains(&self.results[i]);
        let whole = self.are_whole();
        let reduced = self.steps.iter().filter_map(|step| match step {
            Step::Reduce(_, value) | Step::Gather(_, value) => Some(*value),
            _ => None,
        });
        (0..self.results.len()).all(is_distinct)
            && reduced.into_iter().all(|value| whole[value])
            && self.takes_fit(&whole)
    }

    /// Whether results only take the memory of operands that have as many elements, each its own, and are computed place by place: none
    /// of them is read again behind what is combined of others.
    fn takes_fit(&self, whole: &[bool]) -> bool {
        let all = (1u64 << self.extents.len()) - 1;
        let fits = |(i, takes): (usize, &Option<usize>)| {
            takes.is_none_or(|operand| {
                let is_alike = self.operands.get(operand).is_some_and(|o| o.has == all && !o.truths);
                is_alike && whole[self.results[i]] && !self.takes[..i].contains(takes)
            })
        };
        let combines = |step: &Step| matches!(step, Step::Reduce(..) | Step::Gather(..));
        let takes = self.takes.iter().any(Option::is_some);
        self.takes.len() == self.results.len()
            && self.takes.iter().enumerate().all(fits)
            && !(takes && self.steps.iter().any(combines))
    }

    /// The same steps, of tensors of any length, if each place is computed by itself.
    pub fn of_any_length(&self) -> Rows {
        let operand = |o: &Operand| Operand { wide: o.wide, ..Operand::with(u64::from(o.has != 0), o.truths) };
        let operands = self.operands.iter().map(operand).collect();
        Rows { extents: vec![1], outer: 0, operands, ..self.clone() }
    }

    /// In how many parts the work is worth doing on `threads`.
    pub fn parts(&self, threads: usize) -> usize {
        share::parts(self.work(self.rows().saturating_mul(self.length())), threads)
    }

    /// The same of several of which each place is computed by itself, and that have so many elements each.
    pub fn parts_of<'a>(all: impl IntoIterator<Item = (&'a Rows, usize)>, threads: usize) -> usize {
        let work = all.into_iter().map(|(rows, numel)| rows.work(numel) / IN_VECTORS);
        share::parts(work.fold(0, usize::saturating_add), threads)
    }

    /// What all steps take of so many elements, in multiplications.
    fn work(&self, numel: usize) -> usize {
        numel.saturating_mul(WORK * (self.steps.len() + self.operands.len()))
    }

    /// Whether each place is computed by itself, all of them one row: nothing is combined, and no result is a number of each row.
    pub fn is_elementwise(&self) -> bool {
        let combines = |step: &Step| matches!(step, Step::Reduce(..) | Step::Gather(..));
        let whole = self.are_whole();
        self.outer == 0 && self.results.iter().all(|&result| whole[result]) && !self.steps.iter().any(combines)
    }

    /// The rows, in parts that `threads` may take, if they have nothing to do with each other.
    pub fn cut(&self, threads: usize) -> impl Iterator<Item = Range<usize>> {
        cut(self.rows(), self.parts(threads), 1)
    }

    /// The rows, in the parts that are combined by themselves, each in groups of [`Rows::group`] one row after the other. What the
    /// groups make is combined in order, and so is what the parts make.
    pub fn combined_parts(&self) -> impl Iterator<Item = Range<usize>> {
        let rows = self.rows();
        cut(rows, (rows / GROUP).clamp(1, MOST_PARTS), GROUP)
    }

    /// How many rows are combined one after the other.
    pub fn group() -> usize {
        GROUP
    }
}

/// What is left to read.
struct Numbers<'a>(&'a [i64]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<i64> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn below(&mut self, limit: usize) -> Option<usize> {
        usize::try_from(self.next()?).ok().filter(|&number| number < limit)
    }

    fn operand(&mut self, rank: usize) -> Option<Operand> {
        let (has, truths, wide) = (self.next()? as u64, self.below(2)? == 1, self.below(2)? == 1);
        let (place, of) = (self.below(1 << 48)?, self.below(1 << 48)?);
        (has >> rank == 0).then_some(Operand { has, truths, wide, place, of })
    }

    /// Which of so many operands, or none.
    fn taken(&mut self, operands: usize) -> Option<Option<usize>> {
        if self.0.first() == Some(&-1) {
            self.next()?;
            return Some(None);
        }
        Some(Some(self.below(operands)?))
    }

    /// A step that reads some of the first `values` values.
    fn step(&mut self, values: usize) -> Option<Step> {
        let kind = self.next()?;
        let step = match kind {
            0 => Step::Constant(f64::from_bits(self.next()? as u64)),
            1 => Step::One(*OfOne::ALL.get(self.below(MOST)?)?, self.below(values)?),
            2 => Step::Two(*OfTwo::ALL.get(self.below(MOST)?)?, self.below(values)?, self.below(values)?),
            3 => Step::Select(self.below(values)?, self.below(values)?, self.below(values)?),
            4 => Step::Reduce(*Combines::ALL.get(self.below(MOST)?)?, self.below(values)?),
            5 => Step::Gather(*Combines::ALL.get(self.below(MOST)?)?, self.below(values)?),
            _ => return None,
        };
        let unused = [2, 1, 0, 0, 1, 1][kind as usize];
        (0..unused).all(|_| self.next() == Some(0)).then_some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is far from the mean of each row, and the mean.
    fn far() -> Rows {
        Rows {
            extents: vec![3, 5, 7],
            outer: 2,
            operands: vec![Operand::with(0b111, false), Operand::with(0b100, true)],
            steps: vec![
                Step::Reduce(Combines::Sum, 0),
                Step::Constant(1.0 / 7.0),
                Step::Two(OfTwo::Multiply, 2, 3),
                Step::Two(OfTwo::Subtract, 0, 4),
                Step::One(OfOne::Abs, 5),
                Step::Select(1, 6, 4),
                Step::Gather(Combines::Sum, 5),
            ],
            results: vec![7, 4, 8],
            takes: vec![None; 3],
        }
    }

    /// Two tensors' sum, and that and a number, each instead of one of them.
    fn sums() -> Rows {
        Rows {
            extents: vec![7],
            outer: 0,
            operands: vec![
                Operand::with(1, false),
                Operand::with(1, false),
                Operand { place: 3, of: 5, wide: true, ..Operand::with(0, false) },
            ],
            steps: vec![Step::Two(OfTwo::Add, 0, 1), Step::Two(OfTwo::Subtract, 0, 1), Step::Two(OfTwo::Add, 2, 3)],
            results: vec![3, 5],
            takes: vec![Some(1), Some(0)],
        }
    }

    #[test]
    fn numbers_come_back() {
        let rows = far();
        assert_eq!(Rows::decode(&rows.encode()), Some(rows.clone()));
        let all = [sums(), far(), sums()];
        assert_eq!(Rows::decode_all(&Rows::encode_all(&all)).as_deref(), Some(&all[..]));
        assert!(!rows.is_elementwise() && sums().is_elementwise());
        assert_eq!(rows.are_whole(), [true, true, false, false, false, true, true, true, false]);
        assert_eq!(rows.sizes(), (vec![105, 7], vec![105, 15, 7]));
        for (i, of) in OfOne::ALL.into_iter().enumerate() {
            assert_eq!(of as usize, i);
        }
        for (i, of) in OfTwo::ALL.into_iter().enumerate() {
            assert_eq!(of as usize, i);
        }
    }

    #[test]
    fn what_was_not_written_is_refused() {
        let all = [sums(), far()];
        let (first, numbers) = (Rows::encode_all(&all[..1]).len(), Rows::encode_all(&all));
        for length in (0..numbers.len()).filter(|&length| length != first) {
            let cut = Rows::decode_all(&numbers[..length]);
            assert_eq!(cut, None, "the first {length}");
        }
        for (at, _) in numbers.iter().enumerate() {
            for wrong in [-1, 0, 65, i64::MAX] {
                let mut numbers = numbers.clone();
                numbers[at] = wrong;
                let read = Rows::decode_all(&numbers);
                let same = read.is_none_or(|all| Rows::encode_all(&all) == numbers);
                assert!(same, "{wrong} at {at} is read as something else");
            }
        }
        let wrong = [
            Rows { outer: 3, ..far() },
            Rows { extents: vec![usize::MAX >> 1, 5, 7], ..far() },
            Rows { results: vec![0], ..far() },
            Rows { results: vec![9], ..far() },
            Rows { results: vec![7, 7], ..far() },
            Rows { steps: vec![Step::Reduce(Combines::Sum, 0), Step::Reduce(Combines::Sum, 2)], ..far() },
            Rows { steps: vec![Step::One(OfOne::Abs, 2)], ..far() },
            Rows { steps: [far().steps, vec![Step::One(OfOne::Abs, 8)]].concat(), ..far() },
            Rows { steps: vec![Step::Constant(1.0), Step::Gather(Combines::Sum, 2)], results: vec![3], ..far() },
            Rows { takes: vec![Some(0), None, None], ..far() },
            Rows { takes: vec![Some(0), Some(0)], ..sums() },
            Rows { takes: vec![Some(2), None], ..sums() },
            Rows { operands: vec![Operand::with(0, false); 3], ..sums() },
            Rows {
                operands: vec![Operand { place: 5, of: 5, ..Operand::with(0, false) }; 3],
                takes: vec![None; 2],
                ..sums()
            },
            Rows { operands: vec![Operand { of: 2, ..Operand::with(1, false) }; 3], ..sums() },
            Rows { operands: vec![Operand { wide: true, ..Operand::with(1, false) }; 3], ..sums() },
        ];
        for rows in wrong {
            assert_eq!(Rows::decode(&rows.encode()), None, "{rows:?}");
        }
    }

    #[test]
    fn parts_cover_all_rows_once() {
        for (extents, threads) in [(vec![0, 7], 2), (vec![1, 1 << 20], 8), (vec![4096, 300], 2), (vec![31, 9, 999], 4)]
        {
            let rows = Rows { outer: extents.len() - 1, extents, ..far() };
            let end = |at, part: Range<usize>| (part.start == at).then_some(part.end);
            assert_eq!(rows.cut(threads).try_fold(0, end), Some(rows.rows()));
            assert_eq!(rows.combined_parts().try_fold(0, end), Some(rows.rows()));
            assert!(rows.combined_parts().count() <= MOST_PARTS);
        }
    }
}
