use super::*;
use crate::{Collective, Holder, LineCost, Padding, Program, Region, SCHEMA, Target, Verdict};

fn source(line: u32, module: &str) -> Source {
    let (file, op) = ("transformers/models/llama/modeling_llama.py".to_owned(), "aten.mm.default".to_owned());
    Source { file, line, module: module.to_owned(), op }
}

fn holder(kind: &str, bytes: u64, unpadded: u64, value: &str, source: Source) -> Holder {
    Holder { bytes, unpadded, kind: kind.to_owned(), values: vec![value.to_owned()], source }
}

fn line(source: Source, seconds: f64, share: f64) -> LineCost {
    LineCost { source, flops: 2e12, hbm_bytes: 1e9, transcendentals: 0.0, seconds, share }
}

fn report() -> Report {
    let mib = 1u64 << 20;
    let up = |layer: usize| source(175, &format!("model.layers.{layer}.mlp.up_proj"));
    let memory = Memory {
        peak: 1000 * mib,
        arguments: 600 * mib,
        outputs: 200 * mib,
        aliased: 100 * mib,
        temporaries: 300 * mib,
        code: 3 * mib,
        holders: vec![
            holder("argument", 600 * mib, 600 * mib, "model.layers.0.mlp.up_proj.weight", Source::default()),
            holder("temporary", 150 * mib, 75 * mib, "fusion.1", up(0)),
            holder("temporary", 130 * mib, 65 * mib, "fusion.2", up(1)),
            holder("output", 100 * mib, 100 * mib, "copy.7", Source::default()),
        ],
        unattributed: 20 * mib,
        timeline: Vec::new(),
        peak_step: 3,
        vmem_peak: 64 * mib,
    };
    let region = Region {
        name: "convolution_add_fusion.1".to_owned(),
        kind: "kOutput".to_owned(),
        source: up(0),
        runs: 12.0,
        flops: 4e12,
        hbm_bytes: 2e9,
        transcendentals: 0.0,
        seconds: 0.03,
        bound: "matrix unit".to_owned(),
        estimated_cycles: None,
        operands: Vec::new(),
    };
    let padding = |layer: usize| Padding {
        source: up(layer),
        shape: [1, 1001, 768, 50257],
        padded: [1, 1008, 768, 50304],
        waste: 0.0079,
        advice: "rows 1001 -> 1008, columns 50257 -> 50304".to_owned(),
    };
    let cost = Cost {
        flops: 4e12,
        hbm_bytes: 2e9,
        transcendentals: 5e6,
        seconds: 0.04,
        peak_share: 0.5,
        regions: vec![Region { bound: "bandwidth".to_owned(), seconds: 0.01, runs: 1.0, ..region.clone() }, region],
        lines: vec![line(up(0), 0.03, 0.75), line(up(1), 0.01, 0.25)],
        padding: vec![padding(0), padding(1)],
        collectives: vec![Collective { kind: "all-reduce".to_owned(), count: 24.0, bytes: 3e9 }],
    };
    let finding = Finding {
        severity: Severity::Warning,
        kind: "dtype".to_owned(),
        message: "this value is f64, which a TPU does not have: it is computed in pairs of f32, at a small part of \
                  their speed"
            .to_owned(),
        help: Some("cast it to float32".to_owned()),
        source: source(12, "model"),
    };
    Report {
        schema: SCHEMA,
        program: Program { name: "llama.step".to_owned(), num_ops: 1234, hash: "ab12cd34".to_owned() },
        target: Target {
            name: "v5e:2x2".to_owned(),
            device_kind: "TPU v5 lite".to_owned(),
            num_devices: 4,
            devices_used: 1,
            compiler: "0.0.51".to_owned(),
            peak_flops: 197e12,
            hbm_bandwidth: 819e9,
            hbm_bytes: 16_909_334_528,
            vmem_bytes: 128 * mib,
        },
        verdict: Verdict {
            runs: false,
            summary: "It does not fit.".to_owned(),
            advice: vec!["Take v5e:4x4.".to_owned()],
        },
        findings: vec![finding],
        memory: Some(memory),
        cost: Some(cost),
        sources: Vec::new(),
    }
}

#[test]
fn a_report_reads_like_this() {
    assert_eq!(text(&report()), include_str!("report.txt"));
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
    assert!(text(&wide).lines().all(|line| line.chars().count() <= WIDTH));
}

#[test]
fn a_report_of_a_failure_is_short() {
    let failed = Report { memory: None, cost: None, findings: Vec::new(), ..report() };
    assert!(text(&failed).lines().count() < 10);
}
