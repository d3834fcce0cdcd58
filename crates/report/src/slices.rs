//! Several slices that train one model together, on paper.
//!
//! Slices have no links between them but the data-center network that their hosts are on. The one way of spreading a program
//! over them that asks little of it is data parallelism: each slice runs the whole program on a batch of its own, and the
//! gradients are summed over the slices before the parameters are updated. Nobody compiles that here: what it costs
//! follows from one slice's report, from how much gradient there is, and from what [`assumptions`] says.

use target::{Chip, Target};

use crate::{Pace, Report, Slices};

/// What a program trains, on one slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Training {
    /// Parameters that it updates.
    pub parameters: usize,
    /// Bytes of their gradients, each counted once.
    pub gradient_bytes: u64,
    /// Bytes of gradients that one device holds.
    pub device_gradient_bytes: u64,
    /// Items of its batch, if its inputs agree on that.
    pub batch: Option<u64>,
}

impl Slices {
    /// `count` slices like the one that `report` is about, a `target`; `None` if the program does not run there.
    pub fn plan(count: u32, report: &Report, target: &Target, training: &Training) -> Option<Slices> {
        let (cost, memory) = (report.cost.as_ref()?, report.memory.as_ref()?);
        let sent = Sent::of(count, report.target.devices_used, target, training);
        let exposed = cost.seconds + sent.seconds;
        let overlapped = cost.seconds.max(sent.seconds);
        let pace =
            |seconds: f64| Pace { seconds, efficiency: if seconds > 0.0 { cost.seconds / seconds } else { 1.0 } };
        let extra = if count > 1 { training.device_gradient_bytes } else { 0 };
        let needed = memory.peak.saturating_add(memory.code).saturating_add(extra);
        let chips = u64::from(target.num_chips());
        Some(Slices {
            count,
            chips: chips * u64::from(count),
            hosts: chips.div_ceil(u64::from(target.chip().host.chips)) * u64::from(count),
            slice_batch: training.batch,
            batch: training.batch.map(|batch| batch.saturating_mul(u64::from(count))),
            gradient_bytes: training.device_gradient_bytes,
            device_bytes: sent.by_device,
            host_bytes: sent.by_host,
            host_bandwidth: sent.bandwidth,
            exchange_seconds: sent.seconds,
            slice_seconds: cost.seconds,
            exposed: pace(exposed),
            overlapped: pace(overlapped),
            extra_hbm_bytes: extra,
            fits: needed <= report.target.hbm_bytes,
            assumptions: assumptions(report.target.devices_used, target, training),
        })
    }
}

/// What goes over the network in a step.
struct Sent {
    by_device: f64,
    by_host: f64,
    bandwidth: f64,
    seconds: f64,
}

impl Sent {
    fn of(count: u32, devices: usize, target: &Target, training: &Training) -> Sent {
        let chip = target.chip();
        let devices = devices.max(1) as f64;
        // A reduce-scatter and an all-gather, each of which leaves every slice's own part where it is.
        let share = 2.0 * f64::from(count.saturating_sub(1)) / f64::from(count.max(1));
        let by_device = share * training.gradient_bytes as f64 / devices;
        // Of a host that is not all the slice's, the network is not either.
        let chips = chip.host.chips.min(target.num_chips());
        let by_host = by_device * devices.min(f64::from(chips * chip.devices));
        let bandwidth = chip.host.bandwidth * f64::from(chips) / f64::from(chip.host.chips);
        Sent { by_device, by_host, bandwidth, seconds: by_host / bandwidth }
    }
}

/// What a plan takes for granted.
fn assumptions(devices: usize, target: &Target, training: &Training) -> Vec<String> {
    let mut said = vec![
        "Nothing here was compiled for several slices or measured: it is computed from the report on one, whose own time is \
         a roofline."
            .to_owned(),
    ];
    if training.parameters == 0 {
        said.push(
            "The program updates no parameter in place, so it has nothing to exchange, and slices run side by side. To plan \
             training, check a whole step with its optimizer (torchtpu.capture_step)."
                .to_owned(),
        );
        return said;
    }
    said.push(format!(
        "Every slice runs the whole program, with all {} parameters that it updates, on a batch of its own{}.",
        training.parameters,
        if training.batch.is_some() { ", which is the first dimension of its inputs" } else { "" },
    ));
    said.push(
        "A gradient has the shape, the type and the sharding of its parameter, and is summed over all slices once a step by \
         a reduce-scatter and an all-gather, each of which sends (N-1)/N of it."
            .to_owned(),
    );
    if training.device_gradient_bytes as f64 > training.gradient_bytes as f64 / devices.max(1) as f64 {
        said.push(
            "Gradients that several devices of a slice hold alike are divided among them first, so that each part leaves \
             the slice once."
                .to_owned(),
        );
    }
    said.push(network(target.chip(), target));
    said.push(
        "All hosts send at that rate at the same time; latency, contention and slices that lag behind are not counted."
            .to_owned(),
    );
    said.push(
        "Fully overlapped, the exchange runs beside any part of the step; only the backward pass after the first \
         gradients can hide it, so a real step lies between the two."
            .to_owned(),
    );
    said.push(
        "Until it is summed, every gradient may have to be kept, which is the extra HBM; sums are received in their place."
            .to_owned(),
    );
    said.push("Nothing else is exchanged: buffers and the loss stay each slice's own.".to_owned());
    said
}

fn network(chip: &Chip, target: &Target) -> String {
    let host = &chip.host;
    let source = match host.source {
        Some(source) => format!("says {source}"),
        None => "which is assumed: its network is not published".to_owned(),
    };
    format!(
        "A host of {} has {} chips and sends {:.1} GB/s over the data-center network, {source}.",
        target.generation,
        host.chips,
        host.bandwidth / 1e9
    )
}

#[cfg(test)]
mod tests;
