//! Connectionist temporal classification: the probability that a sequence of labels, with blanks between, is read off a
//! longer sequence of guesses.
//!
//! A path is at one of `2 s + 1` states: before, at and after each label. Forward and backward are loops over time that
//! carry one row of logarithms per sequence. Lengths are data; where a sequence has ended its rows mean nothing.

use super::bounded::{Bounded, Cut};
use super::expr::formula;
use super::index::{put_along, take_along, take_flat};
use super::loops::{put_row, repeat, row};
use super::scan::cumulative_sum;
use super::support::{not_implemented, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::op::{Binary, Combiner, Comparison, Reducer, Unary};
use crate::{DType, Number, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_ctc_loss(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, int blank=0, \
         bool zero_infinity=False) -> (Tensor, Tensor)",
        |c, b| {
            let target_lengths = c.ints("target_lengths")?;
            let longest = target_lengths.iter().copied().max().unwrap_or(0);
            let ctc = Ctc::read(c, b, usize::try_from(longest).unwrap_or(0))?;
            let (loss, alphas) = ctc.forward(b)?;
            Ok(vec![Some(loss), Some(alphas)])
        },
        &[
            ok("f32[6,2,4]{-3..0}, i64[2,2]{1,2,3,1}, [6,6], [2,2]"),
            ok("f64[6,2,4]{-3..0}, i32[2,3]{1,1,2,2,1,1}, [6,6], [3,3], 0"),
            ok("f32[6,2,4]{-3..0}, i64[4]{1,2,0,1}, [6,6], [2,2], 3"),
            ok("f32[6,2,4]{-3..0}, i64[2,0], [6,6], [0,0]"),
            ok("f32[2,1,4]{-3..0}, i64[1,2]{1,1}, [2], [2], 0, true"),
            err("f32[4,2,3], i64[2,2]{1}, [4,3], [2]", "target_lengths must be of size batch_size"),
            err("f32[4,2,3], i64[2,2]{1}, [4], [2,2]", "input_lengths must be of size batch_size"),
            err("f32[4,2,3], i64[2,2]{1}, [5,3], [2,2]", "Expected input_lengths to have value at most 4, but got value 5"),
            err("f32[4,2,3], i64[2,2]{1}, [4,3], [-1,2]", "Expected target_lengths to have value at least 0, but got value -1"),
            err("f32[4,2,3], i64[2,2]{1}, [4,3], [3,1]", "Expected tensor to have size at least 3 at dimension 1, but got size 2"),
            err("f32[4,2,3], i64[4]{1}, [4,3], [2,1]", "Expected tensor to have size 3 at dimension 0, but got size 4"),
            err("f32[4,2,3], i64[2,2]{1}, [4,3], [2,2], 3", "blank must be in label range"),
            err("f32[4,2,3], f32[2,2], [4,3], [2,2]", "to have scalar type"),
            err("bf16[4,2,3], i64[2,2]{1}, [4,3], [2,2]", "\"ctc_loss_cpu\" not implemented for 'BFloat16'"),
        ],
    )
    .variants(&["_ctc_loss.out"]),
    OpDef::bounded(
        "aten::_ctc_loss.Tensor(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank=0, \
         bool zero_infinity=False) -> (Tensor, Tensor)",
        with_lengths_as_data,
        &[
            ok("f32[6,2,4]{-3..0}, i64[2,3]{1,2,3,1}, i64[2]{6}, i64[2]{2}"),
            ok("f32[6,2,4]{-3..0}, i64[4]{1,2,3,1}, i64[2]{6}, i32[2]{2}"),
            err("f32[4,2,3], i64[2,2]{1}, f32[2], i64[2]{1}", "input_lengths must be integral"),
        ],
    ),
    OpDef::new(
        "aten::_ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, \
         Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
        backward,
        &[
            ok("f64[1], f64[3,1,3]{-1}, i64[1,1]{1}, [3], [1], f64[1]{1.2082404}, f64[1,3,3]{-1,-1,-inf,-2,-1.3068528,-2,-3,-1.9013877,-1.9013877}, 0"),
            ok("f32[1], f32[2,1,3]{-1}, i64[1,2]{1,1}, [2], [2], f32[1]{inf}, f32[1,2,5]{-1,-1,-inf,-inf,-inf,-2,-1.3068528,-2,-inf,-inf}, 0, true"),
            ok("f32[1], f32[2,1,3]{-1}, i64[1,2]{1,1}, [2], [2], f32[1]{inf}, f32[1,2,5]{-1,-1,-inf,-inf,-inf,-2,-1.3068528,-2,-inf,-inf}, 0"),
            ok("f32[2], f32[1,2,3]{-1}, i64[0], [1,1], [0,0], f32[2]{1}, f32[2,1,1]{-1}, 0"),
        ],
    )
    .variants(&["_ctc_loss_backward.out"]),
    OpDef::new(
        "aten::_ctc_loss_backward.Tensor(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths, \
         Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
        backward,
        &[ok(
            "f64[1], f64[3,1,3]{-1}, i64[1,1]{1}, i64[1]{3}, i64[1]{1}, f64[1]{1.2082404}, f64[1,3,3]{-1,-1,-inf,-2,-1.3068528,-2,-3,-1.9013877,-1.9013877}, 0",
        )],
    ),
];

struct Ctc {
    /// `[time, batch, classes]`.
    log_probs: ValueId,
    time: usize,
    batch: usize,
    /// `2 s + 1`, where `s` bounds the length of targets.
    states: usize,
    /// The label of each state, `[time, batch, states]`.
    labels: ValueId,
    /// The logarithm of the probability of each state's label, of the same shape.
    read: ValueId,
    /// Whether a path may come from two states before: not over a blank that keeps equal labels apart. `[batch, states]`.
    skips: ValueId,
    /// `i64[batch]`.
    input_lengths: ValueId,
    target_lengths: ValueId,
}

impl Ctc {
    /// `longest` bounds the length of targets.
    fn read(c: &Call<'_>, b: &Builder, longest: usize) -> Result<Ctc> {
        let (log_probs, targets) = (c.tensor(b, "log_probs")?, c.tensor(b, "targets")?);
        let (dtype, kind, blank) = (b.dtype(log_probs), b.dtype(targets), c.int("blank")?);
        ensure!(
            matches!(kind, DType::I64 | DType::I32),
            "Expected tensor for argument #2 'targets' to have scalar type Int or Long; but got {} instead",
            torch_name(kind)
        );
        let shape = b.shape(log_probs);
        let [time, batch, classes] = shape[..] else {
            crate::invalid!(
                "Expected 3-dimensional tensor, but got {}-dimensional tensor for argument #1 'log_probs'",
                shape.len()
            )
        };
        ensure!((0..classes as i64).contains(&blank), "blank must be in label range");
        if !matches!(dtype, DType::F32 | DType::F64) {
            return not_implemented("ctc_loss_cpu", dtype);
        }
        let input_lengths = lengths(c, b, "input_lengths", batch, Some(time))?;
        let target_lengths = lengths(c, b, "target_lengths", batch, None)?;
        check_targets(c, &b.shape(targets), batch, longest)?;
        let targets = padded_targets(b, targets, target_lengths, longest)?;
        let states = 2 * longest + 1;
        let blanks = |shape: &[usize]| b.full(Number::Int(blank), DType::I64, shape);
        let pairs = [blanks(&[batch, longest, 1])?, b.reshape(targets, &[batch, longest, 1])?];
        let pairs = b.reshape(b.concatenate(&pairs, 2)?, &[batch, 2 * longest])?;
        let labels = b.concatenate(&[pairs, blanks(&[batch, 1])?], 1)?;
        let before = moved(b, labels, 2, Number::Int(blank))?;
        let skips = b.compare(Comparison::Ne, labels, before)?;
        let labels = b.broadcast_in_dim(labels, &[time, batch, states], &[1, 2])?;
        let read = take_along(b, log_probs, 2, labels)?;
        Ok(Ctc { log_probs, time, batch, states, labels, read, skips, input_lengths, target_lengths })
    }

    /// The states of a path's ends: behind the last label, and at it.
    fn ends(&self, b: &Builder) -> Result<[ValueId; 2]> {
        let twice = b.add(self.target_lengths, self.target_lengths)?;
        Ok([twice, b.subtract(twice, b.full_like(twice, Number::Int(1))?)?])
    }

    /// Whether a number per sequence compares so with the state, `bool[batch, states]`.
    fn state(&self, b: &Builder, comparison: Comparison, with: ValueId) -> Result<ValueId> {
        let shape = [self.batch, self.states];
        b.compare(comparison, b.iota(DType::I64, &shape, 1)?, b.broadcast_in_dim(with, &shape, &[0])?)
    }

    /// The loss of each sequence, and the logarithms of forward probabilities `[batch, time, states]`.
    fn forward(&self, b: &Builder) -> Result<(ValueId, ValueId)> {
        let alphas = self.alphas(b)?;
        let [after, at] = self.ends(b)?;
        let last = b.subtract(self.input_lengths, b.full_like(after, Number::Int(1))?)?;
        let zero = b.full_like(after, Number::Int(0))?;
        let none = b.compare(Comparison::Lt, last, zero)?;
        let no_label = b.compare(Comparison::Lt, at, zero)?;
        let dtype = b.dtype(alphas);
        let never = b.full(Number::Float(f64::NEG_INFINITY), dtype, &[self.batch])?;
        let likelihood = if self.time == 0 {
            never
        } else {
            let places = b.broadcast_in_dim(last, &[1, self.batch, self.states], &[1])?;
            let row = b.reshape(take_along(b, alphas, 0, places)?, &[self.batch, self.states])?;
            let pick = |state| -> Result<ValueId> {
                let picked = take_along(b, row, 1, b.reshape(state, &[self.batch, 1])?)?;
                b.reshape(picked, &[self.batch])
            };
            log_sum(b, &[pick(after)?, b.select(no_label, never, pick(at)?)?])?
        };
        // Nothing is read from no guesses with certainty, and nothing else.
        let of_none = b.select(no_label, b.full_like(never, Number::Int(0))?, never)?;
        let loss = b.negate(b.select(none, of_none, likelihood)?)?;
        Ok((loss, b.transpose(alphas, &[1, 0, 2])?))
    }

    fn alphas(&self, b: &Builder) -> Result<ValueId> {
        let never = Number::Float(f64::NEG_INFINITY);
        let buffer = b.full(never, b.dtype(self.read), &[self.time, self.batch, self.states])?;
        if self.time == 0 || self.batch == 0 {
            return Ok(buffer);
        }
        let first = b.reshape(b.slice_dim(self.read, 0, 0, 1, 1)?, &[self.batch, self.states])?;
        // A path begins before the first label or at it.
        let one_if_any = b.minimum(self.target_lengths, b.full_like(self.target_lengths, Number::Int(1))?)?;
        let begins = self.state(b, Comparison::Le, one_if_any)?;
        let alpha = b.select(begins, first, b.full_like(first, never)?)?;
        let buffer = put_row(b, buffer, alpha, b.scalar(Number::Int(0), DType::I32)?)?;
        let carried = [buffer, alpha, self.read, self.skips];
        let done = repeat(b, self.time - 1, &carried, |b, counter, carried| {
            let &[buffer, alpha, read, skips] = carried else { return Ok(carried.to_vec()) };
            let t = b.add(counter, b.full_like(counter, Number::Int(1))?)?;
            let skipped = b.select(skips, moved(b, alpha, 2, never)?, b.full_like(alpha, never)?)?;
            let sum = log_sum(b, &[alpha, moved(b, alpha, 1, never)?, skipped])?;
            let alpha = b.add(sum, row(b, read, t)?)?;
            Ok(vec![put_row(b, buffer, alpha, t)?, alpha, read, skips])
        })?;
        Ok(done[0])
    }

    /// The logarithms of backward probabilities `[time, batch, states]`, the state's own guess included.
    fn betas(&self, b: &Builder) -> Result<ValueId> {
        let never = Number::Float(f64::NEG_INFINITY);
        let shape = [self.batch, self.states];
        let dtype = b.dtype(self.read);
        let buffer = b.full(never, dtype, &[self.time, self.batch, self.states])?;
        let [after, at] = self.ends(b)?;
        let ends = b.binary(Binary::Or, self.state(b, Comparison::Eq, after)?, self.state(b, Comparison::Eq, at)?)?;
        let last = b.convert(self.input_lengths, DType::I32)?;
        let last = b.subtract(last, b.full_like(last, Number::Int(1))?)?;
        let last = b.broadcast_in_dim(last, &shape, &[0])?;
        let skips = moved(b, b.convert(self.skips, DType::I32)?, -2, Number::Int(0))?;
        let skips = b.convert(skips, DType::Bool)?;
        let carried = [buffer, b.full(never, dtype, &shape)?, self.read, skips, ends, last];
        let time = self.time as i64;
        let done = repeat(b, self.time, &carried, |b, counter, carried| {
            let &[buffer, beta, read, skips, ends, last] = carried else { return Ok(carried.to_vec()) };
            let t = b.subtract(b.full_like(counter, Number::Int(time - 1))?, counter)?;
            let nothing = b.full_like(beta, never)?;
            let guess = row(b, read, t)?;
            let skipped = b.select(skips, moved(b, beta, -2, never)?, nothing)?;
            let sum = log_sum(b, &[beta, moved(b, beta, -1, never)?, skipped])?;
            let now = b.broadcast_in_dim(t, &b.shape(last), &[])?;
            let running = b.select(b.compare(Comparison::Lt, now, last)?, b.add(sum, guess)?, nothing)?;
            let ending = b.select(ends, guess, nothing)?;
            let beta = b.select(b.compare(Comparison::Eq, now, last)?, ending, running)?;
            Ok(vec![put_row(b, buffer, beta, t)?, beta, read, skips, ends, last])
        })?;
        Ok(done[0])
    }
}

/// The lengths of sequences as `i64[batch]`. Known ones are checked; they decide nothing else.
fn lengths(c: &Call<'_>, b: &Builder, name: &str, batch: usize, most: Option<usize>) -> Result<ValueId> {
    if let Ok(dtype) = c.dtype_of(name) {
        ensure!(dtype.is_int(), "{name} must be integral");
        let given = c.tensor(b, name)?;
        ensure!(b.shape(given)[..] == [batch], "{name} must be of size batch_size");
        return b.convert(given, DType::I64);
    }
    let given = c.ints(name)?;
    ensure!(given.len() == batch, "{name} must be of size batch_size");
    for &n in &given {
        ensure!(n >= 0, "Expected {name} to have value at least 0, but got value {n}");
        let most = most.unwrap_or(usize::MAX);
        ensure!(n as usize <= most, "Expected {name} to have value at most {most}, but got value {n}");
    }
    let column = |&n| b.reshape(c.relayed(b, n)?, &[1]);
    match given.is_empty() {
        true => b.full(Number::Int(0), DType::I64, &[0]),
        false => b.concatenate(&given.iter().map(column).collect::<Result<Vec<_>>>()?, 0),
    }
}

fn check_targets(c: &Call<'_>, shape: &[usize], batch: usize, longest: usize) -> Result<()> {
    let known = if c.dtype_of("target_lengths").is_ok() { None } else { Some(c.ints("target_lengths")?) };
    let what = "for argument #2 'targets'";
    match (shape, known) {
        (&[n], Some(lengths)) => {
            let total: i64 = lengths.iter().sum();
            ensure!(total == n as i64, "Expected tensor to have size {total} at dimension 0, but got size {n} {what}");
        }
        (&[_], None) => {}
        (&[rows, columns], _) => {
            ensure!(rows == batch, "Expected tensor to have size {batch} at dimension 0, but got size {rows} {what}");
            ensure!(
                columns >= longest,
                "Expected tensor to have size at least {longest} at dimension 1, but got size {columns} {what}"
            );
        }
        _ => crate::invalid!("Expected tensor to have 1 or 2 dimensions, but got {} {what}", shape.len()),
    }
    Ok(())
}

/// Targets as `i64[batch, longest]`, whether they come so or one behind the other.
fn padded_targets(b: &Builder, targets: ValueId, lengths: ValueId, longest: usize) -> Result<ValueId> {
    let (targets, batch) = (b.convert(targets, DType::I64)?, b.shape(lengths)[0]);
    if b.rank(targets) == 2 {
        return b.slice_dim(targets, 1, 0, longest, 1);
    }
    let shape = [batch, longest];
    if b.shape(targets)[0] == 0 || shape.contains(&0) {
        return b.full(Number::Int(0), DType::I64, &shape);
    }
    let starts = b.subtract(cumulative_sum(b, lengths, 0)?, lengths)?;
    let places = b.add(b.broadcast_in_dim(starts, &shape, &[0])?, b.iota(DType::I64, &shape, 1)?)?;
    take_flat(b, targets, places)
}

/// `[batch, states]` moved `by` states towards the end; `fill` moves in.
fn moved(b: &Builder, v: ValueId, by: i64, fill: Number) -> Result<ValueId> {
    let states = b.shape(v)[1] as i64;
    let by = by.clamp(-states, states);
    b.pad(v, b.scalar(fill, b.dtype(v))?, &[0, by], &[0, -by], &[0, 0])
}

/// The logarithm of the sum of what these are the logarithms of.
fn log_sum(b: &Builder, terms: &[ValueId]) -> Result<ValueId> {
    let most = terms[1..].iter().try_fold(terms[0], |most, &v| b.maximum(most, v))?;
    let never = b.compare(Comparison::Eq, most, b.full_like(most, Number::Float(f64::NEG_INFINITY))?)?;
    let most = b.select(never, b.full_like(most, Number::Int(0))?, most)?;
    let relative = |&v: &ValueId| b.unary(Unary::Exponential, b.subtract(v, most)?);
    let sum = terms[1..].iter().try_fold(relative(&terms[0])?, |sum, v| b.add(sum, relative(v)?))?;
    b.add(b.unary(Unary::Log, sum)?, most)
}

/// The forward probabilities are as wide as the longest target, which is data.
fn with_lengths_as_data(c: &Call<'_>, b: &Builder) -> Result<Bounded> {
    let batch = b.shape(c.tensor(b, "log_probs")?).get(1).copied().unwrap_or(0);
    let targets = c.layout("targets")?.sizes;
    let lengths = lengths(c, b, "target_lengths", batch, None)?;
    let longest = b.reduce(lengths, Reducer::Maximum, &[0])?;
    let bound = match (targets.len() == 2, c.bound()) {
        (true, _) => targets[1],
        (false, Some(bound)) => usize::try_from(bound).unwrap_or(0),
        (false, None) => return Ok(Bounded::Bound(longest)),
    };
    let (loss, alphas) = Ctc::read(c, b, bound)?.forward(b)?;
    let one = b.full_like(longest, Number::Int(1))?;
    let count = b.add(b.add(longest, longest)?, one)?;
    let cuts = vec![Cut { result: 1, dim: 2, count }];
    Ok(Bounded::Results { padded: vec![Some(loss), Some(alphas)], cuts, order: None })
}

/// Of each guess, how probable it was less how often a path that reads the target takes it.
fn backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let alphas = c.tensor(b, "log_alpha")?;
    let states = b.shape(alphas).get(2).copied().unwrap_or(1);
    let ctc = Ctc::read(c, b, states.saturating_sub(1) / 2)?;
    let shape = b.shape(ctc.log_probs);
    if shape.contains(&0) {
        return one(ctc.log_probs);
    }
    let loss = c.tensor(b, "neg_log_likelihood")?;
    let on_states = |v, dims: &[usize]| b.broadcast_in_dim(v, &[ctc.time, ctc.batch, ctc.states], dims);
    let terms = [b.transpose(alphas, &[1, 0, 2])?, ctc.betas(b)?, ctc.read, on_states(loss, &[1])?];
    let taken = formula(b, terms, |[alpha, beta, read, loss]| (alpha + beta - read + loss).exp())?;
    let [after, _] = ctc.ends(b)?;
    let real = on_states(ctc.state(b, Comparison::Le, after)?, &[1, 2])?;
    let running = b.compare(
        Comparison::Lt,
        b.iota(DType::I64, &shape, 0)?,
        b.broadcast_in_dim(ctc.input_lengths, &shape, &[1])?,
    )?;
    let taken = b.select(real, taken, b.full_like(taken, Number::Int(0))?)?;
    let taken = put_along(b, b.full_like(ctc.log_probs, Number::Int(0))?, 2, ctc.labels, taken, Combiner::Add)?;
    let on_guesses = |v| b.broadcast_in_dim(v, &shape, &[1]);
    let (grad, loss) = (on_guesses(c.tensor(b, "grad")?)?, on_guesses(loss)?);
    let zero_infinity = c.flag("zero_infinity")?;
    let gradient = formula(b, [ctc.log_probs, taken, grad, loss], |[log_prob, taken, grad, loss]| {
        let gradient = (log_prob.exp() - taken) * grad;
        // Also of classes that no state reads: how often they are taken is infinity less infinity.
        let undefined = loss.equals(f64::INFINITY) | log_prob.equals(f64::NEG_INFINITY);
        let gradient = undefined.select(loss.constant(f64::NAN), gradient);
        if zero_infinity { loss.equals(f64::INFINITY).select(loss.constant(0.0), gradient) } else { gradient }
    })?;
    one(b.select(running, gradient, b.full_like(gradient, Number::Int(0))?)?)
}
