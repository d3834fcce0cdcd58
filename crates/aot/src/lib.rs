//! Compiling for TPUs that are not there.
