//! Einstein sums: operands are contracted pairwise from the left, each pair as one product.

use super::matmul::contract;
use super::support::{in_accumulator, like, torch_name};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{Comparison, DType, Reducer, ensure};
use std::collections::BTreeMap;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
        einsum,
        &[
            ok("'ij,jk->ik', [f32[2,3], f32[3,4]]"),
            ok("'ij, jk', [f32[2,3], f32[3,4]]"),
            ok("'bij,bjk->bki', [f32[2,3,4], f32[2,4,5]]"),
            ok("'i,j->ji', [f64[2], f64[3]]"),
            ok("'ii->i', [f32[3,3]{nan,1,2,3}]"),
            ok("'ii', [i64[3,3]]"),
            ok("'iij,jk->k', [f32[2,2,3], f32[3,4]]"),
            ok("'ij->', [bf16[2,3]{0..1}]"),
            ok("'...ij,...jk->...ik', [f32[5,1,2,3], f32[6,3,4]]"),
            ok("'b...,b...->...', [f32[2,3,4], f32[2,1,4]]"),
            ok("'ij,jk->ik', [f32[2,1], f32[3,5]]"),
            ok("'bhqd,bkhd->bhqk', [bf16[2,3,4,8]{0..1}, bf16[2,5,3,8]{0..1}]"),
            ok("'a,ab,abc->abc', [f32[2], f32[2,3], f32[2,3,4]]"),
            ok("'ij,kj,lj->ikl', [f32[2,3], f32[4,3], f32[5,3]]"),
            ok("'ij,jk->ik', [f32[2,0], f32[0,4]]"),
            err(
                "'ij,jk->ik', [f32[2,3], f32[4,5]]",
                "einsum(): subscript j has size 4 for operand 1 which does not broadcast with previously seen size 3",
            ),
            err("'ij,jk', [f32[2,3]]", "einsum(): fewer operands were provided than specified in the equation"),
            err(
                "'ij', [f32[2,3,4]]",
                "einsum(): the number of subscripts in the equation (2) does not match the number of dimensions (3) for operand 0 and no ellipsis was given",
            ),
            err(
                "'ij->k', [f32[2,3]]",
                "einsum(): output subscript k does not appear in the equation for any input operand",
            ),
            err("'ij->ii', [f32[2,3]]", "einsum(): output subscript i appears more than once in the output"),
            err(
                "'ii->i', [f32[2,3]]",
                "einsum(): subscript i is repeated for operand 0 but the sizes don't match, 3 != 2",
            ),
            err("'ij,jk->ik', [f32[2,3], f64[3,5]]", "expected scalar type Float but found Double"),
        ],
    ),
    OpDef::new(
        "aten::_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1) -> Tensor",
        trilinear,
        &[
            ok("f32[2,3], f32[4,3,5], f32[2,5], [1,3], [0], [1,2], [2,3]"),
            ok("f64[2,3], f64[2,4], f64[2,5], [2,3], [1,3], [1,2], [0]"),
            ok("bf16[2,3]{0..1}, bf16[4,3,5]{0..1}, bf16[2,5]{0..1}, [1,3], [0], [1,2], [2,3]"),
            ok("f32[0,3], f32[4,3,5], f32[0,5], [1,3], [0], [1,2], [2,3]"),
        ],
    ),
];

/// A subscript: a letter, or a dimension of the ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// One term of an equation: letters before and after `...`, if there is one.
struct Term {
    before: Vec<Label>,
    ellipsis: bool,
    after: Vec<Label>,
}

/// A tensor with a distinct label per dimension.
#[derive(Clone)]
struct Labelled {
    value: ValueId,
    labels: Vec<Label>,
}

impl Term {
    fn parse(text: &str) -> Result<Term> {
        let letters = |part: &str| -> Result<Vec<Label>> {
            let label = |ch: char| match ch.is_ascii_alphabetic() {
                true => Ok(Label::Letter(ch)),
                false => Err(Error::invalid(format!(
                    "einsum(): invalid subscript `{ch}` in the equation, subscripts must be in [a-zA-Z]"
                ))),
            };
            part.chars().filter(|ch| *ch != ' ').map(label).collect()
        };
        match text.split_once("...") {
            Some((before, after)) => Ok(Term { before: letters(before)?, ellipsis: true, after: letters(after)? }),
            None => Ok(Term { before: letters(text)?, ellipsis: false, after: vec![] }),
        }
    }

    /// One label per dimension, with an ellipsis of `extra` dimensions.
    fn labels(&self, extra: usize) -> Vec<Label> {
        let middle = (0..extra).rev().map(|i| Label::Ellipsis(std::cmp::Reverse(i)));
        self.before.iter().copied().chain(middle).chain(self.after.iter().copied()).collect()
    }

    /// The labels of operand `index` of rank `rank`.
    fn of_operand(&self, index: usize, rank: usize) -> Result<Vec<Label>> {
        let named = self.before.len() + self.after.len();
        ensure!(
            self.ellipsis || named == rank,
            "einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions ({rank}) for operand {index} and no ellipsis was given"
        );
        ensure!(
            named <= rank,
            "einsum(): the number of subscripts in the equation ({named}) is more than the number of dimensions ({rank}) for operand {index}"
        );
        Ok(self.labels(rank - named))
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Label::Letter(ch) => write!(f, "{ch}"),
            Label::Ellipsis(_) => f.write_str("..."),
        }
    }
}

fn einsum(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let equation = c.string("equation")?.unwrap_or_default();
    let tensors = c.tensors(b, "tensors")?;
    ensure!(!tensors.is_empty(), "einsum(): must provide at least one operand");
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation, None),
    };
    let terms = inputs.split(',').map(Term::parse).collect::<Result<Vec<_>>>()?;
    ensure!(terms.len() <= tensors.len(), "einsum(): fewer operands were provided than specified in the equation");
    ensure!(terms.len() >= tensors.len(), "einsum(): more operands were provided than specified in the equation");
    same_types(b, &tensors)?;
    let mut operands = vec![];
    let mut extents = BTreeMap::new();
    for (i, (term, &v)) in terms.iter().zip(&tensors).enumerate() {
        let labels = term.of_operand(i, b.rank(v))?;
        let operand = diagonal(b, v, labels, i)?;
        see(b, &operand, i, &mut extents)?;
        operands.push(operand);
    }
    let result = output_labels(output, &terms, &operands)?;
    let operands = operands.into_iter().map(|o| squeezed(b, o, &extents)).collect::<Result<Vec<_>>>()?;
    one(contracted(c, b, operands, &result)?)
}

/// The sum over `sumdim` of the product of three tensors, each given dimensions of extent 1 at the places `expand`.
fn trilinear(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let mut operands = vec![];
    let mut extents = BTreeMap::new();
    let mut rank = 0;
    for (i, (name, expand)) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")].into_iter().enumerate() {
        let (value, expand) = (c.tensor(b, name)?, c.ints(expand)?);
        rank = b.rank(value) + expand.len();
        let labels = (0..rank).filter(|&d| !expand.contains(&(d as i64))).map(place).collect();
        let operand = Labelled { value, labels };
        ensure!(operand.labels.len() == b.rank(value), "trilinear: dimensions of `{name}` are named twice");
        see(b, &operand, i, &mut extents)?;
        operands.push(operand);
    }
    let over = c.ints("sumdim")?;
    let result: Vec<Label> = (0..rank).filter(|&d| !over.contains(&(d as i64))).map(place).collect();
    let operands = operands.into_iter().map(|o| squeezed(b, o, &extents)).collect::<Result<Vec<_>>>()?;
    one(contracted(c, b, operands, &result)?)
}

/// The label of a dimension without a letter.
fn place(dim: usize) -> Label {
    Label::Ellipsis(std::cmp::Reverse(dim))
}

fn same_types(b: &Builder, tensors: &[ValueId]) -> Result<()> {
    let dtype = b.dtype(tensors[0]);
    for &v in tensors {
        let found = b.dtype(v);
        ensure!(found == dtype, "expected scalar type {} but found {}", torch_name(dtype), torch_name(found));
    }
    Ok(())
}

/// `v` with repeated labels reduced to the diagonal.
fn diagonal(b: &Builder, v: ValueId, labels: Vec<Label>, index: usize) -> Result<Labelled> {
    let (mut value, mut kept): (ValueId, Vec<Label>) = (v, vec![]);
    for label in labels {
        let dim = kept.len();
        let Some(first) = kept.iter().position(|l| *l == label) else {
            kept.push(label);
            continue;
        };
        let shape = b.shape(value);
        let (m, n) = (shape[first], shape[dim]);
        ensure!(
            m == n,
            "einsum(): subscript {label} is repeated for operand {index} but the sizes don't match, {n} != {m}"
        );
        let same = b.compare(Comparison::Eq, b.iota(DType::I64, &shape, first)?, b.iota(DType::I64, &shape, dim)?)?;
        let masked = b.select(same, value, like(b, value, 0.0)?)?;
        value = sum(b, masked, &[dim])?;
    }
    Ok(Labelled { value, labels: kept })
}

fn sum(b: &Builder, v: ValueId, dims: &[usize]) -> Result<ValueId> {
    in_accumulator(b, v, |v| b.reduce(v, Reducer::Add, dims))
}

/// Notes the extents of an operand's labels; 1 gives way to any other.
fn see(b: &Builder, operand: &Labelled, index: usize, extents: &mut BTreeMap<Label, usize>) -> Result<()> {
    for (&label, &extent) in operand.labels.iter().zip(&b.shape(operand.value)) {
        let seen = extents.entry(label).or_insert(extent);
        ensure!(
            *seen == extent || *seen == 1 || extent == 1,
            "einsum(): subscript {label} has size {extent} for operand {index} which does not broadcast with previously seen size {seen}"
        );
        if *seen == 1 {
            *seen = extent;
        }
    }
    Ok(())
}

/// The labels of the result, in order.
fn output_labels(output: Option<&str>, terms: &[Term], operands: &[Labelled]) -> Result<Vec<Label>> {
    let all = || operands.iter().flat_map(|o| o.labels.iter().copied());
    let ellipsis = |l: &Label| matches!(l, Label::Ellipsis(_));
    let Some(output) = output else {
        // What occurs once, the ellipsis first.
        let letters = || terms.iter().flat_map(|t| t.before.iter().chain(&t.after));
        let mut labels: Vec<Label> =
            all().filter(|l| ellipsis(l) || letters().filter(|m| *m == l).count() == 1).collect();
        labels.sort();
        labels.dedup();
        return Ok(labels);
    };
    let longest = operands.iter().map(|o| o.labels.iter().filter(|l| ellipsis(l)).count()).max().unwrap_or(0);
    let term = Term::parse(output)?;
    let labels = term.labels(if term.ellipsis { longest } else { 0 });
    for (i, label) in labels.iter().enumerate() {
        ensure!(
            !labels[..i].contains(label),
            "einsum(): output subscript {label} appears more than once in the output"
        );
        ensure!(
            all().any(|l| l == *label),
            "einsum(): output subscript {label} does not appear in the equation for any input operand"
        );
    }
    Ok(labels)
}

/// Without the dimensions of extent 1 that others broadcast.
fn squeezed(b: &Builder, operand: Labelled, extents: &BTreeMap<Label, usize>) -> Result<Labelled> {
    let shape = b.shape(operand.value);
    let whole = |i: usize| extents.get(&operand.labels[i]) == Some(&shape[i]);
    let kept: Vec<usize> = (0..shape.len()).filter(|&i| whole(i)).collect();
    let extents: Shape = kept.iter().map(|&i| shape[i]).collect();
    Ok(Labelled {
        value: b.reshape(operand.value, &extents)?,
        labels: kept.iter().map(|&i| operand.labels[i]).collect(),
    })
}

/// Without the labels that `needed` does not hold.
fn summed(b: &Builder, operand: &Labelled, needed: impl Fn(&Label) -> bool) -> Result<Labelled> {
    let gone: Dims = (0..operand.labels.len()).filter(|&i| !needed(&operand.labels[i])).collect();
    let labels = operand.labels.iter().copied().filter(|l| needed(l)).collect();
    let value = if gone.is_empty() { operand.value } else { sum(b, operand.value, &gone)? };
    Ok(Labelled { value, labels })
}

fn contracted(c: &Call<'_>, b: &Builder, operands: Vec<Labelled>, result: &[Label]) -> Result<ValueId> {
    let mut product = operands[0].clone();
    for (i, right) in operands.iter().enumerate().skip(1) {
        let later = |l: &Label| result.contains(l) || operands[i + 1..].iter().any(|o| o.labels.contains(l));
        let left = summed(b, &product, |l| later(l) || right.labels.contains(l))?;
        let right = summed(b, right, |l| later(l) || left.labels.contains(l))?;
        product = pair(c, b, &left, &right, later)?;
    }
    let last = summed(b, &product, |l| result.contains(l))?;
    let order: Option<Dims> = result.iter().map(|l| last.labels.iter().position(|m| m == l)).collect();
    let order = order.ok_or_else(|| Error::internal("an einsum lost a subscript"))?;
    b.transpose(last.value, &order)
}

/// Two operands multiplied and summed over the labels that both have and nothing later needs.
fn pair(
    c: &Call<'_>,
    b: &Builder,
    left: &Labelled,
    right: &Labelled,
    later: impl Fn(&Label) -> bool,
) -> Result<Labelled> {
    let (mut batch, mut over, mut labels) = (vec![], vec![], vec![]);
    for (i, label) in left.labels.iter().enumerate() {
        let Some(j) = right.labels.iter().position(|l| l == label) else { continue };
        if later(label) {
            batch.push((i, j));
            labels.push(*label);
        } else {
            over.push((i, j));
        }
    }
    let free = |of: &Labelled, other: &Labelled| -> Vec<Label> {
        of.labels.iter().copied().filter(|l| !other.labels.contains(l)).collect()
    };
    labels.extend(free(left, right));
    labels.extend(free(right, left));
    let product = contract(c, b, left.value, right.value, &batch, &over)?;
    Ok(Labelled { value: b.convert(product, b.dtype(left.value))?, labels })
}
