//! Damaged traces and texts: random changes to the bytes and to the structure of the corpus. Whatever comes out, reading
//! it (and importing the trace) ends soon and does not panic.
//!
//! A fixed number of inputs is tried. `MUTATION_SECONDS` tries for that long instead, from seed `MUTATION_SEED` on, and
//! `MUTATION_KEEP` names a file that each input is written to first, for faults that end the process. Limit its memory:
//! `ulimit -v 2000000`.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use torchtpu_ir::import::{ImportOptions, import, unsupported_ops};
use torchtpu_ir::ops::sample::expansions;
use torchtpu_ir::text::{parse, print};
use torchtpu_ir::trace;

/// Inputs tried by default.
const INPUTS: u64 = 600;
/// Longest acceptable time for one input, on a busy machine and without optimisation.
const LIMIT: Duration = Duration::from_secs(20);

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

fn corpus() -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [root.join("fuzz/corpus/import"), root.join("testdata/traces")];
    let entries = folders.iter().flat_map(|f| std::fs::read_dir(f).expect("a folder"));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|p| {
        p.extension().is_some_and(|e| e == "json" || e == "pt2") && !p.to_string_lossy().contains("values")
    });
    files.sort();
    files.into_iter().map(|p| (p.clone(), std::fs::read(p).expect("a file"))).collect()
}

fn try_import(bytes: Vec<u8>) {
    let dims = [("s77".to_owned(), 4), ("s17".to_owned(), 5)].into();
    let Ok(trace) = trace::read_bytes(bytes) else { return };
    let _ = unsupported_ops(&trace);
    if let Ok(imported) = import(&trace, &ImportOptions { dims, ..ImportOptions::default() }) {
        torchtpu_ir::verify(&imported.graph).expect("what is imported verifies");
    }
}

fn try_parse(text: Vec<u8>) {
    let Ok(graph) = parse(&String::from_utf8_lossy(&text)) else { return };
    let printed = print(&graph);
    assert_eq!(print(&parse(&printed).expect("what is printed reads")), printed);
}

fn change_bytes(r: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + r.below(4) {
        let at = r.below(bytes.len());
        match r.below(4) {
            0 if !bytes.is_empty() => bytes[at] = r.below(256) as u8,
            1 if !bytes.is_empty() => bytes[at] ^= 1 << r.below(8),
            2 => bytes.truncate(at),
            _ => {
                let length = r.below(32).min(bytes.len() - at);
                let part = bytes[at..at + length].to_vec();
                let to = r.below(bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
}

/// Every place in a document.
fn places(v: &Value, path: &str, into: &mut Vec<String>) {
    into.push(path.to_owned());
    match v {
        Value::Array(list) => list.iter().enumerate().for_each(|(i, v)| places(v, &format!("{path}/{i}"), into)),
        Value::Object(map) => map.iter().for_each(|(k, v)| {
            places(v, &format!("{path}/{}", k.replace('~', "~0").replace('/', "~1")), into);
        }),
        _ => {}
    }
}

fn odd_value(r: &mut Random) -> Value {
    let odd = [
        "null",
        "true",
        "-1",
        "0",
        "1",
        "2",
        "7",
        "64",
        "4611686018427387904",
        "9223372036854775807",
        "1e308",
        "\"\"",
        "\"x\"",
        "\"NaN\"",
        "[]",
        "{}",
        "{\"as_none\":true}",
        "{\"as_int\":-9223372036854775808}",
        "{\"as_ints\":[]}",
        "{\"as_tensor\":{\"name\":\"x\"}}",
        "{\"as_int\":4000000000}",
        "{\"as_float\":\"Infinity\"}",
        "{\"as_expr\":{\"expr_str\":\"Symbol('s77')*Symbol('s77')\"}}",
    ];
    serde_json::from_str(odd[r.below(odd.len())]).expect("JSON")
}

fn change_structure(r: &mut Random, document: &mut Value) {
    let mut all = vec![];
    places(document, "", &mut all);
    for _ in 0..1 + r.below(3) {
        let other = document.pointer(&all[r.below(all.len())]).cloned().unwrap_or_default();
        let (pick, odd, near) = (r.below(4), odd_value(r), r.below(5) as i64 - 2);
        let Some(place) = document.pointer_mut(&all[r.below(all.len())]) else { continue };
        *place = match (pick, &*place) {
            (0, Value::Number(n)) => Value::from(n.as_i64().unwrap_or(0).saturating_add(near)),
            (0 | 1, _) => odd,
            (2, _) => other,
            (_, Value::Array(list)) if !list.is_empty() => {
                let mut list = list.clone();
                let (from, to) = (near.unsigned_abs() as usize % list.len(), 0);
                list.swap(from, to);
                list.truncate(1 + list.len() / 2);
                Value::Array(list)
            }
            (_, v) => v.clone(),
        };
    }
}

/// What a text has besides letters: numbers and names, cut, joined, and put where others were; lines moved.
fn change_words(r: &mut Random, text: &mut String) {
    const ODD: [&str; 17] = [
        "0",
        "-1",
        "1",
        "7",
        "65",
        "4611686018427387904",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "nan",
        "0x7fc00000",
        "[]",
        "",
        "f64",
        "bool",
        "i64",
        "(",
    ];
    for _ in 0..1 + r.below(3) {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let starts: Vec<usize> = text.match_indices(word).map(|(i, _)| i).collect();
        let Some(&from) = starts.get(r.below(starts.len())) else { return };
        let to = text[from..].find(|c| !word(c)).map_or(text.len(), |n| from + n);
        let other = starts[r.below(starts.len())];
        let other = text[other..].split(|c| !word(c)).next().unwrap_or_default().to_owned();
        match r.below(3) {
            0 => text.replace_range(from..to, ODD[r.below(ODD.len())]),
            1 => text.replace_range(from..to, &other),
            _ => {
                let mut lines: Vec<&str> = text.lines().collect();
                let (a, b) = (r.below(lines.len()), r.below(lines.len()));
                lines[a] = lines[b];
                *text = lines.join("\n");
            }
        }
    }
}

/// Calls `attempt` with what `damaged` makes, seed by seed; a panic says which, and keeps the input.
fn run(
    mut damaged: impl FnMut(&mut Random) -> (String, Vec<u8>),
    attempt: impl Fn(Vec<u8>) + std::panic::RefUnwindSafe,
) {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let budget = number("MUTATION_SECONDS").map(Duration::from_secs);
    let first = number("MUTATION_SEED").unwrap_or(0);
    let keep = std::env::var_os("MUTATION_KEEP");
    let start = Instant::now();
    for seed in first.. {
        if budget.map_or(seed - first >= INPUTS, |b| start.elapsed() > b) {
            break;
        }
        let (what, changed) = damaged(&mut Random(seed));
        if let Some(keep) = &keep {
            std::fs::write(keep, &changed).expect("writes");
        }
        let began = Instant::now();
        if std::panic::catch_unwind(|| attempt(changed.clone())).is_err() {
            let file = std::env::temp_dir().join(format!("torchtpu-mutation-{seed}"));
            let saved = std::fs::write(&file, changed).is_ok();
            panic!(
                "seed {seed} on {what} panics{}",
                if saved { format!("; see {}", file.display()) } else { String::new() }
            );
        }
        assert!(began.elapsed() < LIMIT, "seed {seed} on {what} took {:?}", began.elapsed());
    }
}

#[test]
fn damaged_traces_neither_panic_nor_hang() {
    let corpus = corpus();
    assert!(corpus.len() > 5);
    let documents: Vec<Option<Value>> = corpus.iter().map(|(_, b)| serde_json::from_slice(b).ok()).collect();
    let damaged = |r: &mut Random| {
        let pick = r.below(corpus.len());
        let changed = match &documents[pick] {
            Some(document) if r.below(5) > 0 => {
                let mut document = document.clone();
                change_structure(r, &mut document);
                document.to_string().into_bytes()
            }
            _ => {
                let mut bytes = corpus[pick].1.clone();
                change_bytes(r, &mut bytes);
                bytes
            }
        };
        (corpus[pick].0.display().to_string(), changed)
    };
    run(damaged, try_import);
}

#[test]
fn damaged_texts_neither_panic_nor_hang() {
    let texts: Vec<(&str, String)> = expansions().map(|(op, e)| (op, print(&e.graph))).collect();
    assert!(texts.len() > 1000);
    let damaged = |r: &mut Random| {
        let (op, text) = &texts[r.below(texts.len())];
        let (mut text, mut bytes) = (text.clone(), text.clone().into_bytes());
        if r.below(5) > 0 {
            change_words(r, &mut text);
            bytes = text.into_bytes();
        } else {
            change_bytes(r, &mut bytes);
        }
        (format!("the expansion of {op}"), bytes)
    };
    run(damaged, try_parse);
}
