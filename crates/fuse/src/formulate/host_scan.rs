//! Scans, such as running sums, left to the host, which passes over the elements once.
//!
//! Milliseconds of 64x4096 `f32` on 2 cores of a Zen 4, the whole program: XLA in turn with eager PyTorch, the host and eager PyTorch alone:
//!
//! |                          | XLA  | host | eager |
//! |--------------------------|-----:|-----:|------:|
//! | `cumsum`, last dimension | 1.56 | 0.19 | 0.11  |
//! | first dimension          | 1.76 | 0.14 | 0.55  |
//! | of all in one row        | 2.21 | 0.29 | 0.21  |
//! | with its gradient        | 3.76 | 0.96 | 0.49  |
//! | `cumprod`                | 1.41 | 0.26 | 0.33  |
//! | `cummax`                 | 8.05 | 0.90 | 0.42  |

use super::rebuild::Rebuild;
use super::{Rewrite, Rule, Windowing};
use crate::Class;
use ir::op::Scan;
use ir::{Op, Result, ValueId};

pub(super) const RULE: Rule = Rule {
    name: "scan-by-the-host",
    class: Class::Exact,
    alone: true,
    why: "XLA's CPU combines elements in many passes, and rounds after each of them",
    rewrite: Rewrite::Windows(by_the_host),
};

/// Elements from which it is worth a call.
const FEWEST: usize = 1 << 10;
/// The longest windows that are better as slices, which loops before and after are fused with.
const SHORT: usize = 8;

fn by_the_host(to: &mut Rebuild, site: &Windowing<'_>) -> Result<Option<ValueId>> {
    let ty = to.ty(site.input)?.clone();
    let scan = Scan::of(site.reducer, site.window, &ty.shape)
        .filter(|s| s.hosted(&ty).is_some() && ty.shape[s.dim] > SHORT && ty.numel() >= FEWEST);
    scan.map(|scan| to.push(Op::HostScan(scan), &[site.input])).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Platform;
    use crate::formulate::testing::{Random, assert_same_bits, formulated_for};
    use ir::op::{Reducer, Window};
    use ir::{Builder, DType, Graph, InputKind, OutputKind, TensorType};

    fn graph(dtype: DType, shape: &[usize], reducer: Reducer, window: Window) -> Graph {
        let b = Builder::new("scan");
        let x = b.input("x", InputKind::User, TensorType::new(dtype, shape.to_vec()));
        b.output("y", OutputKind::User, b.push(Op::ReduceWindow { reducer, window }, &[x], vec![]).unwrap());
        b.finish()
    }

    /// How many scans of `graph` are the host's. It means the same then.
    fn scans(platform: Platform, graph: &Graph) -> usize {
        let (after, changes) = formulated_for(platform, graph, Class::Exact, None);
        assert_same_bits(graph, &after, &Random(3).inputs(graph, true));
        let made = after.nodes().iter().filter(|n| matches!(n.op, Op::HostScan(_))).count();
        assert_eq!(changes.iter().filter(|change| change.rule == RULE.name).count(), made);
        made
    }

    #[test]
    fn scans_are_the_hosts_and_mean_the_same() {
        for reducer in [Reducer::Add, Reducer::Multiply, Reducer::Maximum, Reducer::Minimum] {
            for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
                for (dim, backwards) in [(0, false), (1, true), (2, false), (2, true)] {
                    let shape = [9, 12, 16];
                    let graph = graph(dtype, &shape, reducer, Scan { reducer, dim, backwards }.window(&shape));
                    assert_eq!(scans(Platform::CpuWithBlas, &graph), 1, "{reducer:?} of {dtype:?} along {dim}");
                    assert_eq!(scans(Platform::Cpu, &graph), 0, "there is nobody to ask");
                }
            }
        }
    }

    #[test]
    fn other_windows_stay() {
        let of = |dtype, shape: &[usize], reducer, change: fn(&mut Window)| {
            let mut window = Scan { reducer, dim: 1, backwards: false }.window(shape);
            change(&mut window);
            scans(Platform::CpuWithBlas, &graph(dtype, shape, reducer, window))
        };
        let (long, same) = ([64, 32], |_: &mut Window| {});
        assert_eq!(of(DType::F32, &long, Reducer::Add, same), 1);
        assert_eq!(of(DType::F32, &[20, 32], Reducer::Add, same), 0, "few");
        assert_eq!(of(DType::F32, &[300, 8], Reducer::Add, same), 0, "short");
        assert_eq!(of(DType::BF16, &long, Reducer::Maximum, same), 0, "the host has no such type");
        assert_eq!(of(DType::I32, &long, Reducer::Xor, same), 0, "nor such a reducer");
        assert_eq!(of(DType::F32, &long, Reducer::Add, |w| w.size[1] = 31), 0, "not all before it");
        assert_eq!(of(DType::F32, &long, Reducer::Add, |w| w.padding[1] = (30, 1)), 0, "one behind it");
        assert_eq!(of(DType::F32, &long, Reducer::Add, |w| w.strides[1] = 2), 0, "every other");
        assert_eq!(of(DType::F32, &long, Reducer::Add, |w| w.size[0] = 2), 0, "rows, too");
    }
}
