//! What a convolution is told, and whether it fits its operands.

use super::spatial;
use crate::builder::Builder;
use crate::error::Result;
use crate::graph::ValueId;
use crate::ops::Call;
use crate::ops::support::torch_name;
use crate::types::Shape;
use crate::{ensure, ensure_kernel, invalid};

/// A convolution's attributes, one entry per spatial dimension.
pub(super) struct Attributes {
    pub(super) stride: Vec<i64>,
    /// Elements before and after.
    pub(super) padding: Vec<(i64, i64)>,
    pub(super) dilation: Vec<i64>,
    pub(super) transposed: bool,
    pub(super) output_padding: Vec<i64>,
    pub(super) groups: i64,
}

/// The numbers `name`, one per spatial dimension; a single one stands for all.
fn per_dimension(c: &Call<'_>, name: &str, n: usize) -> Result<Vec<i64>> {
    let given = c.ints(name)?;
    match given[..] {
        [only] => Ok(vec![only; n]),
        _ => {
            ensure!(
                given.len() == n,
                "expected {name} to be a single integer value or a list of {n} values to match the convolution dimensions, but got {name}={given:?}"
            );
            Ok(given)
        }
    }
}

fn both_sides(padding: Vec<i64>) -> Vec<(i64, i64)> {
    padding.into_iter().map(|p| (p, p)).collect()
}

impl Attributes {
    /// Of a call that gives all of them.
    pub(super) fn read(c: &Call<'_>, n: usize) -> Result<Attributes> {
        Ok(Attributes { transposed: c.flag("transposed")?, ..Attributes::transposed(c, n)? })
    }
    /// Of a transposed convolution.
    pub(super) fn transposed(c: &Call<'_>, n: usize) -> Result<Attributes> {
        let output_padding = per_dimension(c, "output_padding", n)?;
        Ok(Attributes { transposed: true, output_padding, ..Attributes::plain(c, n, Some("padding"))? })
    }
    /// Of a call without transposition; without `padding`, none.
    pub(super) fn plain(c: &Call<'_>, n: usize, padding: Option<&str>) -> Result<Attributes> {
        let padding = padding.map_or(Ok(vec![0; n]), |name| per_dimension(c, name, n))?;
        Ok(Attributes {
            stride: per_dimension(c, "stride", n)?,
            padding: both_sides(padding),
            dilation: per_dimension(c, "dilation", n)?,
            transposed: false,
            output_padding: vec![0; n],
            groups: c.int("groups")?,
        })
    }
    /// One spatial dimension with nothing but padding.
    pub(super) fn simple(padding: i64) -> Attributes {
        Attributes {
            stride: vec![1],
            padding: vec![(padding, padding)],
            dilation: vec![1],
            transposed: false,
            output_padding: vec![0],
            groups: 1,
        }
    }

    /// # Errors
    /// In PyTorch's words, if operands and attributes do not fit each other.
    pub(super) fn check(&self, b: &Builder, input: ValueId, weight: ValueId, bias: Option<ValueId>) -> Result<()> {
        let (x, w, groups) = (b.shape(input), b.shape(weight), self.groups);
        ensure!(w.len() >= 3, "weight should have at least three dimensions");
        ensure!(groups > 0, "non-positive groups is not supported");
        ensure!(self.padding.iter().all(|p| p.0 >= 0 && p.1 >= 0), "negative padding is not supported");
        ensure!(self.output_padding.iter().all(|&p| p >= 0), "negative output_padding is not supported");
        ensure!(self.stride.iter().all(|&s| s > 0), "non-positive stride is not supported");
        let dilated = self.dilation.iter().all(|&d| d > 0);
        ensure!(dilated, "dilation should be greater than zero, but got {:?}", self.dilation);
        let n = w.len();
        ensure!(
            x.len() == n,
            "Expected {n}-dimensional input for {n}-dimensional weight {w:?}, but got {}-dimensional input of size {x:?} instead",
            x.len()
        );
        let groups = groups as usize;
        ensure!(
            w[0] >= groups,
            "Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size {w:?} instead"
        );
        ensure!(
            w[0].is_multiple_of(groups),
            "Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size [{w:?}] instead"
        );
        self.check_channels(&x, &w, groups, bias.map(|v| b.shape(v)))?;
        self.output_shape(&x, &w)?;
        ensure!(
            !x[2..].contains(&0),
            "Only zero batch or zero channel inputs are supported, but got input shape: {x:?}"
        );
        let [p, q] = [b.dtype(input), b.dtype(weight)];
        ensure!(p == q, "expected scalar type {} but found {}", torch_name(p), torch_name(q));
        ensure_kernel!(p != crate::DType::Bool, "\"slow_conv2d_cpu\" not implemented for 'Bool'");
        Ok(())
    }

    fn check_channels(&self, x: &[usize], w: &[usize], groups: usize, bias: Option<Shape>) -> Result<()> {
        let (ins, outs) = if self.transposed { (w[0], w[1] * groups) } else { (w[1] * groups, w[0]) };
        let given = if self.transposed { "transposed=1".to_owned() } else { format!("groups={groups}") };
        ensure!(
            x[1] == ins,
            "Given {given}, weight of size {w:?}, expected input{x:?} to have {ins} channels, but got {} channels instead",
            x[1]
        );
        let Some(bias) = bias else { return Ok(()) };
        let given = if self.transposed { "transposed=1, " } else { "" };
        ensure!(
            bias[..] == [outs],
            "Given {given}weight of size {w:?}, expected bias to be 1-dimensional with {outs} elements, but got bias of size {bias:?} instead"
        );
        Ok(())
    }

    /// The shape of the result.
    ///
    /// # Errors
    /// In PyTorch's words, if the kernel is larger than the input or nothing is left.
    pub(super) fn output_shape(&self, x: &[usize], w: &[usize]) -> Result<Shape> {
        let (ins, kernel) = (spatial(x), spatial(w));
        let reach = |i: usize| self.dilation[i].saturating_mul(kernel[i] as i64 - 1) + 1;
        if !self.transposed {
            let padded = |i: usize| (ins[i] as i64).saturating_add(self.padding[i].0).saturating_add(self.padding[i].1);
            let n = ins.len();
            if (0..n).any(|i| padded(i) < reach(i)) {
                let by = |f: &dyn Fn(usize) -> i64| (0..n).map(|i| f(i).to_string()).collect::<Vec<_>>().join(" x ");
                invalid!(
                    "Calculated padded input size per channel: ({}). Kernel size: ({}). Kernel size can't be greater than actual input size",
                    by(&padded),
                    by(&reach)
                );
            }
            let outs = (0..n).map(|i| ((padded(i) - reach(i)) / self.stride[i] + 1) as usize);
            // PyTorch gives no channels for an input without any.
            let features = if x[1] == 0 { 0 } else { w[0] };
            return Ok([x[0], features].into_iter().chain(outs).collect());
        }
        self.check_output_padding()?;
        let out = |i: usize| {
            let (low, high) = self.padding[i];
            (ins[i] as i64 - 1).saturating_mul(self.stride[i]) - low - high + reach(i) + self.output_padding[i]
        };
        let outs: Vec<i64> = (0..ins.len()).map(out).collect();
        if outs.iter().any(|&o| o <= 0) {
            let by = |v: Vec<String>| v.join(" x ");
            invalid!(
                "Given input size per channel: ({}). Calculated output size per channel: ({}). Output size is too small",
                by(ins.iter().map(usize::to_string).collect()),
                by(outs.iter().map(i64::to_string).collect())
            );
        }
        let features = if x[1] == 0 { 0 } else { w[1].saturating_mul(self.groups as usize) };
        Ok([x[0], features].into_iter().chain(outs.into_iter().map(|o| o as usize)).collect())
    }

    fn check_output_padding(&self) -> Result<()> {
        let n = self.stride.len();
        let fits = (0..n).all(|i| self.output_padding[i] < self.stride[i].max(self.dilation[i]));
        if fits {
            return Ok(());
        }
        let names = &["depth", "height", "width"][3 - n.min(3)..];
        let of = |what: &str, v: &[i64]| {
            let pairs = names.iter().zip(v).map(|(name, x)| format!("{what}_{name}: {x}"));
            pairs.collect::<Vec<_>>().join(" ")
        };
        invalid!(
            "output padding must be smaller than either stride or dilation, but got {} {} {}",
            of("output_padding", &self.output_padding),
            of("stride", &self.stride),
            of("dilation", &self.dilation)
        )
    }
}

/// The padding that keeps the input's extents; the odd element goes after.
pub(super) fn same_padding(a: &Attributes, weight: &[usize]) -> Result<Vec<(i64, i64)>> {
    ensure!(a.stride.iter().all(|&s| s == 1), "padding='same' is not supported for strided convolutions");
    let pair = |(&d, &k): (&i64, &usize)| {
        let total = d.saturating_mul(k as i64 - 1).max(0);
        (total / 2, total - total / 2)
    };
    Ok(a.dilation.iter().zip(weight.iter().skip(2)).map(pair).collect())
}
