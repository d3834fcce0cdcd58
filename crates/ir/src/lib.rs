//! The typed graph every TorchTPU program becomes.
//!
//! A program arrives as a [trace] of aten ops in PyTorch's own export schema. Aten is an open set and lives in a
//! table, [`ops`]: each entry holds an op's schema, its expansion and samples of its use. Importing a trace runs each
//! op's expansion, which appends *core ops* to a [`Graph`].
//!
//! Core ops are a closed set, [`Op`]: functional, static in shape, explicit in type and broadcast. A graph is an arena
//! of nodes; a node is its value, [`ValueId`]; operands stand before their users. [`Builder`] infers every node's type
//! ([`infer()`]), shares equal nodes and records where each came from ([`Loc`]). [`verify`] checks a graph from
//! anywhere else, [`text`] prints and parses it, [`eval`] says what it means.
//!
//! Views, in-place ops and `out=` are resolved on the way in by one [alias model](alias); symbolic sizes become numbers
//! on the way in too ([docs/decisions]): a graph is always concrete.
//!
//! This crate links neither MLIR nor PJRT nor Python.

pub mod alias;
pub mod builder;
pub mod diag;
pub mod dtype;
pub mod eager;
pub mod error;
pub mod eval;
pub mod float8;
pub mod fold;
pub mod graph;
pub mod import;
pub mod infer;
pub mod literal;
pub mod loc;
pub mod op;
pub mod ops;
pub mod overwrite;
pub mod parts;
pub mod reshape;
mod routine;
pub mod rows;
mod scatters;
pub mod sharding;
mod strided;
pub mod symbol;
pub mod text;
pub mod trace;
pub mod types;
pub mod verify;
mod windows;

pub use builder::Builder;
pub use dtype::{Category, DType};
pub use error::{Error, ErrorKind, Result};
pub use eval::{eval, eval_within};
pub use fold::fold;
pub use graph::{Graph, Input, InputKind, Node, Operands, Output, OutputKind, ValueId};
pub use infer::infer;
pub use literal::{Literal, Number};
pub use loc::{Loc, LocId, LocTable};
pub use op::{Binary, Combiner, Comparison, FftKind, Op, Precision, Reducer, Unary};
pub use routine::Routine;
pub use types::{Dims, Shape, TensorType, Type};
pub use verify::verify;
