//! Graphs of a product or a convolution and of what is done to its result.

use super::*;

/// A product or a convolution, things done to it one after the other, and where features are in it.
pub(in crate::formulate) struct Finishing {
    b: Builder,
    convolves: bool,
    dtype: DType,
    inputs: std::cell::Cell<usize>,
}

impl Finishing {
    pub(in crate::formulate) fn new(convolves: bool, dtype: DType) -> Finishing {
        let b = Builder::new("finishing");
        at(&b, 7);
        Finishing { b, convolves, dtype, inputs: std::cell::Cell::new(0) }
    }
    fn input(&self, shape: &[usize]) -> ValueId {
        let i = self.inputs.get();
        self.inputs.set(i + 1);
        self.b.input(format!("arg{i}"), InputKind::User, TensorType::new(self.dtype, shape.iter().copied()))
    }
    /// The product or the convolution, its weight scaled for each feature or not.
    pub(in crate::formulate) fn start(&self, scaled: bool) -> ValueId {
        let b = &self.b;
        let (x, w) = if self.convolves {
            (self.input(&[2, 4, 6, 7]), self.input(&[12, 4, 3, 3]))
        } else {
            (self.input(&[3, 10, 32]), self.input(&[12, 32]))
        };
        let scales = |w| {
            let scales = b.broadcast_in_dim(self.input(&[12]), &b.shape(w), &[0]).unwrap();
            b.multiply(w, scales).unwrap()
        };
        let w = if scaled { scales(w) } else { w };
        match self.convolves {
            true => b.convolution(x, w, of_form(0, 2, self.dtype)).unwrap(),
            false => dot(b, x, w, &[2], &[1]),
        }
    }
    /// A number for each of `v`'s elements along a dimension; features', unless it is another.
    pub(in crate::formulate) fn repeated(&self, v: ValueId, dim: Option<usize>) -> ValueId {
        let shape = self.b.shape(v);
        let dim = dim.unwrap_or(if self.convolves { 1 } else { shape.len() - 1 });
        self.b.broadcast_in_dim(self.input(&[shape[dim]]), &shape, &[dim]).unwrap()
    }
    pub(in crate::formulate) fn biased(&self, v: ValueId) -> ValueId {
        self.b.add(v, self.repeated(v, None)).unwrap()
    }
    pub(in crate::formulate) fn added(&self, v: ValueId, to: Option<ValueId>) -> ValueId {
        self.b.add(to.unwrap_or_else(|| self.input(&self.b.shape(v))), v).unwrap()
    }
    pub(in crate::formulate) fn relu(&self, v: ValueId) -> ValueId {
        let zero = self.b.full(Number::Int(0), self.dtype, &self.b.shape(v)).unwrap();
        self.b.maximum(v, zero).unwrap()
    }
    pub(in crate::formulate) fn tanh(&self, v: ValueId) -> ValueId {
        self.b.unary(Unary::Tanh, v).unwrap()
    }
    pub(in crate::formulate) fn reshaped(&self, v: ValueId) -> ValueId {
        let flat = if self.b.rank(v) == 2 { vec![3, 10, 12] } else { vec![30, 12] };
        self.b.reshape(v, &flat).unwrap()
    }
    pub(in crate::formulate) fn output(&self, v: ValueId) {
        self.b.output(format!("y{}", v.index()), OutputKind::User, v);
    }
    pub(in crate::formulate) fn graph(self) -> Graph {
        self.b.finish()
    }

    /// Some of the above in any order.
    pub(in crate::formulate) fn random(r: &mut Random) -> Graph {
        let it = Finishing::new(r.below(2) == 0, r.one_of(&[DType::F32, DType::F64]));
        let b = &it.b;
        let mut v = it.start(r.below(3) == 0);
        for _ in 0..r.within(0, 5) {
            v = match r.below(10) {
                0 | 1 => it.biased(v),
                2 => it.added(v, None),
                3 if it.convolves || b.rank(v) == 3 => {
                    let other = it.start(r.below(3) == 0);
                    let other = if r.below(2) == 0 { it.biased(other) } else { other };
                    it.added(v, Some(other))
                }
                4 => it.relu(v),
                5 => b.add(v, it.repeated(v, Some(r.below(b.rank(v))))).unwrap(),
                6 => b.multiply(v, it.repeated(v, None)).unwrap(),
                7 => it.tanh(v),
                8 if !it.convolves => it.reshaped(v),
                _ => b.add(v, v).unwrap(),
            };
            if r.below(6) == 0 {
                it.output(v);
            }
        }
        it.output(v);
        it.graph()
    }
}
