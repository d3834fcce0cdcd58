//! `tputc worker`: the process that loads libtpu for another `tputc`.

use crate::output::{Failure, Outcome};
use std::path::Path;

pub(crate) fn run(libtpu: &Path, folder: &Path) -> Outcome {
    aot::serve(libtpu, folder).map_err(Failure::output)
}
