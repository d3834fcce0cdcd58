//! How tests tell whether XLA's CPU compiler has divided a program among threads; `driver`'s take this file by its path.

/// Whether a serialized executable has ops that are for several threads: where XLA notes how many.
pub(crate) fn is_divided(serialized: &[u8]) -> bool {
    let note = b"outer_dimension_partitions";
    serialized.windows(note.len()).any(|bytes| bytes == note)
}

/// Whether there are processors to divide a program among.
pub(crate) fn may_be_divided() -> bool {
    std::thread::available_parallelism().expect("known").get() > 1
}
