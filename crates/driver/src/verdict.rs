//! Whether a program runs on a target, in a sentence, and what would change a refusal.

use crate::ahead::Ahead;
use report::{Memory, Verdict};
use target::Generation;

/// Whether these words of the compiler's say that memory is what lacks.
pub(crate) fn is_out_of_memory(message: &str) -> bool {
    message.contains("Ran out of memory") || message.contains("resource exhausted")
}

/// Whether a program runs, given what the compiler said and who holds the memory.
pub(crate) fn verdict(ahead: &Ahead, memory: Option<&Memory>) -> Verdict {
    let (target, limit) = (&ahead.target, ahead.outcome.machine.hbm_bytes);
    let trains = ahead.training.is_some_and(|training| training.parameters > 0);
    let used = memory.map(|memory| {
        format!("{} of {} HBM", report::bytes((memory.peak + memory.code) as f64), report::bytes(limit as f64))
    });
    match (&ahead.outcome.result, memory) {
        (Ok(_), _) => Verdict {
            runs: true,
            summary: match used {
                Some(used) => format!("runs on {target}, using {used} on a device"),
                None => format!("runs on {target}"),
            },
            advice: vec![],
        },
        (Err(message), memory) if is_out_of_memory(message) => Verdict {
            runs: false,
            summary: match &used {
                Some(used) => format!("does not fit on {target}: it needs {used} on a device"),
                None => format!("does not fit on {target}"),
            },
            advice: memory.map(|memory| ways_to_fit(target.generation, limit, memory, trains)).unwrap_or_default(),
        },
        (Err(_), _) => {
            Verdict { runs: false, summary: format!("libtpu refuses to compile it for {target}"), advice: vec![] }
        }
    }
}

/// What would make a program fit into `limit` bytes of one device, the least change first. Code is there whole on every device
/// and for every batch.
fn ways_to_fit(generation: Generation, limit: u64, memory: &Memory, trains: bool) -> Vec<String> {
    let bytes = |count: u64| report::bytes(count as f64);
    let mut ways = vec![];
    let room = limit.saturating_sub(memory.code);
    let kept = memory.arguments + memory.outputs.saturating_sub(memory.aliased);
    let temporaries = memory.peak.saturating_sub(kept);
    if kept < room && temporaries > 0 {
        let share = (room - kept) as f64 / temporaries as f64;
        ways.push(format!(
            "temporaries hold {}: a batch of {:.0}% of this one would fit, if they grow with it",
            bytes(temporaries),
            share * 100.0
        ));
        if trains {
            ways.push("activations of a training step can be computed again: torch.utils.checkpoint".to_owned());
        }
    }
    let needed = memory.peak + memory.code;
    let donatable = if memory.aliased == 0 { memory.outputs.min(memory.arguments) } else { 0 };
    // What saves less than a twentieth of what lacks is no advice.
    if donatable > 0 && donatable >= needed.saturating_sub(limit) / 20 {
        let what = if trains { "parameters" } else { "inputs" };
        ways.push(format!("nothing is donated: updating {what} in place would save up to {}", bytes(donatable)));
    }
    let roomy = |other: &&Generation| **other != generation && other.chip().device_hbm_bytes() > needed;
    if let Some(other) = Generation::ALL.iter().find(roomy) {
        ways.push(format!("one {other} device has {}: it would fit there", bytes(other.chip().device_hbm_bytes())));
    }
    // What code leaves no room for, no number of devices holds.
    if room > 0 {
        let devices = memory.peak.div_ceil(room).next_power_of_two();
        ways.push(format!(
            "sharded evenly over {devices} devices of {generation}, with nothing kept whole, each would hold {}",
            bytes(memory.peak / devices + memory.code)
        ));
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn ways(peak: u64, code: u64) -> Vec<String> {
        ways_to_fit(Generation::V5e, 16 * GIB, &memory(peak, code), true)
    }

    fn memory(peak: u64, code: u64) -> Memory {
        Memory {
            peak: peak * GIB,
            arguments: 4 * GIB,
            outputs: 4 * GIB,
            aliased: 4 * GIB,
            temporaries: (peak - 4) * GIB,
            code: code * GIB,
            holders: vec![],
            unattributed: 0,
            reserved: 0,
            compiler_peak: 0,
            timeline: vec![],
            peak_step: 0,
            vmem_peak: 0,
        }
    }

    #[test]
    fn donation_is_advised_where_it_matters() {
        let first = |outputs: u64, trains: bool| {
            let memory = Memory { outputs, aliased: 0, ..memory(20, 0) };
            let ways = ways_to_fit(Generation::V5e, 16 * GIB, &memory, trains);
            ways.into_iter().find(|way| way.contains("donated"))
        };
        assert_eq!(first(512, false), None);
        let saved = "nothing is donated: updating inputs in place would save up to 1.00 GiB";
        assert_eq!(first(GIB, false).as_deref(), Some(saved));
        assert!(first(GIB, true).is_some_and(|way| way.contains("parameters")));
    }

    #[test]
    fn code_takes_room_from_everything() {
        let expected = [
            "temporaries hold 28.0 GiB: a batch of 43% of this one would fit, if they grow with it",
            "activations of a training step can be computed again: torch.utils.checkpoint",
            "one v5p device has 95.0 GiB: it would fit there",
            "sharded evenly over 2 devices of v5e, with nothing kept whole, each would hold 16.0 GiB",
        ];
        assert_eq!(ways(32, 0), expected);
        let expected = [
            "temporaries hold 28.0 GiB: a batch of 29% of this one would fit, if they grow with it",
            "activations of a training step can be computed again: torch.utils.checkpoint",
            "one v5p device has 95.0 GiB: it would fit there",
            "sharded evenly over 4 devices of v5e, with nothing kept whole, each would hold 12.0 GiB",
        ];
        assert_eq!(ways(32, 4), expected);
        assert_eq!(ways(91, 0)[2], "one v5p device has 95.0 GiB: it would fit there");
        assert_eq!(ways(91, 4)[2], "one tpu7x device has 96.0 GiB: it would fit there");
        assert_eq!(ways(32, 16), ["one v5p device has 95.0 GiB: it would fit there"]);
    }
}
