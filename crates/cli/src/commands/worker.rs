//! `tputc worker`: the process that loads libtpu for another `tputc`.

use crate::output::{Failure, Outcome};
use std::path::Path;

pub(crate) fn run(libtpu: &Path) -> Outcome {
    aot::serve(libtpu).map_err(Failure::output)
}
