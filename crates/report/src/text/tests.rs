use super::*;
use crate::testing::{plan, report};

#[test]
fn a_report_reads_like_this() {
    assert_eq!(text(&report(), COLUMNS), include_str!("report.txt"));
}

#[test]
fn a_plan_reads_like_this() {
    let planned = text(&Report { slices: Some(plan()), ..report() }, COLUMNS);
    let section = planned.find("Slices").map(|start| &planned[start..]);
    let end = section.and_then(|it| it.find("\nFindings"));
    assert_eq!(end.and_then(|end| section.map(|it| &it[..end])), Some(include_str!("slices.txt")));
}

#[test]
fn nothing_is_wider_than_the_page() {
    let mut wide = report();
    let long = "x".repeat(300);
    wide.verdict.summary = long.clone();
    wide.program.name = long.clone();
    if let Some(memory) = &mut wide.memory {
        memory.holders[1].source.module = format!("{long}.{long}");
        memory.holders[2].source.file = format!("é/{long}");
    }
    let widest = |columns| text(&wide, columns).lines().map(|line| line.chars().count()).max();
    assert_eq!([20, 80, 131].map(widest), [80, 80, 131].map(Some));
}

#[test]
fn a_program_that_was_not_traced_has_no_ops() {
    let mut given = report();
    given.program.num_ops = 0;
    assert!(text(&given, COLUMNS).contains("\nProgram   StableHLO, ab12cd34\n"));
}

#[test]
fn a_report_of_a_failure_is_short() {
    let failed = Report { memory: None, cost: None, findings: Vec::new(), ..report() };
    assert!(text(&failed, COLUMNS).lines().count() < 10);
}
