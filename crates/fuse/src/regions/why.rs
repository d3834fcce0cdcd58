//! Why ops are together, and why a region ends where it does, in words.

use super::candidate::Obstacle;
use super::choose::Chooser;
use super::order::Neighbours;
use super::steps::{Kind, Steps};
use super::{Border, Region};

/// Later regions that a region is held against, at most.
const MOST: usize = 8;

/// What being together saves.
pub(super) fn gains(steps: &Steps<'_>, members: &[u32], region: &Region) -> Vec<String> {
    let kept = |m: &&u32| !region.outputs.contains(&steps.all[**m as usize].node) && steps.all[**m as usize].bytes > 0;
    let kept = if members.len() > 1 { members.iter().filter(kept).count() } else { 0 };
    let readers = |v: &ir::ValueId| steps.readers(*v).iter().filter(|r| members.binary_search(r).is_ok()).count();
    let shared = region.inputs.iter().filter(|(v, bytes)| *bytes > 0 && readers(v) > 1).count();
    let is_product = |m: &u32| steps.all[*m as usize].kind == Kind::Product;
    let mut all = vec![];
    if kept > 0 {
        all.push(if kept == 1 {
            "1 value never reaches memory".to_owned()
        } else {
            format!("{kept} values never reach memory")
        });
    }
    if shared > 0 {
        all.push(format!(
            "{} read once for several ops",
            if shared == 1 { "1 input is".to_owned() } else { format!("{shared} inputs are") }
        ));
    }
    if members.len() > 1 && members.iter().any(is_product) {
        all.push("arithmetic beside a product needs no pass of its own".to_owned());
    }
    if !region.remade.is_empty() {
        all.push(format!(
            "{} cheaper to make again than to read",
            if region.remade.len() == 1 { "1 op is".to_owned() } else { format!("{} ops are", region.remade.len()) }
        ));
    }
    all
}

/// The regions right behind region `number`, and what keeps each apart from it; `position` is by number.
pub(super) fn borders(chooser: &mut Chooser<'_>, number: u32, position: &[usize]) -> Vec<Border> {
    let mut after = chooser.partition.after(number);
    after.sort_unstable_by_key(|&r| position[r as usize]);
    after.truncate(MOST);
    let border = |r: u32| Border { region: position[r as usize], why: apart(chooser, number, r) };
    after.into_iter().map(border).collect()
}

fn apart(chooser: &mut Chooser<'_>, a: u32, b: u32) -> String {
    let members = |r: u32| &chooser.partition.members[r as usize].steps;
    let mut all = [&members(a)[..], &members(b)[..]].concat();
    all.sort_unstable();
    let time = chooser.times[a as usize] + chooser.times[b as usize];
    match chooser.candidates.figures(&all) {
        Ok(joined) if joined.time < time => {
            "what lies between them needs the one and is needed by the other".to_owned()
        }
        Ok(_) => "together they would take no less".to_owned(),
        Err(obstacle) => words(obstacle),
    }
}

fn words(obstacle: Obstacle) -> String {
    match obstacle {
        Obstacle::Alone => "one of them runs by itself: it moves elements by index, sorts, draws, branches or loops",
        Obstacle::Barrier => "a barrier keeps them apart",
        Obstacle::SecondProduct => "a region has one product",
        Obstacle::AfterProduct => "needs a reduction of the whole product first",
        Obstacle::BesideProduct => "has ops that neither feed the product nor need it",
        Obstacle::DearOperand => "would compute exponentials or their like for every tile of the product",
        Obstacle::SharedOperand => "what the product reads is needed elsewhere, too",
        Obstacle::WorkingSet(bytes) => return format!("{bytes} bytes would have to stay on the chip between passes"),
        Obstacle::Unrelated => "loops that share no value",
        Obstacle::Size => "too many ops for one region",
    }
    .to_owned()
}
