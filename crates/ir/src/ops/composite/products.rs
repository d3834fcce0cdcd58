//! Products and powers of matrices and vectors.

use super::super::support::{dim, torch_name};
use super::super::{Call, OpDef, Outs, Sample, err, ok, one};
use super::{Torch, call, composite, renamed};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::{DType, Number, ensure, ensure_kernel};

pub(in super::super) static OPS: &[OpDef] = &[
    renamed!(
        "linalg_matmul(Tensor self, Tensor other) -> Tensor",
        "matmul",
        &[ok("f32[2,3], f32[3,4]"), ok("f32[5,2,3], f32[3]")]
    )
    .variants(&["linalg_matmul.out"]),
    OpDef::new("aten::linalg_matrix_power(Tensor self, int n) -> Tensor", power, POWERS)
        .variants(&["linalg_matrix_power.out"]),
    OpDef::new("aten::matrix_power(Tensor self, int n) -> Tensor", power, POWERS).variants(&["matrix_power.out"]),
    OpDef::new(
        "aten::linalg_multi_dot(Tensor[] tensors) -> Tensor",
        |c, b| one(chain(Torch::new(c, b), c.tensors(b, "tensors")?)?),
        CHAINS,
    )
    .variants(&["linalg_multi_dot.out"]),
    OpDef::new(
        "aten::chain_matmul(Tensor[] matrices) -> Tensor",
        chain_matmul,
        &[
            ok("[f32[2,3], f32[3,4], f32[4,2]]"),
            ok("[f32[2,3]]"),
            err("[f32[3], f32[3,2]]", "Tensor for argument #1 is expected to have 2 dimensions"),
        ],
    )
    .variants(&["chain_matmul.out"]),
    composite!(
        "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
        vecdot,
        &[
            ok("f32[3], f32[3]"),
            ok("c64[3], c64[3]"),
            ok("f32[2,1,3], f32[4,3]"),
            ok("c128[4,2], c128[4,2], dim=0"),
            err("i64[3], i64[3]", "linalg.vecdot: Expected a floating point or complex tensor as input. Got Long"),
            err("f32[3], f64[3]", "linalg.vecdot: Expected x and y to have the same dtype"),
        ]
    )
    .variants(&["linalg_vecdot.out"]),
    composite!(
        "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
        cross,
        &[
            ok("f32[3], f32[3]"),
            ok("f32[2,3,3], f32[2,3,3]"),
            ok("f32[3,3], f32[3,3], 1"),
            err("f32[2,4], f32[2,4]", "no dimension of size 3 in input"),
        ]
    )
    .variants(&["cross.out"]),
    composite!("linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor", linalg_vander, VANDER),
    OpDef::new(
        "aten::vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
        vander,
        &[
            ok("f32[3]"),
            ok("i32[3], 4, true"),
            ok("f32[3], 1"),
            ok("f32[3], 0"),
            ok("bf16[4], 2"),
            err("f32[2,2]", "x must be a one-dimensional tensor."),
            err("f32[2], -1", "N must be non-negative."),
        ],
    ),
];

const POWERS: &[Sample] = &[
    ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, 3"),
    ok("f64[2,2,2]{1,0.5,0.25,1}, 6"),
    ok("f64[2,2,2]{1,0.5,0.25,1}, 7"),
    ok("f64[3,3]{1,5,3,4,1,2,2,3,6}, -2"),
    ok("i64[2,2]{1,2,3}, 4"),
    ok("f32[2,3,3], 0"),
    ok("f32[2,3,3], 1"),
    err("f32[2,3], 2", "linalg.matrix_power: A must be batches of square matrices, but they are 2 by 3 matrices"),
    err("f32[2], 2", "linalg.matrix_power: The input tensor A must have at least 2 dimensions."),
];
const CHAINS: &[Sample] = &[
    ok("[f32[2,3], f32[3,4]]"),
    ok("[f32[2,3], f32[3,4], f32[4,5]]"),
    ok("[f64[2,7], f64[7,3], f64[3,9], f64[9,2]]"),
    ok("[f32[3], f32[3,4], f32[4]]"),
    ok("[f32[3], f32[3,4], f32[4,2]]"),
    err("[f32[3,3]]", "multi_dot(): expected at least 2 tensors but got 1"),
    err("[f32[2,3,3], f32[3,3]]", "multi_dot(): the first tensor must be 1D or 2D but got 3D"),
    err("[f32[3,3], f32[3], f32[3,3]]", "multi_dot(): tensor 1 must be 2D but got 1D"),
    err("[f32[3,3], f32[2,3]]", "multi_dot(): tensors 0 and 1 with shapes [3, 3] and [2, 3] cannot be multiplied"),
];
const VANDER: &[Sample] = &[
    ok("f32[3]"),
    ok("i32[2,3], N=4"),
    ok("c64[]{2}, N=3"),
    err("f32[3], N=1", "N must be greater than 1."),
    err("bool[3]", "linalg.vander supports floating point, complex, and integer tensors, but got Bool"),
];

/// Powers by squares.
fn power(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (t, v, n) = (Torch::new(c, b), c.tensor(b, "self")?, c.int("n")?);
    let op = "linalg.matrix_power";
    let shape = b.shape(v);
    let [.., rows, columns] = shape[..] else {
        crate::invalid!("{op}: The input tensor A must have at least 2 dimensions.")
    };
    ensure!(rows == columns, "{op}: A must be batches of square matrices, but they are {rows} by {columns} matrices");
    if n == 0 {
        let rank = shape.len();
        let (i, j) = (b.iota(DType::I32, &shape, rank - 2)?, b.iota(DType::I32, &shape, rank - 1)?);
        return one(b.convert(b.compare(crate::Comparison::Eq, i, j)?, b.dtype(v))?);
    }
    let mut square = if n < 0 { call!(t, "linalg_inv_ex", v)? } else { v };
    let (mut left, mut result) = (n.unsigned_abs(), None);
    while left > 0 {
        if left % 2 == 1 {
            result = Some(match result {
                Some(result) => call!(t, "matmul", result, square)?,
                None => square,
            });
        }
        left /= 2;
        if left > 0 {
            square = call!(t, "matmul", square, square)?;
        }
    }
    one(result.unwrap_or(square))
}

/// The product of matrices, the cheapest pair first; a vector at an end counts as a row or a column.
fn chain(t: Torch<'_>, mut factors: Vec<ValueId>) -> Result<ValueId> {
    let (b, n) = (t.b, factors.len());
    ensure!(n >= 2, "multi_dot(): expected at least 2 tensors but got {n}");
    let mut result = vec![];
    for (i, name) in [(0, "first"), (n - 1, "last")] {
        let s = b.shape(factors[i]);
        ensure!(matches!(s.len(), 1 | 2), "multi_dot(): the {name} tensor must be 1D or 2D but got {}D", s.len());
        match (s.len(), i) {
            (1, 0) => factors[i] = b.reshape(factors[i], &[1, s[0]])?,
            (1, _) => factors[i] = b.reshape(factors[i], &[s[0], 1])?,
            (_, 0) => result.push(s[0]),
            _ => result.push(s[1]),
        }
    }
    for (i, &v) in factors.iter().enumerate() {
        ensure!(b.rank(v) == 2, "multi_dot(): tensor {i} must be 2D but got {}D", b.rank(v));
        let (d, first) = (b.dtype(v), b.dtype(factors[0]));
        ensure!(
            d == first,
            "multi_dot(): all tensors must have be the same dtype but tensor 0 is {} and tensor {i} {}",
            torch_name(first),
            torch_name(d)
        );
    }
    for (i, pair) in factors.windows(2).enumerate() {
        let (s, u) = (b.shape(pair[0]), b.shape(pair[1]));
        ensure!(
            s[1] == u[0],
            "multi_dot(): tensors {i} and {} with shapes {s:?} and {u:?} cannot be multiplied",
            i + 1
        );
    }
    let mut extents: Vec<usize> = factors.iter().map(|&v| b.shape(v)[0]).collect();
    extents.push(b.shape(factors[n - 1])[1]);
    b.reshape(multiplied(t, &factors, &cheapest_splits(&extents))?, &result)
}

/// Where the products `[from][to]` of matrices are best parted, for as many matrices as there are steps between `extents`.
fn cheapest_splits(extents: &[usize]) -> Vec<Vec<usize>> {
    let n = extents.len() - 1;
    let (mut cost, mut split) = (vec![vec![0f64; n]; n], vec![vec![0; n]; n]);
    for len in 1..n {
        for from in 0..n - len {
            let to = from + len;
            let price = |at: usize| {
                let own = extents[from] as f64 * extents[at + 1] as f64 * extents[to + 1] as f64;
                cost[from][at] + cost[at + 1][to] + own
            };
            let best = (from..to).min_by(|&x, &y| price(x).total_cmp(&price(y))).unwrap_or(from);
            (cost[from][to], split[from][to]) = (price(best), best);
        }
    }
    split
}

fn multiplied(t: Torch<'_>, factors: &[ValueId], splits: &[Vec<usize>]) -> Result<ValueId> {
    fn part(t: Torch<'_>, factors: &[ValueId], splits: &[Vec<usize>], from: usize, to: usize) -> Result<ValueId> {
        if from == to {
            return Ok(factors[from]);
        }
        let at = splits[from][to];
        call!(t, "mm", part(t, factors, splits, from, at)?, part(t, factors, splits, at + 1, to)?)
    }
    part(t, factors, splits, 0, factors.len() - 1)
}

fn chain_matmul(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let factors = c.tensors(b, "matrices")?;
    for (i, &v) in factors.iter().enumerate() {
        ensure!(
            b.rank(v) == 2,
            "Tensor for argument #{} is expected to have 2 dimensions, but has {}",
            i + 1,
            b.rank(v)
        );
    }
    ensure!(!factors.is_empty(), "chain_matmul(): Expected one or more matrices");
    one(if factors.len() == 1 { factors[0] } else { chain(Torch::new(c, b), factors)? })
}

fn vecdot(t: Torch<'_>) -> Result<ValueId> {
    let (x, y) = (t.c.tensor(t.b, "x")?, t.c.tensor(t.b, "y")?);
    let (d, e) = (t.b.dtype(x), t.b.dtype(y));
    ensure_kernel!(
        d.is_float() || d.is_complex(),
        "linalg.vecdot: Expected a floating point or complex tensor as input. Got {}",
        torch_name(d)
    );
    ensure!(
        d == e,
        "linalg.vecdot: Expected x and y to have the same dtype, but found x of type {} and y of type {} instead",
        torch_name(d),
        torch_name(e)
    );
    let own = call!(t, "_conj_physical", x)?;
    if t.b.rank(x) == 1 && t.b.rank(y) == 1 {
        return call!(t, "dot", own, y);
    }
    call!(t, "sum.dim_IntList", call!(t, "mul.Tensor", own, y)?, [t.c.int("dim")?])
}

fn cross(t: Torch<'_>) -> Result<ValueId> {
    let (x, y) = (t.c.tensor(t.b, "self")?, t.c.tensor(t.b, "other")?);
    let d = match t.c.optional_int("dim")? {
        Some(d) => d,
        None => {
            let found = t.b.shape(x).iter().position(|&n| n == 3);
            found.ok_or_else(|| crate::Error::invalid("no dimension of size 3 in input"))? as i64
        }
    };
    call!(t, "linalg_cross", x, y, d)
}

fn linalg_vander(t: Torch<'_>) -> Result<ValueId> {
    let (mut x, b) = (t.c.tensor(t.b, "x")?, t.b);
    let d = b.dtype(x);
    ensure!(
        d != DType::Bool,
        "linalg.vander supports floating point, complex, and integer tensors, but got {}",
        torch_name(d)
    );
    if b.rank(x) == 0 {
        x = b.reshape(x, &[1])?;
    }
    let mut shape = b.shape(x);
    let own = shape.last().copied().unwrap_or(1) as i64;
    let n = t.c.optional_int("N")?.unwrap_or(own);
    ensure!(n > 1, "N must be greater than 1.");
    let rank = shape.len();
    shape.push(n as usize - 1);
    let dims: Vec<usize> = (0..rank).collect();
    let powers = call!(t, "cumprod", b.broadcast_in_dim(x, &shape, &dims)?, -1)?;
    shape[rank] = 1;
    let ones = b.full(Number::Int(1), b.dtype(powers), &shape)?;
    b.concatenate(&[ones, powers], rank)
}

fn vander(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (t, x) = (Torch::new(c, b), c.tensor(b, "x")?);
    ensure!(b.rank(x) == 1, "x must be a one-dimensional tensor.");
    let rows = b.shape(x)[0];
    let n = c.optional_int("N")?.unwrap_or(rows as i64);
    ensure!(n >= 0, "N must be non-negative.");
    let dtype = super::super::support::promote_types(b.dtype(x), DType::I64)?;
    let columns = n as usize;
    let ones = b.full(Number::Int(1), dtype, &[rows, columns.min(1)])?;
    let powers = b.broadcast_in_dim(b.convert(x, dtype)?, &[rows, columns.saturating_sub(1)], &[0])?;
    let all = b.concatenate(&[ones, call!(t, "cumprod", powers, 1)?], 1)?;
    one(if c.flag("increasing")? { all } else { b.reverse(all, &[dim(1, 2)?])? })
}
