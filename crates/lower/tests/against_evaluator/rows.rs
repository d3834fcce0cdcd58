//! What the host computes of rows.

use super::*;
use ir::ops::sample::data::SplitMix;
use ir::{InputKind, OutputKind};
use std::sync::Arc;

/// Rows of one tensor, in a graph of their own: what is taken, by name, and how it grows.
struct Body {
    b: Builder,
    whole: Vec<usize>,
    outer: usize,
    random: SplitMix,
    given: Vec<Literal>,
    /// Elements of the whole, numbers of rows, and truths of either.
    elements: Vec<ValueId>,
    numbers: Vec<ValueId>,
    truths: Vec<ValueId>,
    /// What was computed.
    made: Vec<ValueId>,
}

impl Body {
    fn new(whole: &[usize], outer: usize, seed: u64) -> Body {
        let (b, random) = (Builder::new("rows"), SplitMix(seed));
        let [elements, numbers, truths, made] = [(); 4].map(|()| vec![]);
        Body { b, whole: whole.to_vec(), outer, random, given: vec![], elements, numbers, truths, made }
    }

    fn below(&mut self, n: usize) -> usize {
        (self.random.bits() % n as u64) as usize
    }

    fn input(&mut self, literal: Literal) -> ValueId {
        let value = self.b.input(format!("x{}", self.given.len()), InputKind::User, literal.ty.clone());
        self.given.push(literal);
        value
    }

    /// Gives a tensor of these dimensions of the whole, spread over it.
    fn take(&mut self, dims: &[usize], dtype: DType, of: impl Fn(DType, &[usize], u64) -> Literal) -> ValueId {
        let shape: Vec<usize> = dims.iter().map(|&d| self.whole[d]).collect();
        let seed = self.random.bits();
        let value = self.input(of(dtype, &shape, seed));
        if shape == self.whole { value } else { self.b.broadcast_in_dim(value, &self.whole, dims).unwrap() }
    }

    fn spread(&self, number: ValueId) -> ValueId {
        let rows: Vec<usize> = (0..self.outer).collect();
        self.b.broadcast_in_dim(number, &self.whole, &rows).unwrap()
    }

    /// An element or a number, and whether it is of the whole.
    fn any(&mut self) -> (ValueId, bool) {
        let is_whole = self.numbers.is_empty() || self.below(3) > 0;
        let n = if is_whole { self.elements.len() } else { self.numbers.len() };
        let i = self.below(n);
        (if is_whole { self.elements[i] } else { self.numbers[i] }, is_whole)
    }

    fn like(&mut self, is_whole: bool) -> ValueId {
        let (value, other) = self.any();
        match (is_whole, other) {
            (true, false) => self.spread(value),
            (false, true) => self.numbers[0],
            _ => value,
        }
    }

    fn reduce(&self, reducer: Reducer, of: ValueId) -> ValueId {
        let dims: Vec<usize> = (self.outer..self.whole.len()).collect();
        self.b.reduce(of, reducer, &dims).unwrap()
    }

    /// Of all rows, which is asked for and read by nothing.
    fn gather(&mut self, reducer: Reducer, of: ValueId) {
        let dims: Vec<usize> = (0..self.outer).collect();
        let value = self.b.reduce(of, reducer, &dims).unwrap();
        self.made.push(value);
    }

    fn keep(&mut self, value: ValueId, is_whole: bool) {
        if !self.made.contains(&value) {
            self.made.push(value);
        }
        if is_whole { self.elements.push(value) } else { self.numbers.push(value) }
    }

    /// The graph that asks for some of the values, and what it is given.
    fn asked(mut self) -> (Graph, Vec<Literal>) {
        for (i, &value) in self.made.iter().enumerate() {
            if i == 0 || i + 1 == self.made.len() || self.random.bits().is_multiple_of(3) {
                self.b.output(format!("y{i}"), OutputKind::User, value);
            }
        }
        let body = self.b.finish();
        let (body, kept) = body.without_unused_inputs();
        let given: Vec<Literal> = kept.into_iter().map(|i| self.given[i].clone()).collect();
        (asking(body, &given), given)
    }
}

/// A graph that asks the host for `body` of what is given.
fn asking(body: Graph, given: &[Literal]) -> Graph {
    let b = Builder::new("asking");
    let input = |(i, l): (usize, &Literal)| b.input(format!("x{i}"), InputKind::User, l.ty.clone());
    let args: Vec<ValueId> = given.iter().enumerate().map(input).collect();
    let told = ir::text::print(&body);
    let made = b.push(Op::HostRows, &args, vec![Arc::new(body)]).unwrap_or_else(|e| panic!("{e}\n{told}"));
    for (i, value) in b.elements(made).unwrap().into_iter().enumerate() {
        b.output(format!("y{i}"), OutputKind::User, value);
    }
    b.finish()
}

/// Whole tensors, and how many of their dimensions count rows: short rows and long ones, of which parts are computed at once.
const WHOLES: [(&[usize], usize); 12] = [
    (&[4, 20], 1),
    (&[2, 3, 33], 2),
    (&[70, 16], 1),
    (&[3, 1500], 1),
    (&[2, 2, 2100], 2),
    (&[5, 4, 16], 1),
    (&[4000], 0),
    (&[2, 1, 40], 2),
    (&[2, 40, 1], 1),
    (&[0, 24], 1),
    (&[3, 1024], 1),
    (&[9, 17, 20], 2),
];

/// A body of random steps that keep numbers small. Comparisons are of what is given, which rounding does not touch.
fn steps(whole: &[usize], outer: usize, dtype: DType, seed: u64) -> Body {
    let mut r = Body::new(whole, outer, seed);
    let all: Vec<usize> = (0..whole.len()).collect();
    let x = r.take(&all, dtype, small);
    r.elements.push(x);
    if outer > 0 {
        let per_place = r.take(&all[outer..], dtype, small);
        let per_row = r.take(&all[..outer], dtype, small);
        // What is the same in a whole row is a number of it, and is asked for as such.
        let off = r.b.scale_by(r.b.add(x, per_row).unwrap(), 0.5);
        r.elements.extend([per_place, off]);
        let number = r.input(small(dtype, &whole[..outer], seed));
        r.numbers.push(number);
        let some: Vec<usize> = all.iter().copied().filter(|&d| d >= outer || d % 2 == 0).collect();
        let mask = r.take(&some, DType::Bool, noise);
        r.truths.push(mask);
    }
    let less = r.b.compare(ir::Comparison::Lt, r.elements[0], r.elements[r.elements.len() - 1]).unwrap();
    r.truths.push(less);
    // The first of all says what a row is.
    let sum = r.reduce(Reducer::Add, x);
    let mean = r.b.scale_by(sum, 1.0 / whole[outer..].iter().product::<usize>() as f64);
    r.keep(mean, false);
    for _ in 0..12 {
        step(&mut r);
    }
    r
}

/// What the tests say often.
trait Scaling {
    fn scale_by(&self, v: ValueId, number: f64) -> ValueId;
    fn plus_one(&self, v: ValueId) -> ValueId;
}

impl Scaling for Builder {
    fn scale_by(&self, v: ValueId, number: f64) -> ValueId {
        let by = self.full(Number::Float(number), self.dtype(v), &self.shape(v)).unwrap();
        self.multiply(v, by).unwrap()
    }
    fn plus_one(&self, v: ValueId) -> ValueId {
        let one = self.full(Number::Float(1.0), self.dtype(v), &self.shape(v)).unwrap();
        self.add(self.unary(Unary::Abs, v).unwrap(), one).unwrap()
    }
}

fn step(r: &mut Body) {
    let (a, is_whole) = r.any();
    let other = r.like(is_whole);
    let kind = r.below(20);
    let count = r.whole[r.outer..].iter().product::<usize>() as f64;
    let (one, truth) = (r.elements[0], r.truths[r.truths.len() - 1]);
    let b = &r.b;
    let unary = |u: Unary, v: ValueId| b.unary(u, v).unwrap();
    let made = match kind {
        0 => b.scale_by(b.add(a, other).unwrap(), 0.5),
        1 => b.scale_by(b.subtract(a, other).unwrap(), 0.5),
        2 => b.scale_by(b.multiply(a, other).unwrap(), 0.25),
        3 => b.maximum(a, other).unwrap(),
        4 => b.binary(Binary::Minimum, a, other).unwrap(),
        5 => unary(Unary::Abs, a),
        6 => unary(Unary::Negate, a),
        7 => unary(Unary::Exponential, b.scale_by(unary(Unary::Abs, a), -1.0)),
        8 => unary(Unary::Logistic, a),
        9 => unary(Unary::Sqrt, b.plus_one(a)),
        10 => unary(Unary::Rsqrt, b.plus_one(a)),
        11 => unary(Unary::Log, b.plus_one(a)),
        12 => b.divide(a, b.plus_one(other)).unwrap(),
        13 if is_whole => b.select(truth, a, other).unwrap(),
        14 if is_whole => {
            let flipped = b.unary(Unary::Not, r.truths[0]).unwrap();
            let both = b.binary(Binary::And, flipped, truth).unwrap();
            b.select(both, one, a).unwrap()
        }
        15 if is_whole => return r.keep(r.b.scale_by(r.reduce(Reducer::Add, a), 1.0 / count), false),
        16 if is_whole => return r.keep(r.reduce(Reducer::Maximum, a), false),
        17 if is_whole => return r.keep(r.reduce(Reducer::Minimum, a), false),
        18 if is_whole && r.outer > 0 => {
            let rows = r.whole[..r.outer].iter().product::<usize>() as f64;
            return r.gather(Reducer::Add, b.scale_by(a, 1.0 / rows.max(1.0)));
        }
        19 if is_whole && r.outer > 0 => return r.gather(Reducer::Maximum, a),
        _ => return,
    };
    r.keep(made, is_whole);
}

#[test]
fn rows_of_the_host() {
    let mut j = hosts::asking();
    for seed in 0..20 {
        for dtype in [DType::F32, DType::F64] {
            for (whole, outer) in WHOLES {
                let (graph, given) = steps(whole, outer, dtype, seed).asked();
                let tolerance = Tolerance { ulps: 64.0, floor: 4.0 };
                j.compare(&format!("{seed} of {dtype} {whole:?}"), &graph, &given, tolerance);
            }
        }
    }
}

/// The extents of tensors of a list: numbers, small ones, and such as threads share.
const LIST: [&[usize]; 7] = [&[], &[3], &[5, 7, 11], &[1], &[33_000], &[300, 301], &[1024]];

/// A graph that asks for what is computed of each tensor of a list, in the memory of some, and with rows among them if `with_rows`.
fn list(dtype: DType, seed: u64, with_rows: bool) -> (Graph, Vec<Literal>) {
    let (b, mut random, mut given) = (Builder::new("lists"), SplitMix(seed), vec![]);
    let input = |dtype: DType, shape: &[usize], given: &mut Vec<Literal>, bits: u64| {
        let literal = small(dtype, shape, bits);
        let value = b.input(format!("x{}", given.len()), InputKind::User, literal.ty.clone());
        given.push(literal);
        value
    };
    let mut made: Vec<(OutputKind, ValueId)> = vec![];
    for (i, shape) in LIST.into_iter().enumerate() {
        let first = given.len();
        let [x, y] = [(); 2].map(|()| input(dtype, shape, &mut given, random.bits()));
        let place = (random.bits() % 4) as usize;
        let of = if i.is_multiple_of(2) { dtype } else { DType::F64 };
        let numbers = input(of, &[4], &mut given, random.bits());
        let number = b.convert(b.slice_dim(numbers, 0, place, place + 1, 1).unwrap(), dtype).unwrap();
        let number = b.reshape(number, &[]).unwrap();
        let number = b.unary(Unary::Abs, number).unwrap();
        let number = if shape.is_empty() { number } else { b.broadcast_in_dim(number, shape, &[]).unwrap() };
        let off = b.subtract(b.multiply(x, number).unwrap(), y).unwrap();
        // Another number than elsewhere: parts of a list share nothing.
        let some = b.full(Number::Float(1.0 + i as f64), dtype, shape).unwrap();
        let size = b.unary(Unary::Sqrt, b.add(b.unary(Unary::Abs, y).unwrap(), some).unwrap()).unwrap();
        let least = b.binary(Binary::Minimum, off, size).unwrap();
        let less = b.compare(ir::Comparison::Lt, y, least).unwrap();
        let chosen = b.select(less, off, x).unwrap();
        let mut kind =
            |input: usize| if random.bits() & 1 == 0 { OutputKind::User } else { OutputKind::Mutation(input) };
        made.extend([(kind(first), off), (kind(first + 1), chosen)]);
        made.push((OutputKind::User, least));
    }
    if with_rows {
        let x = input(dtype, &[20, 40], &mut given, random.bits());
        made.push((OutputKind::User, b.scale_by(b.reduce(x, Reducer::Add, &[1]).unwrap(), 1.0 / 40.0)));
    }
    for (i, (kind, value)) in made.into_iter().enumerate() {
        b.output(format!("y{i}"), kind, value);
    }
    (asking(b.finish(), &given), given)
}

#[test]
fn lists_of_the_host() {
    let mut j = hosts::asking();
    for seed in 0..3 {
        for dtype in [DType::F32, DType::F64] {
            let (graph, given) = list(dtype, seed, false);
            j.exact(&format!("{seed} of {dtype}"), &graph, &given);
            let (graph, given) = list(dtype, seed, true);
            j.compare(&format!("{seed} of {dtype} and rows"), &graph, &given, ulps(8.0));
        }
    }
}

#[test]
fn extremes_of_rows_are_exact() {
    let mut j = hosts::asking();
    for dtype in [DType::F32, DType::F64] {
        for (whole, outer) in WHOLES {
            let mut r = Body::new(whole, outer, 1);
            let all: Vec<usize> = (0..whole.len()).collect();
            let x = r.take(&all, dtype, noise);
            for reducer in [Reducer::Maximum, Reducer::Minimum] {
                let number = r.reduce(reducer, x);
                let off = r.b.subtract(x, r.spread(number)).unwrap();
                r.keep(number, false);
                r.keep(off, true);
                if outer > 0 {
                    r.gather(reducer, x);
                    r.gather(reducer, off);
                }
            }
            let (graph, given) = r.asked();
            j.exact(&format!("{dtype} {whole:?}"), &graph, &given);
        }
    }
}

#[test]
fn exponentials_are_right_everywhere() {
    let mut j = hosts::asking();
    let mut numbers: Vec<Number> = (-1100..=900).map(|i| Number::Float(f64::from(i) * 0.1)).collect();
    numbers
        .extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 88.722_84, 88.722_9, 1e30].map(Number::Float));
    for dtype in [DType::F32, DType::F64] {
        let x = line(dtype, &numbers);
        let mut r = Body::new(&x.ty.shape.clone(), 0, 1);
        let input = r.input(x);
        let most = r.reduce(Reducer::Maximum, input);
        r.keep(most, false);
        for u in [Unary::Exponential, Unary::Logistic] {
            let made = r.b.unary(u, input).unwrap();
            r.keep(made, true);
        }
        let (graph, given) = r.asked();
        j.compare(&format!("{dtype}"), &graph, &given, ulps(3.0));
    }
}
