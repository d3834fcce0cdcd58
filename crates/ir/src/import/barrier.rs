//! Values that a backward pass starts from to compute once more what the forward pass did not keep.

use super::call::results;
use super::{Binding, Importer, Scope};
use crate::error::Result;
use crate::invalid;
use crate::trace::schema::Node;

/// What the Python package puts before what is computed again: gives its first tensor when it has its second.
pub(super) const BARRIER: &str = "torchtpu._recompute.barrier";

impl<'t> Importer<'t> {
    pub(super) fn barrier(&self, scope: &mut Scope<'t>, node: &'t Node) -> Result<()> {
        let [Some(name)] = results(node)?[..] else { invalid!("gives one tensor") };
        let mut given = vec![];
        node.inputs.iter().try_for_each(|i| self.bindings(scope, &i.arg, &mut given))?;
        let [Binding::Tensor(value), Binding::Tensor(after)] = given[..] else { invalid!("takes two tensors") };
        let (value, after) = (self.aliases.read(&self.b, value)?, self.aliases.read(&self.b, after)?);
        let tensor = self.fresh(scope, name, self.b.behind_barrier(value, after)?)?;
        scope.names.insert(name, Binding::Tensor(tensor));
        Ok(())
    }
}
