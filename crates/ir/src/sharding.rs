//! How a program's arguments and results are spread over a mesh of devices.
//!
//! A [`Mesh`] arranges devices along named axes; device `i` stands at the `i`-th position in row-major order. A
//! [`Sharding`] says for each dimension of a tensor which axes split it: along these, every device holds its own part;
//! along the others, devices hold the same. A [`Partition`] is the mesh with a sharding for each input and output of a
//! graph, checked against it. [`Rules`] make one from names.
//!
//! Only arguments and results are given: what happens in between is the partitioner's to find out. The terms are
//! Shardy's (<https://openxla.org/shardy>).

mod names;
mod rules;

pub use names::{matches, nearest};
pub use rules::{Results, Rule, Rules, Spec};

use crate::error::{Error, Result};
use crate::graph::{Graph, OutputKind};
use crate::types::{Shape, TensorType};
use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// Devices arranged along named axes, the last one running fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    axes: Vec<(String, usize)>,
    devices: usize,
}

/// Axes that split one dimension, the coarsest first; by their positions in the mesh.
pub type Axes = SmallVec<[usize; 2]>;

/// For each dimension of a tensor the axes that split it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharding {
    dims: SmallVec<[Axes; 4]>,
}

/// Where all arguments and results of a graph live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    mesh: Mesh,
    inputs: Vec<Sharding>,
    outputs: Vec<Option<Sharding>>,
}

impl Mesh {
    /// The mesh with these axes and their sizes.
    ///
    /// # Errors
    /// `Invalid`: no axes, a name that is no identifier or stands twice, a size of 0, or more than 2^31 devices.
    pub fn new(axes: impl IntoIterator<Item = (String, usize)>) -> Result<Mesh> {
        let axes: Vec<(String, usize)> = axes.into_iter().collect();
        if axes.is_empty() {
            return Err(Error::invalid("the mesh has no axes").with_help("give it some, as in data=4,model=2"));
        }
        for (i, (name, size)) in axes.iter().enumerate() {
            if !is_identifier(name) {
                return Err(Error::invalid(format!("`{name}` cannot name a mesh axis"))
                    .with_help("use letters, digits and underscores, as in data=4,model=2"));
            }
            if axes[..i].iter().any(|(earlier, _)| earlier == name) {
                return Err(Error::invalid(format!("the mesh has two axes `{name}`")));
            }
            if *size == 0 {
                return Err(Error::invalid(format!("mesh axis `{name}` has size 0: the mesh holds no device")));
            }
        }
        let devices = axes.iter().try_fold(1usize, |n, &(_, size)| n.checked_mul(size));
        match devices.filter(|&n| i32::try_from(n).is_ok()) {
            Some(devices) => Ok(Mesh { axes, devices }),
            None => Err(Error::invalid("the mesh holds more devices than a program can be partitioned for")),
        }
    }

    /// Names and sizes of the axes.
    pub fn axes(&self) -> &[(String, usize)] {
        &self.axes
    }

    /// How many devices it holds: the program's number of partitions.
    pub fn num_devices(&self) -> usize {
        self.devices
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|(axis, _)| axis == name)
    }

    /// Where `device` stands along each axis.
    fn coordinates(&self, device: usize) -> SmallVec<[usize; 4]> {
        let mut rest = device;
        let mut coordinates: SmallVec<[usize; 4]> = self.axes.iter().map(|_| 0).collect();
        for (i, (_, size)) in self.axes.iter().enumerate().rev() {
            coordinates[i] = rest % size;
            rest /= size;
        }
        coordinates
    }
}

impl Sharding {
    /// The same on every device, for a tensor of `rank` dimensions.
    pub fn replicated(rank: usize) -> Sharding {
        Sharding { dims: (0..rank).map(|_| Axes::new()).collect() }
    }

    /// The sharding with these axes for each dimension.
    ///
    /// # Errors
    /// `Invalid`, if one of them is used twice or not of `mesh`.
    pub fn new(mesh: &Mesh, dims: impl IntoIterator<Item = Axes>) -> Result<Sharding> {
        let dims: SmallVec<[Axes; 4]> = dims.into_iter().collect();
        let mut used = vec![false; mesh.axes.len()];
        for &axis in dims.iter().flatten() {
            match used.get_mut(axis) {
                Some(true) => {
                    let name = &mesh.axes[axis].0;
                    return Err(Error::invalid(format!("axis `{name}` is used twice in one sharding"))
                        .with_help("a mesh axis can split one dimension of a tensor only, and once"));
                }
                Some(used) => *used = true,
                None => return Err(Error::invalid(format!("the mesh has no axis {axis}"))),
            }
        }
        Ok(Sharding { dims })
    }

    /// For each dimension the axes that split it, the coarsest first.
    pub fn dims(&self) -> &[Axes] {
        &self.dims
    }

    /// The sharding of the tensor whose dimension `i` is this one's dimension `order[i]`.
    pub fn permuted(&self, order: &[usize]) -> Sharding {
        Sharding { dims: order.iter().map(|&d| self.dims.get(d).cloned().unwrap_or_default()).collect() }
    }

    /// Into how many parts each dimension is split.
    fn parts<'a>(&'a self, mesh: &'a Mesh) -> impl Iterator<Item = usize> + 'a {
        self.dims.iter().map(|axes| axes.iter().map(|&axis| mesh.axes[axis].1).product())
    }

    /// The extents of one device's part of a tensor of `shape`.
    pub fn shard_shape(&self, mesh: &Mesh, shape: &[usize]) -> Shape {
        shape.iter().zip(self.parts(mesh)).map(|(&extent, parts)| extent / parts).collect()
    }

    /// Where the part that `device` holds of a tensor of `shape` begins, in elements along each dimension.
    pub fn shard_start(&self, mesh: &Mesh, shape: &[usize], device: usize) -> Shape {
        let coordinates = mesh.coordinates(device);
        let index = |axes: &Axes| axes.iter().fold(0, |index, &axis| index * mesh.axes[axis].1 + coordinates[axis]);
        let extents = self.shard_shape(mesh, shape);
        self.dims.iter().zip(extents).map(|(axes, extent)| index(axes) * extent).collect()
    }

    /// Refuses a sharding that does not fit `what`, which is a `ty`.
    fn check(&self, mesh: &Mesh, what: &str, ty: &TensorType) -> Result<()> {
        if self.dims.len() != ty.rank() {
            let (found, rank) = (self.dims.len(), ty.rank());
            let message = format!("{what} is {ty} of {rank} dimensions; its sharding has {found}: {}", self.on(mesh));
            return Err(Error::invalid(message));
        }
        for (d, (&extent, parts)) in ty.shape.iter().zip(self.parts(mesh)).enumerate() {
            if !extent.is_multiple_of(parts) {
                return Err(indivisible(mesh, what, ty, d, &self.dims[d]));
            }
        }
        Ok(())
    }

    /// As it is written: `("data", None)`.
    pub fn on<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        Written { sharding: self, mesh }
    }
}

/// Says which extents would do: dimension `d` of `what` cannot be split by `axes`.
fn indivisible(mesh: &Mesh, what: &str, ty: &TensorType, d: usize, axes: &Axes) -> Error {
    let sizes: Vec<String> = axes.iter().map(|&a| format!("`{}`={}", mesh.axes[a].0, mesh.axes[a].1)).collect();
    let parts: usize = axes.iter().map(|&a| mesh.axes[a].1).product();
    let extent = ty.shape[d];
    let divides = |n: &usize| extent.is_multiple_of(*n);
    let mut fitting: Vec<String> = (2..=parts).rev().filter(divides).take(4).map(|n| n.to_string()).collect();
    fitting.reverse();
    let help = match &fitting[..] {
        [] => format!("nothing up to {parts} divides {extent}: leave the dimension whole, or pad it"),
        all => format!("{extent} can be split into {} parts; or leave the dimension whole", all.join(", ")),
    };
    let message =
        format!("dimension {d} of {what}, a {ty}, has {extent} elements, which {} do not divide", sizes.join(" x "));
    Error::invalid(message).with_help(help)
}

struct Written<'a> {
    sharding: &'a Sharding,
    mesh: &'a Mesh,
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |&axis: &usize| format!("\"{}\"", self.mesh.axes[axis].0);
        let dim = |axes: &Axes| match &axes[..] {
            [] => "None".to_owned(),
            [axis] => quoted(axis),
            many => format!("({})", many.iter().map(quoted).collect::<Vec<_>>().join(", ")),
        };
        let dims: Vec<String> = self.sharding.dims.iter().map(dim).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        write!(f, "({}{comma})", dims.join(", "))
    }
}

impl Partition {
    /// The partition of `graph` over `mesh` with one sharding per input, and one per output or `None` where the
    /// partitioner may choose. The next value of an input is sharded as the input is, whatever `outputs` says.
    ///
    /// # Errors
    /// `Invalid`, naming the input or output, if its sharding does not fit its type. `Internal`, if their numbers are
    /// not those of the graph.
    pub fn new(graph: &Graph, mesh: Mesh, inputs: Vec<Sharding>, outputs: Vec<Option<Sharding>>) -> Result<Partition> {
        let mut partition = Partition { mesh, inputs, outputs };
        if partition.inputs.len() != graph.inputs.len() || partition.outputs.len() != graph.outputs.len() {
            return Err(Error::internal("a partition has not as many shardings as the graph has inputs and outputs"));
        }
        for (output, sharding) in graph.outputs.iter().zip(&mut partition.outputs) {
            if let OutputKind::Mutation(input) = output.kind {
                *sharding = partition.inputs.get(input).cloned();
            }
        }
        partition.check(graph)?;
        Ok(partition)
    }

    /// Refuses a graph that it is not for.
    ///
    /// # Errors
    /// As [`Partition::new`].
    pub fn check(&self, graph: &Graph) -> Result<()> {
        if self.inputs.len() != graph.inputs.len() || self.outputs.len() != graph.outputs.len() {
            return Err(Error::internal("the partition is for a graph with other inputs or outputs"));
        }
        for (input, sharding) in graph.inputs.iter().zip(&self.inputs) {
            let ty = tensor(graph, input.value)?;
            sharding.check(&self.mesh, &format!("input `{}`", input.name), ty)?;
        }
        for (i, (output, sharding)) in graph.outputs.iter().zip(&self.outputs).enumerate() {
            let Some(sharding) = sharding else { continue };
            sharding.check(&self.mesh, &format!("result {i} (`{}`)", output.name), tensor(graph, output.value)?)?;
        }
        Ok(())
    }

    /// The devices.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// The inputs' shardings, in order.
    pub fn inputs(&self) -> &[Sharding] {
        &self.inputs
    }

    /// The outputs' shardings, in order; `None` where the partitioner chooses.
    pub fn outputs(&self) -> &[Option<Sharding>] {
        &self.outputs
    }

    /// The same, with outputs that nothing was said about whole on every device.
    #[must_use]
    pub fn with_whole_results(mut self, graph: &Graph) -> Partition {
        for (output, sharding) in graph.outputs.iter().zip(&mut self.outputs) {
            let rank = graph.tensor_type(output.value).map_or(0, TensorType::rank);
            sharding.get_or_insert_with(|| Sharding::replicated(rank));
        }
        self
    }
}

fn tensor(graph: &Graph, value: crate::ValueId) -> Result<&TensorType> {
    graph.tensor_type(value).ok_or_else(|| Error::internal("a tuple is no argument or result"))
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes: Vec<String> = self.axes.iter().map(|(name, size)| format!("{name}={size}")).collect();
        f.write_str(&axes.join(","))
    }
}

/// Reads `data=4,model=2`.
impl FromStr for Mesh {
    type Err = Error;

    fn from_str(text: &str) -> Result<Mesh> {
        let axis = |part: &str| {
            let (name, size) = part.split_once('=')?;
            Some((name.trim().to_owned(), size.trim().parse().ok()?))
        };
        let axes = text.split(',').map(|part| {
            axis(part).ok_or_else(|| {
                Error::invalid(format!("`{part}` is no mesh axis")).with_help("write a mesh as data=4,model=2")
            })
        });
        Mesh::new(axes.collect::<Result<Vec<_>>>()?)
    }
}

#[cfg(test)]
mod tests;
