//! From a node's metadata to the user's line.

use super::schema::Node;
use crate::loc::Loc;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Locations of a trace's nodes. Many nodes share a stack, so stacks are read once.
#[derive(Default)]
pub struct Locator<'t> {
    frames: FxHashMap<&'t str, Frame>,
    modules: FxHashMap<&'t str, Arc<str>>,
    ops: FxHashMap<&'t str, Arc<str>>,
}

#[derive(Clone, Default)]
struct Frame {
    file: Arc<str>,
    line: u32,
    function: Arc<str>,
}

impl<'t> Locator<'t> {
    /// Where `node` came from: the innermost frame of its stack that is not PyTorch's own, and the path of its module.
    pub fn loc(&mut self, node: &'t Node) -> Loc {
        let stack = node.metadata.stack_trace.as_deref().unwrap_or_default();
        let frame = self.frames.entry(stack).or_insert_with(|| user_frame(stack)).clone();
        let stack = node.metadata.nn_module_stack.as_deref().unwrap_or_default();
        let module = self.modules.entry(stack).or_insert_with(|| module_name(module_path(stack)).into()).clone();
        let op = self.ops.entry(node.op()).or_insert_with(|| node.op().into()).clone();
        Loc { file: frame.file, line: frame.line, function: frame.function, module, op }
    }
}

/// The last frame of the user's, from `File "PATH", line N, in FUNC` lines with the outermost first.
fn user_frame(stack: &str) -> Frame {
    let frames = stack.lines().filter_map(frame);
    let user = frames.rev().find(|(file, ..)| !is_internal(file));
    let frame =
        |(file, line, function): (&str, u32, &str)| Frame { file: file.into(), line, function: function.into() };
    user.map(frame).unwrap_or_default()
}

fn frame(line: &str) -> Option<(&str, u32, &str)> {
    let rest = line.trim_start().strip_prefix("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let (number, function) = rest.split_once(", in ").unwrap_or((rest, ""));
    Some((file, number.trim().parse().ok()?, function.trim()))
}

fn is_internal(file: &str) -> bool {
    let torch = ["-packages/torch/", "-packages/torchtpu/"].iter().any(|part| file.contains(part));
    torch || file.starts_with("torch/") || file.starts_with('<')
}

/// The path of the innermost module of `KEY,PATH,TYPE;KEY,PATH,TYPE`.
fn module_path(stack: &str) -> &str {
    let innermost = stack.rsplit(';').next().unwrap_or_default();
    let path = innermost.rsplit_once(',').and_then(|(rest, _)| rest.split_once(',')).map(|(_, path)| path);
    path.unwrap_or_default()
}

/// What Dynamo calls the module that is compiled: as a method's `self`, as a function `fn`, and as a submodule.
const OUTERMOST: [&str; 3] = ["L['self']", "L['fn']", "L__self__"];

/// The path as `named_modules` gives it: `layers.0.mlp` for Dynamo's `L['self'].layers[0]._modules['mlp']`. A module that
/// is a local or global variable keeps its name: `model.layers.0` for `G['model'].layers[0]`.
fn module_name(path: &str) -> String {
    let path = OUTERMOST.iter().find_map(|prefix| path.strip_prefix(prefix)).unwrap_or(path);
    let path = path.strip_prefix(['L', 'G']).filter(|rest| rest.starts_with('[')).unwrap_or(path);
    let mut name = String::new();
    for part in path.split(['.', '[']) {
        let part = part.trim_end_matches(']').trim_matches(['\'', '"']);
        if part.is_empty() || part == "_modules" {
            continue;
        }
        name.push_str(if name.is_empty() { "" } else { "." });
        name.push_str(part);
    }
    name
}
