//! Prints docs/rewrite-rules.md.

fn main() {
    print!("{}", torchtpu_fuse::rules::page());
}
