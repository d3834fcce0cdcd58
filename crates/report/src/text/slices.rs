//! The plan of several slices, with all that it assumes.

use super::units::{bytes, rate, seconds, share};
use super::{Page, count_of};
use crate::{Pace, Slices};

pub(super) fn slices(plan: &Slices, target: &str, page: &mut Page) {
    let (chips, hosts) = (count_of(plan.chips, "chip"), count_of(plan.hosts, "host"));
    page.title("Slices", &format!("{} of {target} on paper: {chips}, {hosts}", plan.count));
    if let (Some(batch), Some(of_slice)) = (plan.batch, plan.slice_batch) {
        page.line(&format!("  a batch of {batch}: {of_slice} on each slice"));
    }
    page.line(&format!(
        "  a device holds {} of gradients and sends {} a step, its host {} at {}",
        bytes(plan.gradient_bytes as f64),
        bytes(plan.device_bytes),
        bytes(plan.host_bytes),
        rate(plan.host_bandwidth, "B/s"),
    ));
    page.line(&format!(
        "  a step of one slice {}, the exchange {}",
        seconds(plan.slice_seconds),
        seconds(plan.exchange_seconds)
    ));
    let room = if plan.fits { "there is room" } else { "there is no room" };
    page.line(&match plan.extra_hbm_bytes {
        0 => "  no more HBM than on one slice".to_owned(),
        extra => format!("  at most {} more HBM on a device, for which {room}", bytes(extra as f64)),
    });
    page.line("");
    let row = |pace: &Pace, exchange: &str| vec![seconds(pace.seconds), share(pace.efficiency), exchange.to_owned()];
    let rows = [row(&plan.exposed, "after computing"), row(&plan.overlapped, "behind computing, fully overlapped")];
    page.table(2, &["step", "efficiency", "exchange"], &rows);
    page.line("");
    page.line("  assuming:");
    for assumption in &plan.assumptions {
        page.prose("  - ", assumption, 4);
    }
}
