//! The source that a report shows beside its numbers: of each file, the lines around those that are named.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Planned, Report, Rewrites, Source, SourceText};

impl Report {
    /// Every line that this report names, by file. To fill [`Report::sources`], read each file and keep
    /// [`SourceText::around`] its lines; a file that is not at hand is left out.
    pub fn named_lines(&self) -> BTreeMap<&str, BTreeSet<u32>> {
        lines_of(self.places())
    }

    fn places(&self) -> impl Iterator<Item = &Source> {
        let findings = self.findings.iter().map(|finding| &finding.source);
        let holders = self.memory.iter().flat_map(|memory| &memory.holders).map(|holder| &holder.source);
        let regions = self.cost.iter().flat_map(|cost| &cost.regions).map(|region| &region.source);
        let lines = self.cost.iter().flat_map(|cost| &cost.lines).map(|line| &line.source);
        let padding = self.cost.iter().flat_map(|cost| &cost.padding).map(|padding| &padding.source);
        let rewrites = self.rewrites.iter().flat_map(Rewrites::places);
        findings.chain(holders).chain(regions).chain(lines).chain(padding).chain(rewrites)
    }
}

impl Rewrites {
    /// As [`Report::named_lines`], with those of `planned`.
    pub fn named_lines<'a>(&'a self, planned: &'a [Planned]) -> BTreeMap<&'a str, BTreeSet<u32>> {
        lines_of(self.places().chain(planned.iter().map(|it| &it.source)))
    }

    fn places(&self) -> impl Iterator<Item = &Source> {
        self.changes.iter().flat_map(|change| &change.places)
    }
}

fn lines_of<'a>(places: impl Iterator<Item = &'a Source>) -> BTreeMap<&'a str, BTreeSet<u32>> {
    let mut named = BTreeMap::<&str, BTreeSet<u32>>::new();
    for source in places.filter(|source| !source.file.is_empty() && source.line > 0) {
        named.entry(&source.file).or_default().insert(source.line);
    }
    named
}

impl SourceText {
    /// Of a file's text, the lines that are `context` or fewer away from one of `named`.
    pub fn around(file: &str, text: &str, named: &BTreeSet<u32>, context: u32) -> Self {
        let near = |number: u32| {
            let (first, last) = (number.saturating_sub(context), number.saturating_add(context));
            named.range(first..=last).next().is_some()
        };
        let lines = (1..).zip(text.lines()).filter(|&(number, _)| near(number));
        Self { file: file.to_owned(), lines: lines.map(|(number, line)| (number, line.to_owned())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_around_named_ones_are_kept_once() {
        let text = (1..=20).map(|line| format!("line {line}\n")).collect::<String>();
        let kept = SourceText::around("a.py", &text, &BTreeSet::from([2, 4, 15, 99]), 2);
        let numbers = kept.lines.iter().map(|(number, _)| *number).collect::<Vec<_>>();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 13, 14, 15, 16, 17]);
        assert_eq!(kept.lines[4], (5, "line 5".to_owned()));
    }
}
