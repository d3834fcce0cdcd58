//! Programs that have the host sort, or select.

#[path = "common/blas.rs"]
mod blas;
mod common;

use blas::blas;
use common::*;
use hostcall::{Order, Sort};
use std::cmp::Ordering;
use torchtpu_runtime::{Buffer, Client, ElementType, ExecuteOptions, TensorType};

/// A type of elements: its name, the plugin's name, and its bytes.
type Kind = (&'static str, ElementType, usize);

const KINDS: [Kind; 13] = [
    ("i1", ElementType::Pred, 1),
    ("i8", ElementType::S8, 1),
    ("ui8", ElementType::U8, 1),
    ("i16", ElementType::S16, 2),
    ("ui16", ElementType::U16, 2),
    ("f16", ElementType::F16, 2),
    ("bf16", ElementType::Bf16, 2),
    ("i32", ElementType::S32, 4),
    ("ui32", ElementType::U32, 4),
    ("f32", ElementType::F32, 4),
    ("i64", ElementType::S64, 8),
    ("ui64", ElementType::U64, 8),
    ("f64", ElementType::F64, 8),
];

/// What a program gives for operands of these kinds, all as long; results of these.
fn run(
    client: &Client,
    numbers: &[i64],
    operands: &[(Kind, Vec<u8>)],
    results: &[(Kind, usize)],
) -> Result<Vec<Vec<u8>>, String> {
    let of = |(kind, len): (Kind, usize)| format!("tensor<{len}x{}>", kind.0);
    let types: Vec<String> = operands.iter().map(|(kind, bytes)| of((*kind, bytes.len() / kind.2))).collect();
    let made: Vec<String> = results.iter().map(|&result| of(result)).collect();
    let names = |mark: &str, count: usize| (0..count).map(|i| format!("{mark}{i}")).collect::<Vec<_>>().join(", ");
    let arguments: Vec<String> = types.iter().enumerate().map(|(i, ty)| format!("%a{i}: {ty}")).collect();
    let numbers = numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let (types, made, count) = (types.join(", "), made.join(", "), results.len());
    let text = format!(
        "func.func @main({}) -> ({made}) {{
           %r:{count} = stablehlo.custom_call @{}({}) {{
             api_version = 4 : i32, backend_config = {{numbers = array<i64: {numbers}>}}
           }} : ({types}) -> ({made})
           return {} : {made}
         }}",
        arguments.join(", "),
        Sort::TARGET,
        names("%a", operands.len()),
        names("%r#", count),
    );
    let executable = compile(client, &text);
    let upload = |(kind, bytes): &(Kind, Vec<u8>)| {
        let ty = TensorType::new(kind.1, &[(bytes.len() / kind.2) as i64][..]);
        Buffer::from_host(&first_device(client), bytes, ty).expect("uploads")
    };
    let arguments: Vec<Buffer> = operands.iter().map(upload).collect();
    let execution = executable.execute(&arguments, &ExecuteOptions::default()).map_err(|e| e.to_string())?;
    execution.done.wait().map_err(|e| e.to_string())?;
    execution.outputs.iter().map(|o| o.to_host().map(|bytes| bytes.to_vec()).map_err(|e| e.to_string())).collect()
}

/// The float that a key is.
fn float(kind: Kind, bytes: &[u8]) -> f64 {
    match kind.0 {
        "f64" => f64::from_ne_bytes(bytes.try_into().expect("eight bytes")),
        "f32" => f32::from_ne_bytes(bytes.try_into().expect("four bytes")).into(),
        "bf16" => f32::from_bits(u32::from(u16::from_ne_bytes(bytes.try_into().expect("two bytes"))) << 16).into(),
        _ => half(u16::from_ne_bytes(bytes.try_into().expect("two bytes"))),
    }
}

fn is_nan(kind: Kind, key: &[u8]) -> bool {
    kind.0.contains('f') && float(kind, key).is_nan()
}

/// How two keys of a kind compare: NaN is the greatest, and zeros are equal.
fn compare(kind: Kind, a: &[u8], b: &[u8]) -> Ordering {
    let int = |bytes: &[u8]| {
        let mut wide = [0; 16];
        wide[..bytes.len()].copy_from_slice(bytes);
        let (value, bits) = (i128::from_le_bytes(wide), 8 * bytes.len());
        if kind.0.starts_with('u') || kind.0 == "i1" { value } else { value << (128 - bits) >> (128 - bits) }
    };
    if kind.0.contains('f') {
        let (a, b) = (float(kind, a), float(kind, b));
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    } else {
        int(a).cmp(&int(b))
    }
}

fn half(bits: u16) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 31, f64::from(bits & 1023) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction > 0.0 => f64::NAN,
        31 => f64::INFINITY,
        e => (1.0 + fraction) * 2f64.powi(i32::from(e) - 15),
    };
    if sign == 1 { -size } else { size }
}

/// The places that the results come from, in the whole operand.
fn expected(sort: &Sort, kind: Kind, keys: &[u8]) -> Vec<usize> {
    let key = |i: usize| &keys[i * kind.2..(i + 1) * kind.2];
    let mut from = vec![0; sort.results()];
    for lane in 0..sort.outer * sort.inner {
        let first = |rows: usize| lane / sort.inner * rows * sort.inner + lane % sort.inner;
        let mut order: Vec<usize> = (0..sort.length).map(|i| first(sort.length) + i * sort.inner).collect();
        order.sort_by(|&i, &j| {
            let rising = compare(kind, key(i), key(j));
            match sort.order {
                Order::Rising => rising,
                Order::Falling => rising.reverse(),
                Order::RisingFromNan => is_nan(kind, key(j)).cmp(&is_nan(kind, key(i))).then(rising),
            }
        });
        let wanted = order[sort.start..sort.limit].iter().enumerate();
        wanted.for_each(|(i, &place)| from[first(sort.limit - sort.start) + i * sort.inner] = place);
    }
    from
}

/// Random bits, many of them alike, and of floats zeros, infinities and NaNs.
fn keys(kind: Kind, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 20
    };
    let few: Vec<u64> = (0..5).map(|_| next() ^ next() << 32).collect();
    let mut bytes = Vec::with_capacity(count * kind.2);
    for _ in 0..count {
        let special = match (kind.0, next() % 3) {
            ("f32", 0) => [0, 0x8000_0000, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFFC0_0001][next() as usize % 6],
            ("f64", 0) => [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8 << 48][next() as usize % 6],
            ("f16", 0) => [0, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01][next() as usize % 6],
            ("bf16", 0) => [0, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1][next() as usize % 6],
            (_, 1) => few[next() as usize % few.len()],
            _ => next() ^ next() << 32,
        };
        let number = if kind.0 == "i1" { special & 1 } else { special };
        bytes.extend_from_slice(&number.to_le_bytes()[..kind.2]);
    }
    bytes
}

fn taken(bytes: &[u8], width: usize, from: &[usize]) -> Vec<u8> {
    from.iter().flat_map(|&i| bytes[i * width..(i + 1) * width].to_vec()).collect()
}

fn check(client: &Client, sort: Sort, kind: Kind, other: Option<Kind>) {
    let count = sort.elements().expect("few");
    let given = keys(kind, count, sort.start as u64 + 7);
    let from = expected(&sort, kind, &given);
    let mut operands = vec![(kind, given)];
    let mut results = vec![(kind, from.len())];
    let wide =
        KINDS.iter().find(|k| k.0 == if sort.order == Order::Falling { "i32" } else { "i64" }).expect("there is");
    results.extend(sort.places.then_some((*wide, from.len())));
    if let Some(other) = other {
        operands.push((other, keys(other, count, 99)));
        results.push((other, from.len()));
    }
    let made = run(client, &sort.encode(), &operands, &results).expect("runs");
    let of_lane = |&i: &usize| (i / sort.inner % sort.length) as u64;
    let places: Vec<u8> = from.iter().flat_map(|i| of_lane(i).to_le_bytes()[..wide.2].to_vec()).collect();
    let mut expected = vec![taken(&operands[0].1, kind.2, &from)];
    expected.extend(sort.places.then_some(places));
    expected.extend(other.map(|other| taken(&operands[1].1, other.2, &from)));
    assert!(made == expected, "{sort:?} of {} with {other:?}", kind.0);
}

#[test]
fn every_lane_is_sorted() {
    let client = client_asking(blas(0));
    let shapes: [(usize, usize, usize); 7] =
        [(1, 1, 1), (3, 7, 1), (2, 700, 1), (5, 40, 33), (2, 600, 3), (3, 1500, 1), (1, 40_000, 1)];
    for (i, kind) in KINDS.into_iter().enumerate() {
        let other = KINDS[(i * 5 + 3) % KINDS.len()];
        for (at, (outer, length, inner)) in shapes.into_iter().enumerate() {
            let (third, last, few) = (length / 3, length - 1, length.div_ceil(70));
            let parts = [(0, length), (0, 1), (third, third + 1), (last, length), (length / 2, length), (0, few)];
            for (j, (start, limit)) in parts.into_iter().enumerate().filter(|(j, _)| (i + at + j) % 2 == 0) {
                let (order, places) = (Order::ALL[(i + j) % 3], j % 3 != 1);
                let sort = Sort { order, places, outer, length, inner, start, limit };
                check(&client, sort, kind, (at % 2 == 1).then_some(other));
            }
        }
    }
}

#[test]
fn nothing_is_nothing() {
    let client = client_asking(blas(0));
    for (outer, length, inner, limit) in [(0, 3, 2, 3), (3, 0, 2, 0), (3, 4, 0, 2), (3, 600, 1, 0)] {
        let sort = Sort { order: Order::Rising, places: true, outer, length, inner, start: 0, limit };
        check(&client, sort, KINDS[9], None);
    }
}

#[test]
fn what_is_no_sort_is_an_error() {
    let client = client_asking(blas(0));
    let [i32s, f32s, i64s, f64s] = [7, 9, 10, 12].map(|i| KINDS[i]);
    let six = (f32s, vec![0; 24]);
    let sort = Sort { order: Order::Rising, places: true, outer: 1, length: 6, inner: 1, start: 0, limit: 4 };
    let good = sort.encode();
    let other = |at: usize, number: i64| {
        let mut numbers = good.clone();
        numbers[at] = number;
        numbers
    };
    let results = vec![(f32s, 4), (i64s, 4)];
    assert!(run(&client, &good, std::slice::from_ref(&six), &results).is_ok());
    for (numbers, operands, results, why) in [
        (other(3, 7), vec![six.clone()], results.clone(), "there are fewer elements"),
        (other(6, 3), vec![six.clone()], results.clone(), "fewer are asked for"),
        (other(6, 7), vec![six.clone()], results.clone(), "there are no more"),
        (other(1, 0), vec![six.clone()], results.clone(), "places are not asked for"),
        (good[..6].to_vec(), vec![six.clone()], results.clone(), "a number is missing"),
        (good.clone(), vec![six.clone()], vec![(f64s, 4), (i64s, 4)], "the result is wider"),
        (good.clone(), vec![six.clone()], vec![(f32s, 4), (f32s, 4)], "floats are no places"),
        (good.clone(), vec![six.clone()], vec![(f32s, 4)], "a result is missing"),
        (good.clone(), vec![six.clone(), (i32s, vec![0; 24])], results.clone(), "so is one here"),
        (good.clone(), vec![six.clone(), (i32s, vec![0; 20])], [&results[..], &[(i32s, 4)]].concat(), "it is shorter"),
        (good.clone(), vec![six.clone(), (i32s, vec![0; 24])], [&results[..], &[(f32s, 4)]].concat(), "another type"),
    ] {
        let error = run(&client, &numbers, &operands, &results).expect_err(why);
        assert!(error.contains("the call is none that torchtpu wrote"), "{why}: {error}");
    }
}
