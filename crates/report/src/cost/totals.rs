//! What the regions add up to: by line, by product, by kind of collective.

use std::collections::{BTreeMap, HashMap};

use target::Chip;

use super::matrix::{self, Product};
use super::{LEAST_WASTE, Share, Step};
use crate::{Collective, LineCost, Padding, Source};

/// Each line's part of each region, most time first. What has neither line nor module is told by its op.
pub(super) fn lines(steps: &[Step], seconds: f64) -> Vec<LineCost> {
    let mut lines: HashMap<(&str, u32, &str, &str), LineCost> = HashMap::new();
    for step in steps {
        for (source, share, part) in weights(step) {
            let new = || LineCost {
                source: source.clone(),
                flops: 0.0,
                hbm_bytes: 0.0,
                transcendentals: 0.0,
                seconds: 0.0,
                share: 0.0,
            };
            let op = if source.file.is_empty() && source.module.is_empty() { source.op.as_str() } else { "" };
            let line = lines.entry((&source.file, source.line, &source.module, op)).or_insert_with(new);
            if line.source.op != source.op {
                line.source.op.clear();
            }
            line.flops += share.work.flops * step.region.runs;
            line.transcendentals += share.work.transcendentals * step.region.runs;
            line.hbm_bytes += share.bytes * step.region.runs;
            line.seconds += step.region.seconds * part;
        }
    }
    let mut lines: Vec<LineCost> = lines.into_values().collect();
    lines.iter_mut().for_each(|line| line.share = if seconds > 0.0 { line.seconds / seconds } else { 0.0 });
    lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.source.cmp(&b.source)));
    lines
}

/// A region's contributors and their parts of its time, which add up to one.
fn weights(step: &Step) -> Vec<(&Source, Share, f64)> {
    let of = |share: &Share| match step.region.bound.as_str() {
        "bandwidth" => share.bytes,
        _ => share.work.seconds(),
    };
    let total: f64 = step.shares.iter().map(|(_, share)| of(share)).sum();
    let part = |source: &Source, share: &Share| match total > 0.0 {
        true => of(share) / total,
        false => f64::from(u8::from(*source == step.region.source)),
    };
    step.shares.iter().map(|(source, share)| (source, *share, part(source, share))).collect()
}

/// Products that waste the matrix unit, those of one place and shape once, most wasted work first.
pub(super) fn padding(steps: &[Step], chip: &Chip) -> Vec<Padding> {
    let mut wasted: BTreeMap<(&Source, [u64; 4]), (f64, &Product)> = BTreeMap::new();
    for step in steps {
        for (source, product) in &step.products {
            let waste = product.waste(chip);
            if waste >= LEAST_WASTE {
                let work = matrix::volume(product.padded(chip)) * waste * step.region.runs;
                wasted.entry((source, product.extents)).or_insert((0.0, product)).0 += work;
            }
        }
    }
    let mut wasted: Vec<_> = wasted.into_iter().collect();
    wasted.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let of = |((source, shape), (_, product)): ((&Source, [u64; 4]), (f64, &Product))| Padding {
        source: source.clone(),
        shape,
        padded: product.padded(chip),
        waste: product.waste(chip),
        advice: product.advice(chip),
    };
    wasted.into_iter().map(of).collect()
}

pub(super) fn collectives(steps: &[Step]) -> Vec<Collective> {
    let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for step in steps {
        for (kind, bytes) in &step.collectives {
            let entry = kinds.entry(kind).or_default();
            entry.0 += step.region.runs;
            entry.1 += bytes;
        }
    }
    let collective = |(kind, (count, bytes)): (&str, (f64, f64))| Collective { kind: kind.to_owned(), count, bytes };
    kinds.into_iter().map(collective).collect()
}
