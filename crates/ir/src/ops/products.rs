//! Products of tensors over chosen dimensions, and outer products.

use super::matmul::{contract, outer, rounded, same_dtype, times};
use super::support::{self, expand_to, in_accumulator};
use super::{Call, OpDef, Outs, err, ok, one};
use crate::builder::Builder;
use crate::ensure;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::Shape;

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::outer(Tensor self, Tensor vec2) -> Tensor",
        |c, b| one(outer(b, "outer", "self", c.tensor(b, "self")?, c.tensor(b, "vec2")?)?),
        &[
            ok("f32[3], f32[4]"),
            ok("f32[3], i64[4]"),
            ok("bool[2], bool[0]"),
            err("f32[3,3], f32[4]", "outer: Expected 1-D argument self, but got 2-D"),
        ],
    )
    .variants(&["outer.out"]),
    OpDef::new(
        "aten::ger(Tensor self, Tensor vec2) -> Tensor",
        |c, b| one(outer(b, "outer", "self", c.tensor(b, "self")?, c.tensor(b, "vec2")?)?),
        &[ok("f32[3], f32[4]"), err("f32[3], f32[4,1]", "Expected 1-D argument vec2, but got 2-D")],
    )
    .variants(&["ger.out"]),
    OpDef::new(
        "aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
        bilinear,
        &[
            ok("f32[2,3], f32[2,4], f32[5,3,4], f32[5]"),
            ok("f32[6,2,3], f32[6,2,4], f32[5,3,4]"),
            ok("f32[3], f32[4], f32[5,3,4]"),
            err("f32[2,3], f32[3,4], f32[5,3,4]", "input batch dimensions do not match at dim 0: got 2 and 3"),
            err("f32[2,3], f32[2,4], f32[5,4,4]", "input1 size does not match weight size: got 3 but expected 4"),
            err("f32[2,3], f32[2,4], f32[5,3,4], f32[4]", "bias size does not match weight size: got 4 but expected 5"),
        ],
    ),
    OpDef::new(
        "aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
        tensordot,
        &[
            ok("f32[2,3,4], f32[4,3], [1,2], [1,0]"),
            ok("f32[2,1,4], f32[4,3], [1,2], [1,0]"),
            ok("f32[2,3], f32[3,5], [-1], [0]"),
            ok("f32[2], f32[3], [], []"),
            ok("bf16[2,3], bf16[2,3], [0,1], [0,1]"),
            err("f32[2,3,4], f32[4,3], [1,2], [0,1]", "first has size 3 in dim 1 and second has size 4 in dim 0"),
            err("f32[2,3,4], f32[4,3], [1], [0,1]", "both dimension lists should have same length"),
            err("f32[2,3], f64[3], [1], [0]", "both inputs should have same dtype"),
        ],
    )
    .variants(&["tensordot.out"]),
    OpDef::new(
        "aten::inner(Tensor self, Tensor other) -> Tensor",
        inner,
        &[
            ok("f32[2,3], f32[4,3]"),
            ok("f32[3], f32[3]"),
            ok("f32[2,3], f32[]"),
            err(
                "f32[2,3], f32[4,2]",
                "the last dimension must match on both input tensors but got shapes [2, 3] and [4, 2]",
            ),
            err("f32[2,3], f64[3]", "both inputs should have same dtype"),
        ],
    )
    .variants(&["inner.out"]),
    OpDef::new(
        "aten::kron(Tensor self, Tensor other) -> Tensor",
        kron,
        &[ok("f32[2,3], f32[2,2]"), ok("f32[2,3], i64[4]"), ok("f32[], f32[2]"), ok("f32[0,2], f32[2]")],
    )
    .variants(&["kron.out"]),
];

fn bilinear(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y, w) = (c.tensor(b, "input1")?, c.tensor(b, "input2")?, c.tensor(b, "weight")?);
    let (s, t, u) = (b.shape(x), b.shape(y), b.shape(w));
    let n = s.len();
    ensure!(n == t.len(), "bilinear(): input dimensions do not match: got {n} and {}", t.len());
    ensure!(n > 0 && u.len() == 3, "bilinear(): weight must be 3-D and inputs at least 1-D");
    for i in 0..n - 1 {
        ensure!(s[i] == t[i], "bilinear(): input batch dimensions do not match at dim {i}: got {} and {}", s[i], t[i]);
    }
    for (name, got, expected) in [("input1", s[n - 1], u[1]), ("input2", t[n - 1], u[2])] {
        ensure!(
            got == expected,
            "bilinear(): {name} size does not match weight size: got {got} but expected {expected}"
        );
    }
    same_dtype(b, x, w)?;
    same_dtype(b, y, w)?;
    let left = b.convert(contract(c, b, x, w, &[], &[(n - 1, 1)])?, b.dtype(x))?;
    let batch: Vec<(usize, usize)> = (0..n - 1).map(|i| (i, i)).collect();
    let product = contract(c, b, left, y, &batch, &[(n, n - 1)])?;
    let Some(bias) = c.optional_tensor(b, "bias")? else { return rounded(b, b.dtype(x), product) };
    let got = b.shape(bias).iter().product::<usize>();
    ensure!(got == u[0], "bilinear(): bias size does not match weight size: got {got} but expected {}", u[0]);
    let bias = b.convert(expand_to(b, bias, &b.shape(product))?, b.dtype(product))?;
    rounded(b, b.dtype(x), b.add(product, bias)?)
}

fn tensordot(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (mut x, mut y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let (p, q) = (c.ints("dims_self")?, c.ints("dims_other")?);
    ensure!(p.len() == q.len(), "both dimension lists should have same length");
    ensure!(b.dtype(x) == b.dtype(y), "both inputs should have same dtype");
    let mut over = vec![];
    for (&i, &j) in p.iter().zip(&q) {
        let (i, j) = (support::dim(i, b.rank(x))?, support::dim(j, b.rank(y))?);
        // An extent of 1 on one side only: the other side is summed.
        match (b.shape(x)[i], b.shape(y)[j]) {
            (m, n) if m == n => {}
            (1, _) => y = sum_keeping(b, y, j)?,
            (_, 1) => x = sum_keeping(b, x, i)?,
            (m, n) => crate::invalid!(
                "contracted dimensions need to match, but first has size {m} in dim {i} and second has size {n} in dim {j}"
            ),
        }
        over.push((i, j));
    }
    rounded(b, b.dtype(x), contract(c, b, x, y, &[], &over)?)
}

/// The sum along `dim`, which stays with extent 1.
fn sum_keeping(b: &Builder, v: ValueId, dim: usize) -> Result<ValueId> {
    let sum = in_accumulator(b, v, |v| b.reduce(v, crate::Reducer::Add, &[dim]))?;
    support::unsqueeze(b, sum, &[dim])
}

fn inner(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    ensure!(b.dtype(x) == b.dtype(y), "both inputs should have same dtype");
    let (s, t) = (b.shape(x), b.shape(y));
    let (Some(m), Some(n)) = (s.last(), t.last()) else {
        let shape = if s.is_empty() { &t } else { &s };
        return one(times(b, support::broadcast_to(b, x, shape)?, support::broadcast_to(b, y, shape)?)?);
    };
    ensure!(m == n, "inner() the last dimension must match on both input tensors but got shapes {s:?} and {t:?}");
    rounded(b, b.dtype(x), contract(c, b, x, y, &[], &[(s.len() - 1, t.len() - 1)])?)
}

fn kron(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let (x, y) = (c.tensor(b, "self")?, c.tensor(b, "other")?);
    let dtype = support::result_type(c, b, &[x.into(), y.into()])?;
    let rank = b.rank(x).max(b.rank(y));
    let padded = |v| -> Shape { std::iter::repeat_n(1, rank - b.rank(v)).chain(b.shape(v)).collect() };
    let (s, t) = (padded(x), padded(y));
    let pairs: Shape = s.iter().zip(&t).flat_map(|(&m, &n)| [m, n]).collect();
    let spread = |v, shape: &Shape, offset: usize| {
        let dims: Shape = (0..rank).map(|i| 2 * i + offset).collect();
        b.broadcast_in_dim(b.reshape(b.convert(v, dtype)?, shape)?, &pairs, &dims)
    };
    let product = times(b, spread(x, &s, 0)?, spread(y, &t, 1)?)?;
    let shape: Shape = s.iter().zip(&t).map(|(m, n)| m * n).collect();
    one(b.reshape(product, &shape)?)
}
