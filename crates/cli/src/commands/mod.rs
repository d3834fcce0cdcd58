//! One module a verb.

pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod lower;
pub(crate) mod ops;
pub(crate) mod run;
