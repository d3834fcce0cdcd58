//! Appending ops to blocks.

use crate::session::Session;
use ir::{Comparison, DType, Error, Literal, Result, TensorType, Type};
use melior::ir::block::BlockLike;
use melior::ir::operation::OperationBuilder;
use melior::ir::{Attribute, Block, BlockRef, Identifier, Location, OperationRef, Region, RegionLike, Value};
use smallvec::{SmallVec, smallvec};

/// A value of the module. Its parents live as long as the module does: every region is handed to its op, every op to
/// its block, and nothing is ever taken out again.
pub(crate) type V<'c> = Value<'c, 'c>;
pub(crate) type Values<'c> = SmallVec<[V<'c>; 4]>;
pub(crate) type MlirType<'c> = melior::ir::Type<'c>;

pub(crate) fn internal(e: impl ToString) -> Error {
    Error::internal(e.to_string())
}

/// An op in the making.
pub(crate) struct Instruction<'c> {
    name: &'static str,
    operands: Values<'c>,
    attributes: SmallVec<[(&'static str, Attribute<'c>); 6]>,
    regions: Vec<Region<'c>>,
}

impl<'c> Instruction<'c> {
    pub(crate) fn new(name: &'static str) -> Instruction<'c> {
        Instruction { name, operands: smallvec![], attributes: smallvec![], regions: vec![] }
    }
    pub(crate) fn operands(mut self, operands: &[V<'c>]) -> Self {
        self.operands.extend_from_slice(operands);
        self
    }
    pub(crate) fn with(mut self, name: &'static str, attribute: Attribute<'c>) -> Self {
        self.attributes.push((name, attribute));
        self
    }
    pub(crate) fn region(mut self, region: Region<'c>) -> Self {
        self.regions.push(region);
        self
    }
}

/// Where ops are appended: the end of one block.
pub(crate) struct Scope<'s, 'c> {
    pub(crate) session: &'s Session<'c>,
    pub(crate) block: BlockRef<'c, 'c>,
    pub(crate) location: Location<'c>,
    /// Of nested bodies.
    pub(crate) depth: usize,
}

impl<'s, 'c> Scope<'s, 'c> {
    /// A region of one block over scalars of `dtypes`.
    pub(crate) fn scalar_region(
        &self,
        dtypes: &[DType],
        build: impl FnOnce(&Scope<'s, 'c>, &[V<'c>]) -> Result<Values<'c>>,
    ) -> Result<Region<'c>> {
        let scalar = |&dtype: &DType| self.session.tensor(&TensorType::new(dtype, []));
        let types: Vec<MlirType<'c>> = dtypes.iter().map(scalar).collect::<Result<_>>()?;
        self.region(&types, build)
    }

    /// A region of one block that takes `arguments` and returns what `build` gives.
    pub(crate) fn region(
        &self,
        arguments: &[MlirType<'c>],
        build: impl FnOnce(&Scope<'s, 'c>, &[V<'c>]) -> Result<Values<'c>>,
    ) -> Result<Region<'c>> {
        let region = Region::new();
        let located: SmallVec<[_; 4]> = arguments.iter().map(|&t| (t, self.location)).collect();
        let block = region.append_block(Block::new(&located));
        let inner = Scope { session: self.session, block, location: self.location, depth: self.depth + 1 };
        let results = build(&inner, &inner.arguments(arguments.len())?)?;
        inner.push(Instruction::new("stablehlo.return").operands(&results), &[])?;
        Ok(region)
    }

    pub(crate) fn arguments(&self, n: usize) -> Result<Values<'c>> {
        (0..n).map(|i| Ok(self.block.argument(i).map_err(internal)?.into())).collect()
    }

    pub(crate) fn constant(&self, literal: &Literal) -> Result<V<'c>> {
        let i = Instruction::new("stablehlo.constant").with("value", self.session.dense(literal)?);
        self.single(i, &literal.ty)
    }

    /// `a c b`, both of type `ty`.
    pub(crate) fn compare(&self, c: Comparison, ty: &TensorType, a: V<'c>, b: V<'c>) -> Result<V<'c>> {
        let s = self.session;
        let i = Instruction::new("stablehlo.compare")
            .operands(&[a, b])
            .with("comparison_direction", s.comparison_direction(c)?)
            .with("compare_type", s.comparison_type(ty.dtype)?);
        self.single(i, &TensorType { dtype: DType::Bool, shape: ty.shape.clone() })
    }

    /// An op without attributes and of one result.
    pub(crate) fn elementwise(&self, name: &'static str, operands: &[V<'c>], ty: &TensorType) -> Result<V<'c>> {
        self.single(Instruction::new(name).operands(operands), ty)
    }

    pub(crate) fn single(&self, i: Instruction<'c>, ty: &TensorType) -> Result<V<'c>> {
        let op = self.push(i, &[self.session.tensor(ty)?])?;
        Ok(op.result(0).map_err(internal)?.into())
    }

    pub(crate) fn results(&self, i: Instruction<'c>, ty: &Type) -> Result<Values<'c>> {
        let types: SmallVec<[_; 4]> = ty.tensors().iter().map(|t| self.session.tensor(t)).collect::<Result<_>>()?;
        let op = self.push(i, &types)?;
        (0..types.len()).map(|k| Ok(op.result(k).map_err(internal)?.into())).collect()
    }

    pub(crate) fn push(&self, i: Instruction<'c>, results: &[MlirType<'c>]) -> Result<OperationRef<'c, 'c>> {
        let attributes: SmallVec<[_; 8]> =
            i.attributes.iter().map(|&(name, a)| (Identifier::new(self.session.context, name), a)).collect();
        let op = OperationBuilder::new(i.name, self.location)
            .add_operands(&i.operands)
            .add_attributes(&attributes)
            .add_regions_vec(i.regions)
            .add_results(results)
            .build()
            .map_err(internal)?;
        Ok(self.block.append_operation(op))
    }
}
