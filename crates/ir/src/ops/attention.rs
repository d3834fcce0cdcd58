//! Attention, written out: scores, mask, softmax, weighted sum. Scores and softmax stay in the accumulation type.

use super::expr::formula;
use super::matmul::{contract, linear};
use super::softmax::{over, safe_log_sum_exp, safe_softmax, softmax};
use super::support::{self, broadcast_shapes, broadcast_to, cpp_type};
use super::{Call, OpDef, Outs, err, many, ok, one};
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::types::{Dims, Shape};
use crate::{Comparison, DType, Number, Reducer, ensure};

pub(super) static OPS: &[OpDef] = &[
    OpDef::new(
        "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
        |c, b| one(attention(c, b, c.flag("enable_gqa")?, Mask::Keep)?.0),
        &[
            ok("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,6]"),
            ok("f32[4,8], f32[5,8], f32[5,8], none, 0.0, true"),
            ok("f32[3,4,8], f32[3,5,8], f32[3,5,8], f32[4,5]"),
            ok("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,8], bool[2,1,4,5], scale=0.5"),
            ok("f32[1,1,2,8], f32[1,1,2,8], f32[1,1,2,8], bool[2,2]{false,false,true,false}"),
            ok("f32[2,1,4,8], f32[1,3,5,8], f32[1,3,5,8]"),
            ok("f32[2,6,4,8], f32[2,3,5,8], f32[2,3,5,8], enable_gqa=true"),
            ok("bf16[2,3,4,8], bf16[2,3,4,8], bf16[2,3,4,8], none, 0.0, true"),
            ok("f16[2,3,4,8]{0..1}, f16[2,3,5,8]{0..1}, f16[2,3,5,8]{1..2}, f16[4,5]{0..1}"),
            ok("f64[2,3,0,8], f64[2,3,5,8], f64[2,3,5,8]"),
            ok("f32[2,3,4,8], f32[2,3,0,8], f32[2,3,0,8]"),
            err("f32[8], f32[8], f32[8]", "to all be  at least 2 dimensional, but got query.dim: 1 key.dim: 1 and value.dim: 1"),
            err("f32[2,5,4,8], f32[2,3,5,8], f32[2,3,5,8], enable_gqa=true", "Number of heads in key and value must divide the number of heads in query"),
            err("f32[2,6,4,8], f32[2,3,5,8], f32[2,3,5,8]", "The size of tensor a (6) must match the size of tensor b (3) at non-singleton dimension 1"),
            err("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,8], f32[4,5], 0.0, true", "Explicit attn_mask should not be set when is_causal=True"),
            err("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,8], i64[4,5]", "Expected attn_mask dtype to be bool or float or to match query dtype"),
            err("f32[2,3,4,8], f32[2,3,5,8], bf16[2,3,5,8]", "Expected query, key, and value to have the same dtype"),
        ],
    ),
    OpDef::new(
        "aten::_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, *, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
        |c, b| {
            let (output, weights) = attention(c, b, c.flag("enable_gqa")?, Mask::Add)?;
            many([output, weights])
        },
        &[
            ok("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,6]"),
            ok("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,6], none, 0.0, true"),
            ok("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,6], f32[4,5], 0.5, false, bool[2,3,4,5]"),
            ok("bf16[2,3,4,8]{0..1}, bf16[2,3,5,8]{0..1}, bf16[2,3,5,6]{1..2}, bool[4,5]"),
        ],
    ),
    OpDef::new(
        "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
        flash,
        &[
            ok("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,8]"),
            ok("f32[2,3,4,8], f32[2,3,4,8], f32[2,3,4,8], 0.0, true, scale=0.3"),
            ok("f32[1,1,2,8], f32[1,1,2,8], f32[1,1,2,8], attn_mask=f32[2,2]{-inf,-inf,0,-inf}"),
            ok("bf16[2,6,4,8]{0..1}, bf16[2,3,5,8]{0..1}, bf16[2,3,5,8]{1..2}"),
            err("f32[2,3,4,8], f32[2,3,5,8], f32[2,3,5,8], 0.5", "Currently do not support dropout > 0"),
        ],
    ).asked(),
    OpDef::new(
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
        flash_backward,
        // `out` and `logsumexp` must be those of the forward pass, so the numbers are given.
        &[ok(
            "f32[1,1,1,1]{1}, f32[1,1,1,1]{1}, f32[1,1,2,1]{0,1.0986123}, f32[1,1,2,1]{1,3}, f32[1,1,1,1]{2.5}, f32[1,1,1]{1.3862944}, 0.0, false, scale=1.0",
        )],
    ),
    OpDef::new(
        "aten::_native_multi_head_attention(Tensor query, Tensor key, Tensor value, int embed_dim, int num_head, Tensor qkv_weight, Tensor qkv_bias, Tensor proj_weight, Tensor proj_bias, Tensor? mask=None, bool need_weights=True, bool average_attn_weights=True, int? mask_type=None) -> (Tensor, Tensor)",
        multi_head,
        &[
            ok("f32[2,4,8], f32[2,4,8], f32[2,4,8], 8, 2, f32[24,8], f32[24], f32[8,8], f32[8], none, false"),
            err("f32[2,4,8], f32[2,5,8], f32[2,5,8], 8, 2, f32[24,8], f32[24], f32[8,8], f32[8]", "expected `query`/`key`/`value` shapes to match"),
        ],
    )
    .variants(&["_native_multi_head_attention.out"]),
];

/// Query, key and value with equal leading dimensions.
struct Operands {
    query: ValueId,
    key: ValueId,
    value: ValueId,
    /// The leading dimensions.
    lead: usize,
    /// What multiplies the scores.
    scale: f64,
}

fn check(b: &Builder, q: ValueId, k: ValueId, v: ValueId) -> Result<()> {
    let [r, s, t] = [q, k, v].map(|x| b.rank(x));
    ensure!(
        r >= 2 && s >= 2 && t >= 2,
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {r} key.dim: {s} and value.dim: {t} instead."
    );
    let [d, e, f] = [q, k, v].map(|x| b.dtype(x));
    ensure!(
        d == e && e == f,
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and value.dtype: {} instead.",
        cpp_type(d),
        cpp_type(e),
        cpp_type(f)
    );
    let name = support::torch_name(d);
    ensure!(d.is_float(), "expected scalar type Float but found {name}");
    let [keys, values] = [k, v].map(|x| b.shape(x)[b.rank(x) - 2]);
    ensure!(
        keys == values,
        "scaled_dot_product_attention: expected key and value to have as many positions (dimension -2), but they have {keys} and {values}"
    );
    Ok(())
}

/// Each head of `v` repeated, so that there are `heads`.
fn repeat_heads(b: &Builder, v: ValueId, heads: usize) -> Result<ValueId> {
    let shape = b.shape(v);
    let n = shape.len();
    let own = shape[n - 3];
    if own == heads {
        return Ok(v);
    }
    let fits = own > 0 && heads.is_multiple_of(own);
    ensure!(fits, "Number of heads in key and value must divide the number of heads in query");
    let mut wide: Shape = shape.clone();
    wide.insert(n - 2, heads / own);
    let dims: Dims = (0..n + 1).filter(|&d| d != n - 2).collect();
    let mut joined = shape;
    joined[n - 3] = heads;
    b.reshape(b.broadcast_in_dim(v, &wide, &dims)?, &joined)
}

impl Operands {
    fn read(c: &Call<'_>, b: &Builder, repeat: bool) -> Result<Operands> {
        let (q, k, v) = (c.tensor(b, "query")?, c.tensor(b, "key")?, c.tensor(b, "value")?);
        check(b, q, k, v)?;
        let scale = c.optional_float("scale")?;
        Operands::new(b, q, k, v, scale, repeat)
    }

    fn new(b: &Builder, q: ValueId, k: ValueId, v: ValueId, scale: Option<f64>, repeat: bool) -> Result<Operands> {
        let (mut k, mut v) = (k, v);
        let shape = b.shape(q);
        let n = shape.len();
        if repeat {
            let deep = [q, k, v].into_iter().all(|x| b.rank(x) >= 3);
            ensure!(deep, "grouped-query attention needs a dimension of heads");
            (k, v) = (repeat_heads(b, k, shape[n - 3])?, repeat_heads(b, v, shape[n - 3])?);
        }
        let leads = [q, k, v].map(|x| {
            let s = b.shape(x);
            Shape::from(&s[..s.len() - 2])
        });
        let lead = broadcast_shapes(&leads)?;
        let spread = |x| {
            let s = b.shape(x);
            let whole: Shape = lead.iter().chain(&s[s.len() - 2..]).copied().collect();
            broadcast_to(b, x, &whole)
        };
        let width = shape[n - 1] as f64;
        let scale = scale.unwrap_or(if width == 0.0 { f64::INFINITY } else { width.sqrt().recip() });
        Ok(Operands { query: spread(q)?, key: spread(k)?, value: spread(v)?, lead: lead.len(), scale })
    }

    fn batch(&self) -> Vec<(usize, usize)> {
        (0..self.lead).map(|i| (i, i)).collect()
    }

    /// `left @ right`, with dimensions numbered behind the leading ones; in the accumulation type.
    fn product(
        &self,
        c: &Call<'_>,
        b: &Builder,
        left: ValueId,
        right: ValueId,
        over: (usize, usize),
    ) -> Result<ValueId> {
        contract(c, b, left, right, &self.batch(), &[(self.lead + over.0, self.lead + over.1)])
    }

    /// `query @ key.T * scale`, masked.
    fn scores(&self, c: &Call<'_>, b: &Builder, meaning: Mask) -> Result<ValueId> {
        let (q, k) = (b.shape(self.query), b.shape(self.key));
        let (e, f) = (q[self.lead + 1], k[self.lead + 1]);
        let stack: usize = q[..self.lead].iter().product();
        ensure!(
            e == f,
            "Expected size for first two dimensions of batch2 tensor to be: [{stack}, {e}] but got: [{stack}, {f}]."
        );
        let scores = self.product(c, b, self.query, self.key, (1, 1))?;
        let scale = self.scale;
        let scores = formula(b, [scores], |[s]| s * scale)?;
        let mask = c.optional_tensor(b, "attn_mask")?;
        if c.flag("is_causal")? {
            ensure!(
                mask.is_none(),
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            );
            return self.causal(b, scores);
        }
        mask.map_or(Ok(scores), |mask| masked(b, scores, mask, b.dtype(self.query), meaning))
    }

    /// `-inf` right of the diagonal.
    fn causal(&self, b: &Builder, scores: ValueId) -> Result<ValueId> {
        let shape = b.shape(scores);
        let square = &shape[self.lead..];
        let (row, column) = (b.iota(DType::I32, square, 0)?, b.iota(DType::I32, square, 1)?);
        let seen = b.compare(Comparison::Le, column, row)?;
        b.select(broadcast_to(b, seen, &shape)?, scores, support::like(b, scores, f64::NEG_INFINITY)?)
    }
}

/// What a mask of `bool` says.
#[derive(Clone, Copy, PartialEq)]
enum Mask {
    /// What to keep.
    Keep,
    /// The number to add: ops that expect PyTorch to have converted the mask.
    Add,
}

/// `scores` under a mask; any other than `bool` is added.
fn masked(b: &Builder, scores: ValueId, mask: ValueId, query: DType, meaning: Mask) -> Result<ValueId> {
    let dtype = b.dtype(mask);
    ensure!(
        dtype == DType::Bool || dtype == DType::F32 || dtype == query,
        "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} and  query.dtype: {} instead.",
        cpp_type(dtype),
        cpp_type(query)
    );
    let shape = broadcast_shapes([&b.shape(scores), &b.shape(mask)])?;
    let (scores, mask) = (broadcast_to(b, scores, &shape)?, broadcast_to(b, mask, &shape)?);
    if dtype == DType::Bool && meaning == Mask::Keep {
        return b.select(mask, scores, support::like(b, scores, f64::NEG_INFINITY)?);
    }
    b.add(scores, b.convert(mask, b.dtype(scores))?)
}

/// Output and weights, in the query's type.
fn attention(c: &Call<'_>, b: &Builder, repeat: bool, mask: Mask) -> Result<(ValueId, ValueId)> {
    let operands = Operands::read(c, b, repeat)?;
    let dtype = b.dtype(operands.query);
    let scores = operands.scores(c, b, mask)?;
    let weights = safe_softmax(b, scores, operands.lead + 1)?;
    let (dropped, saved) = dropout(c, b, weights)?;
    let output = operands.product(c, b, b.convert(dropped, dtype)?, operands.value, (1, 0))?;
    Ok((b.convert(output, dtype)?, b.convert(saved, dtype)?))
}

/// Weights to multiply with, and weights to give back.
fn dropout(c: &Call<'_>, b: &Builder, weights: ValueId) -> Result<(ValueId, ValueId)> {
    let p = c.float("dropout_p")?;
    if p <= 0.0 {
        return Ok((weights, weights));
    }
    ensure!(p <= 1.0, "dropout probability has to be between 0 and 1, but got {p}");
    let scale = if p < 1.0 { (1.0 - p).recip() } else { 0.0 };
    let given = if c.has("dropout_mask") { c.optional_tensor(b, "dropout_mask")? } else { None };
    let shape = b.shape(weights);
    let keep = match given {
        Some(mask) => broadcast_to(b, b.convert(mask, DType::Bool)?, &shape)?,
        None => kept(b, p, &shape)?,
    };
    let scaled = formula(b, [weights], |[w]| w * scale)?;
    let dropped = b.select(keep, scaled, support::like(b, weights, 0.0)?)?;
    if given.is_none() {
        return Ok((dropped, dropped));
    }
    // PyTorch applies a given mask in place and scales the values instead.
    Ok((dropped, b.select(keep, weights, support::like(b, weights, 0.0)?)?))
}

/// `bool`, false with probability `p`.
pub(super) fn kept(b: &Builder, p: f64, shape: &[usize]) -> Result<ValueId> {
    let bits = b.random_bits(DType::U32, shape)?;
    let threshold = (p * 4_294_967_296.0).min(f64::from(u32::MAX)) as i64;
    b.compare(Comparison::Ge, bits, b.full(Number::Int(threshold), DType::U32, shape)?)
}

/// What the CPU's flash attention refuses.
fn flash_operands(c: &Call<'_>, b: &Builder) -> Result<Operands> {
    let no_dropout = c.float("dropout_p")? == 0.0;
    ensure!(no_dropout, "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
    for name in ["query", "key", "value"] {
        let n = b.rank(c.tensor(b, name)?);
        ensure!(
            n == 4,
            "scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape of {{B, H, T, K}}"
        );
    }
    Operands::read(c, b, true)
}

fn flash(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let operands = flash_operands(c, b)?;
    let (output, _) = attention(c, b, true, Mask::Add)?;
    let scores = operands.scores(c, b, Mask::Add)?;
    let sums = safe_log_sum_exp(b, scores, operands.lead + 1)?;
    many([output, sums])
}

/// The gradients of query, key and value.
///
/// The weights are computed again from query, key and `logsumexp`. In one program with the forward pass they are its own.
/// PyTorch's decomposition of the forward op hands out the weights in the place of `logsumexp`, rounded to the query's
/// type, which are not used.
fn flash_backward(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let operands = flash_operands(c, b)?;
    let dtype = b.dtype(operands.query);
    let (grad, lead, scale) = (c.tensor(b, "grad_out")?, operands.lead, operands.scale);
    let (scores, sums, keys) = (operands.scores(c, b, Mask::Add)?, c.tensor(b, "logsumexp")?, lead + 1);
    let from_sums = b.is_input(sums) && b.shape(sums)[..] == b.shape(scores)[..keys];
    let weights = match from_sums {
        true => exponential_over(b, scores, sums, keys)?,
        false => safe_softmax(b, scores, keys)?,
    };
    let (narrow, wide) = (|v| b.convert(v, dtype), |v| b.convert(v, b.dtype(weights)));
    let grad_value = operands.product(c, b, narrow(weights)?, grad, (0, 0))?;
    let grad_weights = operands.product(c, b, grad, operands.value, (1, 1))?;
    // Of a row, the sum of weights times their gradients is that of outputs times theirs, which are fewer.
    let products = match from_sums {
        true => b.multiply(wide(grad)?, wide(c.tensor(b, "out")?)?)?,
        false => b.multiply(weights, grad_weights)?,
    };
    let dot = over(b, b.reduce(products, Reducer::Add, &[keys])?, weights, keys)?;
    let grad_scores = narrow(formula(b, [weights, grad_weights, dot], |[w, g, d]| w * (g - d) * scale)?)?;
    let grad_query = operands.product(c, b, grad_scores, operands.key, (1, 0))?;
    let grad_key = operands.product(c, b, grad_scores, operands.query, (0, 0))?;
    let heads = |name| -> Result<usize> { Ok(b.shape(c.tensor(b, name)?)[1]) };
    let (keys, values) = (heads("key")?, heads("value")?);
    many([narrow(grad_query)?, narrow(sum_heads(b, grad_key, keys)?)?, narrow(sum_heads(b, grad_value, values)?)?])
}

/// `exp(x - sums)`, with `sums` the same along `d`.
fn exponential_over(b: &Builder, x: ValueId, sums: ValueId, d: usize) -> Result<ValueId> {
    let sums = over(b, b.convert(sums, b.dtype(x))?, x, d)?;
    b.unary(crate::Unary::Exponential, b.subtract(x, sums)?)
}

/// The adjoint of [`repeat_heads`] on `[batch, heads, ...]`.
fn sum_heads(b: &Builder, v: ValueId, heads: usize) -> Result<ValueId> {
    let s = b.shape(v);
    if s[1] == heads {
        return Ok(v);
    }
    let split = b.reshape(v, &[s[0], heads, s[1] / heads.max(1), s[2], s[3]])?;
    b.reduce(split, Reducer::Add, &[2])
}

fn multi_head(c: &Call<'_>, b: &Builder) -> Result<Outs> {
    let [q, k, v] = ["query", "key", "value"].map(|n| c.tensor(b, n));
    let (q, k, v) = (q?, k?, v?);
    let s = b.shape(q);
    ensure!(s.len() == 3, "expected 3-D `query`, got {}-D tensor", s.len());
    let same = s == b.shape(k) && s == b.shape(v);
    ensure!(same, "expected `query`/`key`/`value` shapes to match");
    let (width, heads) = (c.int("embed_dim")? as usize, c.int("num_head")? as usize);
    ensure!(s[2] == width, "passed-in embed_dim {width} didn't match last dim of query {}", s[2]);
    ensure!(heads > 0 && width.is_multiple_of(heads), "D must divide evenly by num_head");
    let (weight, bias) = (c.tensor(b, "qkv_weight")?, c.tensor(b, "qkv_bias")?);
    ensure!(b.shape(weight)[..] == [3 * width, width], "expected `qkv_weight` shape to match {}x{width}", 3 * width);
    ensure!(b.shape(bias)[..] == [3 * width], "expected `qkv_bias` first dim and first dim of query to match");
    let dtype = b.dtype(q);
    let project = |x, i: usize| -> Result<ValueId> {
        let part = |p| b.slice_dim(p, 0, i * width, (i + 1) * width, 1);
        let y = b.convert(linear(c, b, x, part(weight)?, Some(part(bias)?))?, dtype)?;
        b.transpose(b.reshape(y, &[s[0], s[1], heads, width / heads])?, &[0, 2, 1, 3])
    };
    let operands = Operands::new(b, project(q, 0)?, project(k, 1)?, project(v, 2)?, None, false)?;
    let scale = operands.scale;
    let scores = operands.product(c, b, operands.query, operands.key, (1, 1))?;
    let mut scores = formula(b, [scores], |[x]| x * scale)?;
    if let Some(mask) = c.optional_tensor(b, "mask")? {
        let mask = b.convert(mask, DType::Bool)?;
        // 0: [queries, keys]; 1: [batch, keys]; 2: all of it. True hides.
        let dims: &[usize] = match c.optional_int("mask_type")? {
            Some(0) => &[2, 3],
            Some(1) => &[0, 3],
            Some(2) => &[0, 1, 2, 3],
            other => crate::invalid!("Mask type should be 0, 1 or 2, got {other:?}"),
        };
        let hidden = b.broadcast_in_dim(mask, &b.shape(scores), dims)?;
        scores = b.select(hidden, support::like(b, scores, f64::NEG_INFINITY)?, scores)?;
    }
    let weights = softmax(b, scores, 3)?;
    let output = operands.product(c, b, b.convert(weights, dtype)?, operands.value, (1, 0))?;
    let joined = b.reshape(b.transpose(b.convert(output, dtype)?, &[0, 2, 1, 3])?, &s)?;
    let output = linear(c, b, joined, c.tensor(b, "proj_weight")?, Some(c.tensor(b, "proj_bias")?))?;
    let weights = match (c.flag("need_weights")?, c.flag("average_attn_weights")?) {
        (false, _) => None,
        (true, false) => Some(b.convert(weights, dtype)?),
        (true, true) => Some(b.convert(super::normalization::mean(b, weights, &[1])?, dtype)?),
    };
    Ok(vec![Some(b.convert(output, dtype)?), weights])
}
