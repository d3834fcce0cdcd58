//! What programs on the CPU ask of the process they run in: `ir` says which ops can be asked, `lower` writes them into the
//! program, and `runtime`, which the program calls, reads them again. Nothing is computed here.

mod convolution;
mod finish;
mod function;
mod grouped;
mod lapack;
mod product;
mod rows;
mod scan;
mod scatter;
mod share;
mod sort;

pub use convolution::{Axis, Columns, Computes, Convolution, Task};
pub use finish::Finish;
pub use function::Function;
pub use grouped::{Extents, Grouped, OfGroup};
pub use lapack::Lapack;
pub use product::{Batch, Product, Strides, Tile};
pub use rows::{OfOne, OfTwo, Operand, Rows, Step};
pub use scan::{Combines, Scan};
pub use scatter::{Lengths, Places, Scatter};
pub use sort::{Order, Sort};

/// What programs call for a tensor as it is, in memory: the result is the first operand's. Loops before and after the call are not
/// fused, and the other operands, which nobody reads, are there before the result is.
pub const BARRIER: &str = "torchtpu.barrier";

/// The attribute of a call that holds its numbers, as [`Finish::encode`] has them.
pub const ATTRIBUTE: &str = "numbers";
