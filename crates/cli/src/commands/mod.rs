//! One module a verb.

pub(crate) mod check;
pub(crate) mod compile;
pub(crate) mod doctor;
pub(crate) mod fuse;
pub(crate) mod generate;
pub(crate) mod lower;
pub(crate) mod ops;
pub(crate) mod run;
pub(crate) mod worker;
