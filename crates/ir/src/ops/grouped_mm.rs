//! Products of groups of rows with one matrix a group, as mixture-of-experts layers use them.
//!
//! Group `g` holds positions `offs[g - 1]..offs[g]` of the ragged dimension. Where the groups lie is known only when the
//! program runs. A host and a TPU's compiler can multiply so ([`Op::Grouped`]); else a loop goes over tiles of as many rows as a
//! group has on average, group after group. A tile that reaches beyond its group computes rows in vain: at most one tile a group.

use super::loops::{put_row, repeat_while, row};
use super::matmul::{contract, precision};
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::op::Op;
use crate::{Binary, Comparison, DType, Number, ensure};
use hostcall::Grouped;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor",
        grouped_mm,
        &[
            ok("bf16[16,16], bf16[3,16,8], i32[3]{4,8,16}"),
            ok("bf16[16,16], bf16[3,16,8], i32[3]{4,4,16}"),
            ok("f32[16,16], f32[3,16,8], i32[3]{4,8,16}"),
            ok("bf16[16,16], bf16[16,8], i32[3]{4,8,16}"),
            ok("bf16[3,8,16], bf16[16,16], i32[3]{4,8,16}"),
            ok("bf16[3,8,16], bf16[3,16,16]"),
            err("bf16[16,16], bf16[3,16,8]", "Have to provide offsets if there is a 2d matrix"),
            err("bf16[16,16], bf16[3,16,8], i32[2]{4,8}", "matrix batch sizes have to match"),
            err("bf16[16,16], bf16[3,8,8], i32[3]{4,8,16}", "contraction dimension of mat_a and mat_b must match"),
            err("bf16[16,16], bf16[3,16,8], i64[3]{4,8,16}", "Offsets have to be int32"),
        ],
    ),
    OpDef::new(
        "transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
        |c, b| {
            let (x, w, offs) = (c.tensor(b, "input")?, c.tensor(b, "weight")?, c.tensor(b, "offs")?);
            check(b, x, w, offs)?;
            one(b.convert(rows_by_group(c, b, x, w, 1, offs)?, b.dtype(x))?)
        },
        &[
            ok("f32[6,3], f32[4,3,5], i32[4]{1,1,4,6}"),
            ok("f32[6,3], f32[4,3,5], i64[4]{0,2,3,5}"),
            ok("bf16[6,3], bf16[2,3,5], i32[2]{0,6}"),
            ok("f32[0,3], f32[2,3,5], i32[2]{0,0}"),
            err("f32[6,3], f32[4,2,5], i32[4]{1,1,4,6}", "input_dim mismatch: input has 3, weight has 2"),
        ],
    ),
    OpDef::new(
        "transformers::grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
        fallback_backward,
        &[
            ok("f32[6,3], f32[4,3,5], i32[4]{1,1,4,6}, f32[6,5]"),
            ok("f32[6,3], f32[4,3,5], i64[4]{0,2,3,5}, f32[6,5]"),
            ok("bf16[6,3], bf16[2,3,5], i32[2]{0,6}, bf16[6,5]"),
        ],
    ),
];

fn check(b: &Builder, x: ValueId, w: ValueId, offs: ValueId) -> Result<()> {
    let (s, t, u) = (b.shape(x), b.shape(w), b.shape(offs));
    ensure!(s.len() == 2, "input must be 2D (S, input_dim), got shape {s:?}");
    ensure!(t.len() == 3, "weight must be 3D (num_experts, input_dim, output_dim), got shape {t:?}");
    ensure!(u.len() == 1, "offs must be 1D (num_experts,), got shape {u:?}");
    ensure!(u[0] == t[0], "offs length {} must match number of experts {}", u[0], t[0]);
    ensure!(s[1] == t[1], "input_dim mismatch: input has {}, weight has {}", s[1], t[1]);
    ensure!(b.dtype(offs).is_int(), "offs must be an integer tensor, got {}", b.dtype(offs));
    Ok(())
}

/// A group's tile of rows: `begin..end` of the ragged dimension, of which `start..start + rows` are looked at.
struct Tile {
    group: ValueId,
    begin: ValueId,
    end: ValueId,
    start: ValueId,
    rows: usize,
}

impl Tile {
    /// Of `given`: the group, where its rows that are left begin, and where groups end.
    fn of(b: &Builder, given: &[ValueId], n: usize) -> Result<Tile> {
        let &[group, begin, ends, ..] = given else { return Err(Error::internal("a loop carries too little")) };
        let rows = rows_of_tile(n, b.shape(ends)[0]);
        let last = b.full_like(begin, Number::Int((n - rows) as i64))?;
        Ok(Tile { group, begin, end: row(b, ends, group)?, start: b.minimum(begin, last)?, rows })
    }
    /// Group and beginning of the next tile.
    fn next(&self, b: &Builder) -> Result<[ValueId; 2]> {
        let after = b.add(self.begin, b.full_like(self.begin, Number::Int(self.rows as i64))?)?;
        let more = b.compare(Comparison::Lt, after, self.end)?;
        let next = b.add(self.group, b.full_like(self.group, Number::Int(1))?)?;
        Ok([b.select(more, self.group, next)?, b.select(more, after, self.end)?])
    }
    /// The rows that the tile looks at.
    fn rows(&self, b: &Builder, v: ValueId) -> Result<ValueId> {
        let zero = b.full_like(self.start, Number::Int(0))?;
        let sizes = [self.rows, b.shape(v)[1]].into_iter().collect();
        b.push(Op::DynamicSlice { sizes }, &[v, self.start, zero], vec![])
    }
    /// `rows` in their place in `v`.
    fn put(&self, b: &Builder, v: ValueId, rows: ValueId) -> Result<ValueId> {
        let zero = b.full_like(self.start, Number::Int(0))?;
        b.push(Op::DynamicUpdateSlice, &[v, rows, self.start, zero], vec![])
    }
    /// `v` in rows of the tile's group, and `other` in those that are its neighbours'.
    fn own(&self, b: &Builder, v: ValueId, other: ValueId) -> Result<ValueId> {
        let shape = b.shape(v);
        let spread = |v| b.broadcast_in_dim(v, &shape, &[]);
        let place = b.add(b.iota(b.dtype(self.start), &shape, 0)?, spread(self.start)?)?;
        let from = b.compare(Comparison::Ge, place, spread(self.begin)?)?;
        let to = b.compare(Comparison::Lt, place, spread(self.end)?)?;
        b.select(b.binary(Binary::And, from, to)?, v, other)
    }
}

/// How many rows of `n` a tile has.
fn rows_of_tile(n: usize, groups: usize) -> usize {
    const LEAST: usize = 8;
    const MOST: usize = 512;
    n.div_ceil(groups.max(1)).next_power_of_two().clamp(LEAST, MOST).min(n)
}

/// `sum` once `step` was taken with each tile of `n` rows, and with `operands`.
fn over_tiles(
    b: &Builder,
    n: usize,
    ends: ValueId,
    sum: ValueId,
    operands: [ValueId; 2],
    step: impl Fn(&Builder, &Tile, ValueId, [ValueId; 2]) -> Result<ValueId>,
) -> Result<ValueId> {
    let zero = b.scalar(Number::Int(0), b.dtype(ends))?;
    let carried = [zero, zero, ends, sum, operands[0], operands[1]];
    let groups = b.shape(ends)[0] as i64;
    let more = |b: &Builder, given: &[ValueId]| {
        b.compare(Comparison::Lt, given[0], b.full_like(given[0], Number::Int(groups))?)
    };
    let next = |b: &Builder, given: &[ValueId]| {
        let tile = Tile::of(b, given, n)?;
        let mut next = given.to_vec();
        next[3] = step(b, &tile, given[3], [given[4], given[5]])?;
        [next[0], next[1]] = tile.next(b)?;
        Ok(next)
    };
    Ok(repeat_while(b, &carried, more, next)?[3])
}

/// What `of` makes of `x`, `other` and the offsets of groups, which `loops` says in other ops.
fn by_group(
    c: &Call<'_>,
    b: &Builder,
    of: Grouped,
    [x, other, offs]: [ValueId; 3],
    loops: impl FnOnce(&Builder, [ValueId; 3]) -> Result<ValueId>,
) -> Result<ValueId> {
    let precision = precision(c, b.dtype(x));
    // Offsets beyond the rows would keep a loop going.
    let limit = |n: usize| b.full_like(offs, Number::Int(n as i64));
    let ends = b.minimum(b.maximum(offs, limit(0)?)?, limit(b.shape(x)[0])?)?;
    let op = Op::Grouped { of, precision, host: false };
    let made = b.said_by(op, &[x, other, ends], |b, given| {
        let &[x, other, ends] = given else { return Err(Error::internal("three operands were given")) };
        Ok(vec![loops(b, [x, other, ends])?])
    })?;
    Ok(made[0])
}

/// Row `i` of `x[n, k]` times the matrix of its group, whose dimension `over` is contracted; zero for a row of no
/// group. In the accumulation type.
fn rows_by_group(c: &Call<'_>, b: &Builder, x: ValueId, w: ValueId, over: usize, offs: ValueId) -> Result<ValueId> {
    // A loop takes what it carries as it is: matrices of a transpose would be transposed before it, all of them.
    let (w, over) = match b.as_transpose(w) {
        Some((plain, order)) if order[..] == [0, 2, 1] => (plain, 3 - over),
        _ => (w, over),
    };
    let (n, t) = (b.shape(x)[0], b.shape(w));
    let accumulator = b.dtype(x).accumulator();
    let none = |b: &Builder| b.full(Number::Int(0), accumulator, &[n, t[3 - over]]);
    if n == 0 || t.contains(&0) {
        return none(b);
    }
    by_group(c, b, Grouped::Rows { turned: over == 2 }, [x, w, offs], |b, [x, w, ends]| {
        over_tiles(b, n, ends, none(b)?, [x, w], |b, tile, products, [x, w]| {
            let made = contract(c, b, tile.rows(b, x)?, row(b, w, tile.group)?, &[], &[(1, over - 1)])?;
            let before = tile.rows(b, products)?;
            // Results are chosen, not operands: NaN and infinity stay in the rows that they belong to.
            tile.put(b, products, tile.own(b, made, before)?)
        })
    })
}

/// `x[:, group].T @ y[group]` for each group: `[groups, k, m]` from `x[n, k]` and `y[n, m]`. In the accumulation type.
fn group_products(c: &Call<'_>, b: &Builder, x: ValueId, y: ValueId, offs: ValueId) -> Result<ValueId> {
    let (n, groups) = (b.shape(x)[0], b.shape(offs)[0]);
    let shape = [groups, b.shape(x)[1], b.shape(y)[1]];
    let accumulator = b.dtype(x).accumulator();
    let none = |b: &Builder| b.full(Number::Int(0), accumulator, &shape);
    if n == 0 || shape.contains(&0) {
        return none(b);
    }
    by_group(c, b, Grouped::Matrices, [x, y, offs], |b, [x, y, ends]| {
        over_tiles(b, n, ends, none(b)?, [x, y], |b, tile, sums, operands| {
            let own = |v: ValueId| {
                let rows = tile.rows(b, v)?;
                tile.own(b, rows, b.full_like(rows, Number::Int(0))?)
            };
            let [x, y] = operands.map(own);
            let made = contract(c, b, x?, y?, &[], &[(0, 0)])?;
            put_row(b, sums, b.add(row(b, sums, tile.group)?, made)?, tile.group)
        })
    })
}

fn fallback_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, w, offs) = (c.tensor(b, "input")?, c.tensor(b, "weight")?, c.tensor(b, "offs")?);
    let grad = c.tensor(b, "grad_output")?;
    check(b, x, w, offs)?;
    let grad_input = b.convert(rows_by_group(c, b, grad, w, 2, offs)?, b.dtype(x))?;
    let grad_weight = b.convert(group_products(c, b, x, grad, offs)?, b.dtype(w))?;
    many([grad_input, grad_weight])
}

fn grouped_mm(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, offs) = (c.tensor(b, "self")?, c.tensor(b, "mat2")?, c.optional_tensor(b, "offs")?);
    let (s, t) = (b.shape(x), b.shape(y));
    for (v, name) in [(&s, "mat_a"), (&t, "mat_b")] {
        ensure!(v.len() == 2 || v.len() == 3, "{name} has to be 2 or 3d");
    }
    let (m, n) = (s.len(), t.len());
    ensure!(s[m - 1] == t[n - 2], "contraction dimension of mat_a and mat_b must match");
    ensure!(
        offs.is_some() == (m == 2 || n == 2),
        "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    );
    ensure!(!c.has("bias"), "Bias not supported yet");
    let dtype = c.optional_dtype("out_dtype")?.unwrap_or(b.dtype(x));
    ensure!(dtype == b.dtype(x), "Grouped gemm output dtype must match `mat_a` dtype");
    let Some(offs) = offs else {
        ensure!(s[0] == t[0], "batched dimension has to match");
        return one(b.convert(contract(c, b, x, y, &[(0, 0)], &[(2, 1)])?, dtype)?);
    };
    ensure!(b.rank(offs) == 1, "offs has to be 1D");
    ensure!(b.dtype(offs) == DType::I32, "Offsets have to be int32");
    let groups = b.shape(offs)[0];
    let matches = (m == 2 || s[0] == groups) && (n == 2 || t[0] == groups);
    ensure!(matches, "matrix batch sizes have to match");
    let product = match (m, n) {
        (2, 3) => rows_by_group(c, b, x, y, 1, offs)?,
        (2, _) => group_products(c, b, b.transpose(x, &[1, 0])?, y, offs)?,
        // Columns by group: the rows of the transpose.
        _ => b.transpose(rows_by_group(c, b, b.transpose(y, &[1, 0])?, x, 2, offs)?, &[1, 0])?,
    };
    one(b.convert(product, dtype)?)
}
