//! The generator's state as a tensor, for random numbers that a backward pass draws once more.

use super::call::results;
use super::{Binding, Importer, Scope};
use crate::dtype::DType;
use crate::error::Result;
use crate::trace::schema::Node;
use crate::{ensure, invalid};

/// What the Python package puts around a draw.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    /// Gives the state that the next draw starts from.
    State,
    /// Lets the next draw start from a state.
    Resume,
}

impl Draw {
    pub(super) fn of(node: &Node) -> Option<Draw> {
        match node.target.as_str() {
            "torchtpu._random.state" => Some(Draw::State),
            "torchtpu._random.resume" => Some(Draw::Resume),
            _ => None,
        }
    }
}

impl<'t> Importer<'t> {
    pub(super) fn draw(&self, scope: &mut Scope<'t>, node: &'t Node, draw: Draw) -> Result<()> {
        match draw {
            Draw::State => {
                let [Some(name)] = results(node)?[..] else { invalid!("gives one tensor") };
                let tensor = self.fresh(scope, name, self.b.random_state())?;
                scope.names.insert(name, Binding::Tensor(tensor));
            }
            Draw::Resume => {
                let mut given = vec![];
                node.inputs.iter().try_for_each(|i| self.bindings(scope, &i.arg, &mut given))?;
                let [Binding::Tensor(saved)] = given[..] else { invalid!("takes one tensor") };
                let saved = self.aliases.read(&self.b, saved)?;
                let fits = self.b.dtype(saved) == DType::U64 && self.b.shape(saved)[..] == [2];
                ensure!(fits, "takes a state of a generator, u64[2]");
                self.b.set_random_state(saved);
            }
        }
        Ok(())
    }
}
