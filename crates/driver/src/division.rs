//! Which programs XLA's CPU compiler is to divide among threads.

use fuse::Platform;
use ir::Graph;

/// Picoseconds that a program takes at least to be worth it: to wake a second thread takes 50 to 100 us where it sleeps.
const LEAST: u64 = 100_000_000;

/// Whether a program for `platform` ends before another thread is awake: one thread runs it, then. By the clock of the
/// optimizer; what a loop repeats counts once, for the threads are woken in every turn.
pub(crate) fn is_short(graph: &Graph, platform: Platform) -> bool {
    let mut bodies = graph.nodes().iter().flat_map(|node| &node.bodies);
    platform != Platform::Tpu && fuse::cost(graph, platform) < LEAST && bodies.all(|body| is_short(body, platform))
}

#[cfg(test)]
mod tests {
    use super::is_short;
    use fuse::Platform;
    use ir::Graph;

    /// Adds `n` floats to themselves, `n` others in each turn of a loop.
    fn sum(n: usize, in_loop: usize) -> Graph {
        let text = format!(
            "graph @sum {{
               %0: f32[{n}] = input 0 \"x\" user
               %1: f32[{in_loop}] = input 1 \"y\" user
               %2: f32[{n}] = add %0, %0
               %3: (f32[{in_loop}]) = while %1 {{
                 graph @cond {{
                   %0: f32[{in_loop}] = input 0 \"i\" user
                   %1: bool[] = constant true
                   return %1 \"go\"
                 }}
                 graph @body {{
                   %0: f32[{in_loop}] = input 0 \"i\" user
                   %1: f32[{in_loop}] = add %0, %0
                   return %1 \"next\"
                 }}
               }}
               %4: f32[{in_loop}] = get_tuple_element(index:0) %3
               return %2 \"a\", %4 \"b\"
             }}"
        );
        ir::text::parse(&text).expect("parses")
    }

    #[test]
    fn what_takes_longer_than_a_thread_takes_to_wake_is_not_short() {
        assert!(is_short(&sum(100_000, 100_000), Platform::Cpu));
        assert!(!is_short(&sum(1_000_000, 100_000), Platform::Cpu));
        assert!(!is_short(&sum(100_000, 1_000_000), Platform::Cpu), "a turn is long");
        assert!(!is_short(&sum(100, 100), Platform::Tpu));
    }
}
