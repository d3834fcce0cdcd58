//! Programs that call the host's matrix products and convolutions.

#[path = "common/blas.rs"]
mod blas;
mod common;

use std::path::Path;

use blas::blas;
use common::*;
use hostcall::{Axis, Batch, Computes, Convolution, Finish, Product, Strides};
use torchtpu_runtime::{Client, ExecuteOptions};

/// A client whose programs may call products.
fn client_with_products(devices: i64) -> Client {
    let (_dir, library) = blas(0);
    plugin().offer_products(&library).expect("the plugin takes it");
    client_of(devices)
}

fn dims(shape: &[usize]) -> String {
    shape.iter().map(|d| format!("{d}x")).collect()
}

/// A program that calls `target` with `numbers`, and finishes nothing.
fn program(target: &str, lhs: &[usize], rhs: &[usize], out: &[usize], numbers: &[i64], dtype: &str) -> String {
    finished(target, &[lhs, rhs], out, &Finish::default().encode(numbers.to_vec()), dtype)
}

/// A program that calls `target` with `operands` and `numbers`.
fn finished(target: &str, operands: &[&[usize]], out: &[usize], numbers: &[i64], dtype: &str) -> String {
    let types: Vec<String> = operands.iter().map(|shape| format!("tensor<{}{dtype}>", dims(shape))).collect();
    calling(target, numbers, &types, &format!("tensor<{}{dtype}>", dims(out)))
}

/// Small whole numbers, whose products are exact.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
}

/// `it` by the definition.
fn expected(it: &Product, lhs: &[f32], rhs: &[f32]) -> Vec<f32> {
    let mut out = vec![];
    let count: usize = it.batch.iter().map(|b| b.size).product();
    for index in 0..count {
        let (mut rest, mut l, mut r) = (index, 0, 0);
        for b in it.batch.iter().rev() {
            (l, r, rest) = (l + rest % b.size * b.lhs, r + rest % b.size * b.rhs, rest / b.size);
        }
        for (i, j) in (0..it.m).flat_map(|i| (0..it.n).map(move |j| (i, j))) {
            let term = |k| lhs[l + i * it.lhs.row + k * it.lhs.column] * rhs[r + k * it.rhs.row + j * it.rhs.column];
            out.push((0..it.k).map(term).sum());
        }
    }
    out
}

fn run(client: &Client, program: &str, lhs: (&[f32], &[usize]), rhs: (&[f32], &[usize])) -> Vec<f32> {
    run_with(client, program, &[lhs, rhs])
}

fn run_with(client: &Client, program: &str, operands: &[(&[f32], &[usize])]) -> Vec<f32> {
    let executable = compile(client, program);
    // What is kept on disk still finds the function.
    let kept = executable.serialize().expect("serializes");
    let executable = client.deserialize_and_load(&kept, None).expect("loads");
    let device = first_device(client);
    let signed = |shape: &[usize]| shape.iter().map(|&d| d as i64).collect::<Vec<_>>();
    let args: Vec<_> = operands.iter().map(|(values, shape)| upload(&device, values, &signed(shape))).collect();
    download(&executable.execute(&args, &ExecuteOptions::default()).expect("runs").outputs[0])
}

fn rows(row: usize) -> Strides {
    Strides { row, column: 1 }
}

fn columns(column: usize) -> Strides {
    Strides { row: 1, column }
}

#[test]
fn matrices_are_multiplied_however_they_lie() {
    let client = client_with_products(4);
    for (m, n, k) in [
        (1, 1, 1),
        (3, 5, 7),
        (1, 40, 8),
        (130, 200, 90),
        (300, 17, 260),
        (600, 15, 90),
        (20, 2, 30),
        (1100, 600, 3),
        (20, 5000, 6),
    ] {
        for (lhs, lhs_shape) in [(rows(k), [m, k]), (columns(m), [k, m])] {
            for (rhs, rhs_shape) in [(rows(n), [k, n]), (columns(k), [n, k])] {
                let it = Product { m, n, k, lhs, rhs, batch: vec![] };
                let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
                let text = program(Product::TARGET, &lhs_shape, &rhs_shape, &[m, n], &it.encode(), "f32");
                let out = run(&client, &text, (&a, &lhs_shape), (&b, &rhs_shape));
                assert!(out == expected(&it, &a, &b), "{it:?}");
            }
        }
    }
}

#[test]
fn batches_may_lie_between_rows_and_columns() {
    let client = client_with_products(4);
    // Attention: [batch, length, heads, depth] twice.
    let (b, s, t, h, d) = (3, 20, 30, 5, 16);
    let batch = vec![Batch { size: b, lhs: s * h * d, rhs: t * h * d }, Batch { size: h, lhs: d, rhs: d }];
    let it = Product { m: s, n: t, k: d, lhs: rows(h * d), rhs: columns(h * d), batch };
    let (q, k) = (numbers(b * s * h * d, 3), numbers(b * t * h * d, 4));
    let text = program(Product::TARGET, &[b, s, h, d], &[b, t, h, d], &[b, h, s, t], &it.encode(), "f32");
    assert!(run(&client, &text, (&q, &[b, s, h, d]), (&k, &[b, t, h, d])) == expected(&it, &q, &k));
}

/// Image, map and kernel of `it` as shapes, all dimensions of space in one.
fn shapes(it: &Convolution) -> [[usize; 3]; 3] {
    let Convolution { images, groups, channels, features, .. } = *it;
    let kernel = match it.computes {
        Computes::Image => [features, groups * channels, it.taps()],
        _ => [groups * features, channels, it.taps()],
    };
    [[images, groups * channels, it.plane()], [images, groups * features, it.windows()], kernel]
}

/// `it` by the definition: every product of three elements that belong together, added to the one that is computed.
fn related(it: &Convolution, image: &mut [f32], map: &mut [f32], kernel: &mut [f32]) {
    let Convolution { groups, channels, features, .. } = *it;
    let (plane, windows, taps) = (it.plane(), it.windows(), it.taps());
    for (window, tap) in (0..windows).flat_map(|w| (0..taps).map(move |t| (w, t))) {
        let Some(element) = under(it, window, tap) else { continue };
        for n in 0..it.images * groups * channels * features {
            let (n, f) = (n / features, n % features);
            let (n, c) = (n / channels, n % channels);
            let (n, g) = (n / groups, n % groups);
            let k = match it.computes {
                Computes::Image => (f * groups + g) * channels + c,
                _ => (g * features + f) * channels + c,
            };
            let image = &mut image[((n * groups + g) * channels + c) * plane + element];
            let map = &mut map[((n * groups + g) * features + f) * windows + window];
            let kernel = &mut kernel[k * taps + tap];
            match it.computes {
                Computes::Map => *map += *image * *kernel,
                Computes::Image => *image += *map * *kernel,
                Computes::Kernel => *kernel += *image * *map,
            }
        }
    }
}

/// The element of a channel that a window has under a tap.
fn under(it: &Convolution, mut window: usize, mut tap: usize) -> Option<usize> {
    let (mut element, mut size) = (0, 1);
    for a in it.axes.iter().rev() {
        let at = (window % a.map * a.stride + tap % a.taps * a.dilation) as i64 - a.low;
        element += size * usize::try_from(at).ok().filter(|&at| at < a.image)?;
        (size, window, tap) = (size * a.image, window / a.map, tap / a.taps);
    }
    Some(element)
}

fn convolutions() -> Vec<Convolution> {
    let axis = |image, map, taps, stride, dilation, low| Axis { image, map, taps, stride, dilation, low };
    let same = |side, taps: usize| vec![axis(side, side, taps, 1, 1, taps as i64 / 2); 2];
    let cases = [
        ([1, 1, 1, 1], vec![axis(5, 5, 3, 1, 1, 1)]),
        ([2, 1, 3, 5], vec![axis(40, 20, 4, 2, 1, 1), axis(9, 9, 3, 1, 1, 1)]),
        ([9, 1, 24, 20], same(7, 3)),
        ([1, 1, 40, 70], same(6, 3)),
        ([2, 1, 30, 33], same(12, 1)),
        ([6, 2, 12, 40], same(5, 1)),
        ([2, 3, 4, 5], vec![axis(11, 6, 3, 2, 2, 3), axis(8, 9, 2, 1, 1, 1)]),
        ([3, 8, 4, 4], same(14, 3)),
        ([2, 1, 4, 3], vec![axis(4, 4, 3, 1, 1, 1), axis(5, 2, 2, 3, 1, 0), axis(6, 6, 1, 1, 1, 0)]),
        ([4, 1, 3, 32], vec![axis(40, 20, 7, 2, 1, 3); 2]),
        ([3, 1, 4, 6], vec![axis(7, 2, 2, 4, 1, -1), axis(3, 9, 2, 1, 1, 4)]),
        ([1, 1, 5, 16], vec![axis(40_000, 40_000, 3, 1, 1, 1)]),
    ];
    let all = [Computes::Map, Computes::Image, Computes::Kernel];
    let of = |computes| {
        cases.clone().map(|([images, groups, channels, features], axes)| Convolution {
            computes,
            images,
            groups,
            channels,
            features,
            axes,
        })
    };
    all.into_iter().flat_map(of).collect()
}

#[test]
fn convolutions_and_their_gradients_are_computed() {
    for threads in [1, 4] {
        let client = client_with_products(threads);
        let (mut parts, mut sums) = (0, 0);
        for it in convolutions() {
            let [image, map, kernel] = shapes(&it);
            let operand = |shape: [usize; 3], seed, computed| match it.computes == computed {
                true => vec![0.0; shape.iter().product()],
                false => numbers(shape.iter().product(), seed),
            };
            let mut x = operand(image, 1, Computes::Image);
            let mut y = operand(map, 2, Computes::Map);
            let mut k = operand(kernel, 3, Computes::Kernel);
            let (lhs, rhs, out) = match it.computes {
                Computes::Map => ((x.clone(), image), (k.clone(), kernel), map),
                Computes::Image => ((y.clone(), map), (k.clone(), kernel), image),
                Computes::Kernel => ((x.clone(), image), (y.clone(), map), kernel),
            };
            let text = program(Convolution::TARGET, &lhs.1, &rhs.1, &out, &it.encode(), "f32");
            let got = run(&client, &text, (&lhs.0, &lhs.1), (&rhs.0, &rhs.1));
            related(&it, &mut x, &mut y, &mut k);
            let wanted = match it.computes {
                Computes::Map => y,
                Computes::Image => x,
                Computes::Kernel => k,
            };
            assert!(got == wanted, "{it:?}");
            let tasks = it.tasks(threads as usize);
            parts += usize::from(tasks.len() > 1);
            sums += usize::from(tasks.iter().any(|task| it.is_part_of_sum(task)));
        }
        assert!(threads == 1 || (parts > 8 && sums > 0), "{parts} in parts, {sums} of them sums");
    }
}

/// What `finish` makes of `out`, whose element `i` is of feature `feature(i)`, with `added` in order.
fn finish_by_definition(finish: Finish, out: &mut [f32], added: &[Vec<f32>], feature: impl Fn(usize) -> usize) {
    let mut added = added.iter();
    let [scale, bias, addend] =
        [finish.scale, finish.bias, finish.addend].map(|is_there| if is_there { added.next().cloned() } else { None });
    for (i, x) in out.iter_mut().enumerate() {
        *x *= scale.as_ref().map_or(1.0, |s| s[feature(i)]);
        *x += bias.as_ref().map_or(0.0, |b| b[feature(i)]);
        *x += addend.as_ref().map_or(0.0, |a| a[i]);
        if finish.relu && *x <= 0.0 {
            *x = 0.0;
        }
    }
}

/// Every way to finish.
fn finishes() -> impl Iterator<Item = Finish> {
    (0..16).map(|bits| Finish::decode(&[bits]).expect("four bits").0)
}

/// What `finish` adds to `len` elements of `features` features.
fn added(finish: Finish, features: usize, len: usize) -> Vec<Vec<f32>> {
    finish.sizes(features, len).enumerate().map(|(i, size)| numbers(size, 4 + i)).collect()
}

#[test]
fn results_are_finished_in_the_call() {
    let client = client_with_products(4);
    // Cut by rows, by columns, and by products.
    for (m, n, k, count) in [(300, 17, 260, 1), (40, 500, 90, 1), (64, 32, 40, 12), (1, 3, 2, 1)] {
        let batch = vec![Batch { size: count, lhs: m * k, rhs: 0 }];
        let it = Product { m, n, k, lhs: rows(k), rhs: rows(n), batch };
        let (mut a, b) = (numbers(count * m * k, 1), numbers(k * n, 2));
        a[0] = f32::NAN;
        let product = expected(&it, &a, &b);
        for finish in finishes() {
            let (mut wanted, added) = (product.clone(), added(finish, n, count * m * n));
            finish_by_definition(finish, &mut wanted, &added, |i| i % n);
            let own: [(&[f32], &[usize]); 2] = [(&a, &[count, m, k]), (&b, &[k, n])];
            let got = call(&client, &it.encode(), Product::TARGET, finish, own, &added, &[count, m, n]);
            assert!(same(&got, &wanted), "{it:?} {finish:?}");
        }
    }
    for it in convolutions().into_iter().filter(|it| it.computes == Computes::Map) {
        let [image, map, kernel] = shapes(&it);
        let len = |shape: [usize; 3]| shape.iter().product::<usize>();
        let (mut x, mut k, mut convolved) = (numbers(len(image), 1), numbers(len(kernel), 3), vec![0.0; len(map)]);
        related(&it, &mut x, &mut convolved, &mut k);
        for finish in finishes() {
            let (mut wanted, added) = (convolved.clone(), added(finish, map[1], len(map)));
            finish_by_definition(finish, &mut wanted, &added, |i| i / map[2] % map[1]);
            let own: [(&[f32], &[usize]); 2] = [(&x, &image), (&k, &kernel)];
            let got = call(&client, &it.encode(), Convolution::TARGET, finish, own, &added, &map);
            assert!(same(&got, &wanted), "{it:?} {finish:?}");
        }
    }
}

/// Calls `target`, whose last dimension but one (a convolution's) or last (a product's) are features.
fn call(
    client: &Client,
    numbers: &[i64],
    target: &str,
    finish: Finish,
    own: [(&[f32], &[usize]); 2],
    added: &[Vec<f32>],
    out: &[usize],
) -> Vec<f32> {
    let shapes: Vec<Vec<usize>> =
        added.iter().map(|a| if a.len() == out.iter().product() { out.to_vec() } else { vec![a.len()] }).collect();
    let mut operands = own.to_vec();
    operands.extend(added.iter().zip(&shapes).map(|(a, shape)| (&a[..], &shape[..])));
    let types: Vec<&[usize]> = operands.iter().map(|o| o.1).collect();
    run_with(client, &finished(target, &types, out, &finish.encode(numbers.to_vec()), "f32"), &operands)
}

/// Whether both are the same numbers, a NaN being like another.
fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y || x.is_nan() && y.is_nan())
}

#[test]
fn what_cannot_be_finished_is_an_error() {
    let client = client_with_products(1);
    let product = [2, 4, 3, 3, 1, 4, 1];
    let (lhs, rhs, out): (&[usize], &[usize], &[usize]) = (&[2, 3], &[3, 4], &[2, 4]);
    let gradient = convolutions().into_iter().find(|it| it.computes == Computes::Kernel).expect("there is one");
    let [image, map, kernel] = shapes(&gradient);
    let all = i64::MAX as usize;
    let endless = Convolution { computes: Computes::Map, groups: all, features: all, ..gradient.clone() };
    let with = |bits: i64, own: &[i64]| [&[bits], own].concat();
    type Case<'a> = (&'a str, Vec<&'a [usize]>, &'a [usize], Vec<i64>);
    let cases: Vec<Case<'_>> = vec![
        (Product::TARGET, vec![lhs, rhs, &[3]], out, with(2, &product)), // too few biases
        (Product::TARGET, vec![lhs, rhs], out, with(2, &product)),
        (Product::TARGET, vec![lhs, rhs, &[4]], out, with(0, &product)),
        (Product::TARGET, vec![lhs, rhs, &[4]], out, with(4, &product)), // an addend of one row
        (Product::TARGET, vec![lhs, rhs], out, with(16, &product)),
        (Product::TARGET, vec![lhs, rhs], out, with(-1, &product)),
        (Convolution::TARGET, vec![&image, &map], &kernel, with(8, &gradient.encode())),
        (Convolution::TARGET, vec![&image, &map], &kernel, with(8, &endless.encode())),
    ];
    for (target, operands, out, numbers) in cases {
        let executable = compile(&client, &finished(target, &operands, out, &numbers, "f32"));
        let device = first_device(&client);
        let zeros = |shape: &&[usize]| {
            let signed: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
            upload(&device, &vec![0.0f32; shape.iter().product()], &signed)
        };
        let args: Vec<_> = operands.iter().map(zeros).collect();
        let run = executable.execute(&args, &ExecuteOptions::default());
        let error = run.and_then(|run| run.outputs[0].to_host()).expect_err("it is wrong");
        assert!(error.to_string().contains("the call is none that torchtpu wrote"), "{error}");
    }
}

#[test]
fn what_is_no_convolution_is_an_error() {
    let client = client_with_products(1);
    let it = &convolutions()[1];
    let [image, map, kernel] = shapes(it);
    let mut far = it.clone();
    far.axes[0].low = i64::MAX;
    let mut larger = it.clone();
    larger.axes[1].map += 1;
    let right = it.encode();
    for numbers in [far.encode(), larger.encode(), right[..right.len() - 1].to_vec(), vec![7], vec![1; 11]] {
        let executable = compile(&client, &program(Convolution::TARGET, &image, &kernel, &map, &numbers, "f32"));
        let device = first_device(&client);
        let zeros = |shape: [usize; 3]| {
            let signed = shape.map(|d| d as i64);
            upload(&device, &vec![0.0f32; shape.iter().product()], &signed)
        };
        let run = executable.execute(&[zeros(image), zeros(kernel)], &ExecuteOptions::default());
        let error = run.and_then(|run| run.outputs[0].to_host()).expect_err("it is wrong");
        assert!(error.to_string().contains("the call is none that torchtpu wrote"), "{error}");
    }
}

#[test]
fn what_is_no_product_is_an_error() {
    let client = client_with_products(1);
    let good = [2, 4, 3, 3, 1, 4, 1];
    let wrong: [(&[i64], &[usize], &str); 5] = [
        (&[2, 4, 3, 4, 1, 4, 1], &[2, 4], "f32"), // reads beyond the first operand
        (&[2, 4, 3, 3, 1, 5, 1], &[2, 4], "f32"), // and beyond the second
        (&good, &[2, 5], "f32"),                  // a larger result
        (&good[..6], &[2, 4], "f32"),
        (&good, &[2, 4], "bf16"),
    ];
    for (numbers, out, dtype) in wrong {
        let executable = compile(&client, &program(Product::TARGET, &[2, 3], &[3, 4], out, numbers, dtype));
        let (device, signature) = (first_device(&client), executable.signature().clone());
        let zeros = |i: usize| {
            let ty = signature.inputs[i].clone();
            let size = ty.dims.iter().product::<i64>() as usize * if dtype == "f32" { 4 } else { 2 };
            torchtpu_runtime::Buffer::from_host(&device, &vec![0; size], (*ty).clone()).expect("uploads")
        };
        let run = executable.execute(&[zeros(0), zeros(1)], &ExecuteOptions::default());
        let error = run.and_then(|run| run.outputs[0].to_host()).expect_err("it is wrong");
        assert!(error.to_string().contains("the call is none that torchtpu wrote"), "{error}");
    }
}

/// A program that doubles what it takes, and asks for it between, once something else is there.
fn barrier(aliases: &str) -> String {
    format!(
        "func.func @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {{
           %0 = stablehlo.add %a, %a : tensor<2x3xf32>
           %c = stablehlo.convert %a : (tensor<2x3xf32>) -> tensor<2x3xi32>
           %1 = stablehlo.custom_call @torchtpu.barrier(%0, %c) {{api_version = 4 : i32{aliases}}}
             : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3xf32>
           %2 = stablehlo.add %1, %a : tensor<2x3xf32>
           return %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>
         }}"
    )
}

#[test]
fn a_barrier_gives_back_the_memory_it_was_given() {
    let client = client_with_products(1);
    let run = |aliases: &str| {
        let executable = compile(&client, &barrier(aliases));
        let x = upload(&first_device(&client), &numbers(6, 1), &[2, 3]);
        let run = executable.execute(&[x], &ExecuteOptions::default())?;
        run.outputs.iter().map(|out| out.to_host().map(|bytes| floats(&bytes))).collect::<Result<Vec<_>, _>>()
    };
    let doubled: Vec<f32> = numbers(6, 1).iter().map(|x| 2.0 * x).collect();
    let tripled: Vec<f32> = numbers(6, 1).iter().map(|x| 3.0 * x).collect();
    assert_eq!(run(&format!(", {IN_PLACE}")).expect("it is a barrier"), [doubled, tripled]);
    let error = run("").expect_err("the result lies elsewhere").to_string();
    assert!(error.contains("the call is none that torchtpu wrote"), "{error}");
}

#[test]
fn only_a_library_that_multiplies_is_taken() {
    let (_one, wrong) = blas(1);
    let (_other, right) = blas(0);
    for (path, reason) in [
        (Path::new("/no/such/library.so"), "No such file"),
        (&*plugin_path(), "it is no MKL, which has a function sgemm_"),
        (&*wrong, "its product of two small matrices is wrong"),
    ] {
        let error = plugin().offer_products(path).expect_err(reason).to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains(reason), "{error}");
    }
    plugin().offer_products(&right).expect("it multiplies");
    plugin().offer_products(&right).expect("and again");
}
