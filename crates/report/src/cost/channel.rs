//! What carries transfers while something else computes.

use std::collections::VecDeque;

/// Transfers that run beside computing, one after the other.
#[derive(Default)]
pub(super) struct Channel {
    pub(super) rate: f64,
    started: f64,
    moved: f64,
    /// For each transfer begun: how much has been moved when it is done, and the instruction that began it.
    queue: VecDeque<(f64, i64)>,
}

impl Channel {
    /// One that moves so many bytes a second.
    pub(super) fn new(rate: f64) -> Channel {
        Channel { rate, ..Channel::default() }
    }

    /// Begins a transfer; how much has been begun by then tells when it is done.
    pub(super) fn start(&mut self, bytes: f64, instruction: i64) -> f64 {
        self.started += bytes;
        self.queue.push_back((self.started, instruction));
        self.started
    }

    /// Time passes in which the channel also moves `bytes` of somebody else's.
    pub(super) fn pass(&mut self, seconds: f64, bytes: f64) {
        let spare = (seconds * self.rate - bytes).max(0.0);
        self.moved = (self.moved + spare).min(self.started);
        while self.queue.front().is_some_and(|it| it.0 <= self.moved) {
            self.queue.pop_front();
        }
    }

    /// Waits until everything begun by then has been moved. Returns the seconds that each transfer takes of that.
    pub(super) fn wait(&mut self, until: f64) -> Vec<(i64, f64)> {
        let mut waited = Vec::new();
        while let Some(&(end, instruction)) = self.queue.front().filter(|_| self.moved < until) {
            let to = end.min(until).max(self.moved);
            waited.push((instruction, (to - self.moved) / self.rate));
            self.moved = to;
            if end <= to {
                self.queue.pop_front();
            }
        }
        waited
    }
}

/// A transfer under way: until how much has been moved on which channel.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) until: f64,
    pub(super) on_interconnect: bool,
}
