//! What right sides ask of numbers: values of constants, bounds, counting.

use super::Edit;
use crate::analysis::{Range, computed, integers, range_of};
use crate::language::{Head, Kind, Node};
use egg::Id;
use ir::{DType, Literal, Number, Op};

/// How far what counts is looked for behind broadcasts, reshapes and conversions.
const DEPTH: usize = 5;

/// Elements that are `start`, `start + 1`, ... along `dim`, the same in every other dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counting {
    /// The dimension that counts, of extent 2 at least.
    pub dim: usize,
    /// The first number.
    pub start: i128,
}

impl Edit<'_> {
    /// The real number that fills it.
    pub fn number(&self, id: Id) -> Option<f64> {
        let splat = self.egraph[id].data.splat.as_ref().filter(|s| !s.ty.dtype.is_complex())?;
        let wide = computed(&Op::Convert { dtype: DType::F64 }, &[splat])?;
        Some(f64::from_le_bytes(wide.bytes[..].try_into().ok()?))
    }
    /// The integer that fills it; `bool` counts as one.
    pub fn integer(&self, id: Id) -> Option<i128> {
        integers(self.egraph[id].data.splat.as_ref()?)?.first().copied()
    }
    /// Least and greatest value of an integer; `None` for floats.
    pub fn range(&self, id: Id) -> Option<Range> {
        self.egraph[id].data.range
    }
    /// Whether a type holds every value that the integer may have.
    pub fn fits(&self, id: Id, dtype: DType) -> bool {
        let within = |(r, all): (Range, Range)| all.0 <= r.0 && r.1 <= all.1;
        self.range(id).zip(range_of(dtype)).is_some_and(within)
    }
    /// Whether `?name` is no constant, or one that is finite and not zero: what holds in exact arithmetic needs that.
    pub fn is_tame(&self, name: &str) -> bool {
        let id = self.var(name);
        self.splat(id).is_none() || self.number(id).is_some_and(|n| n.is_finite() && n != 0.0)
    }
    /// The constant that `op` makes of what fills `operands`, as an element.
    pub fn element(&self, op: &Op, operands: &[Id]) -> Option<Literal> {
        let splats: Option<Vec<Literal>> = operands.iter().map(|&id| self.splat(id)).collect();
        computed(op, &splats?.iter().collect::<Vec<_>>())
    }
    /// The number of its elements.
    pub fn numel(&self, id: Id) -> Option<usize> {
        self.ty(id)?.checked_numel()
    }
    /// Adds the broadcast that `?name` names, of another value.
    pub fn broadcast_again(&mut self, id: Id, name: &str) -> Option<Id> {
        match &*self.op(name)? {
            Op::BroadcastInDim { shape, dims } => self.broadcast_in_dim(id, shape, dims),
            _ => None,
        }
    }
    /// Adds a constant of the type of `id` with `number` in every element.
    pub fn full_like(&mut self, number: Number, id: Id) -> Option<Id> {
        let ty = self.ty(id)?;
        self.full(number, &ty)
    }
    /// Adds a constant of the extents of the root with `element` everywhere.
    pub fn fill(&mut self, element: &Literal) -> Option<Id> {
        let shape = self.shape(self.root())?;
        self.filled(element, &shape)
    }

    /// How it counts, if it does.
    pub(crate) fn counting(&self, id: Id) -> Option<Counting> {
        self.counting_within(id, DEPTH)
    }
    fn counting_within(&self, id: Id, depth: usize) -> Option<Counting> {
        let depth = depth.checked_sub(1)?;
        let found = self.egraph[id].nodes.iter().find_map(|n| self.node_counts(id, n, depth))?;
        (*self.shape(id)?.get(found.dim)? > 1).then_some(found)
    }
    fn node_counts(&self, id: Id, node: &Node, depth: usize) -> Option<Counting> {
        let below = || self.counting_within(*node.operands().first()?, depth);
        if let Head::Binary(op @ (ir::Binary::Add | ir::Binary::Subtract)) = node.head {
            let (counted, by) = (below()?, self.integer(node.children[1])?);
            let by = if op == ir::Binary::Add { by } else { -by };
            return self.counts_without_wrapping(id, Counting { start: counted.start + by, ..counted });
        }
        let Head::With(Kind::Iota | Kind::Constant | Kind::Convert | Kind::BroadcastInDim | Kind::Reshape) = node.head
        else {
            return None;
        };
        match &*self.attributes(*node.children.last()?)? {
            Op::Iota { dim, .. } => self.counts_without_wrapping(id, Counting { dim: *dim, start: 0 }),
            Op::Constant(l) => consecutive(l),
            Op::Convert { .. } => self.counts_without_wrapping(id, below()?),
            Op::BroadcastInDim { dims, .. } => {
                let counted = below()?;
                Some(Counting { dim: dims[counted.dim], ..counted })
            }
            Op::Reshape { shape } => {
                let (counted, from) = (below()?, self.shape(*node.operands().first()?)?);
                let place = from[..counted.dim].iter().filter(|&&n| n != 1).count();
                let moved: Vec<usize> = (0..shape.len()).filter(|&d| shape[d] != 1).collect();
                let same = from.iter().filter(|&&n| n != 1).eq(moved.iter().map(|&d| &shape[d]));
                same.then(|| Counting { dim: moved[place], ..counted })
            }
            _ => None,
        }
    }
    fn counts_without_wrapping(&self, id: Id, counted: Counting) -> Option<Counting> {
        let ty = self.ty(id)?;
        let (least, most) = range_of(ty.dtype).filter(|_| ty.dtype != DType::Bool)?;
        let last = counted.start + *ty.shape.get(counted.dim)? as i128 - 1;
        (least <= counted.start && last <= most).then_some(counted)
    }
}

/// A constant whose elements are consecutive along its only dimension of more than one.
fn consecutive(l: &Literal) -> Option<Counting> {
    let mut long = (0..l.ty.rank()).filter(|&d| l.ty.shape[d] != 1);
    let (dim, values) = (long.next()?, integers(l)?);
    let rising = values.windows(2).all(|w| w[1] == w[0] + 1);
    (long.next().is_none() && !l.is_splat() && rising).then(|| Counting { dim, start: values[0] })
}
