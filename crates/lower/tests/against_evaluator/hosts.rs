//! What programs ask the host for.

use super::*;

/// A judge whose programs may ask.
pub(super) fn asking() -> Judge {
    let j = Judge::new();
    let (_dir, library) = blas::blas(0);
    j.machine().plugin().offer_products(&library).unwrap();
    j
}

#[test]
fn functions_of_the_host() {
    let mut j = asking();
    for dtype in [DType::F32, DType::F64] {
        let x = specials(dtype);
        let number = Literal::splat(Number::Float(0.75), dtype, []);
        for u in UNARY.into_iter().filter(|u| u.hosted().is_some()) {
            j.op(&format!("{u:?} {dtype}"), Op::HostUnary(u), &[&x], unary_tolerance(u, dtype));
        }
        for b in BINARY.into_iter().filter(|b| b.hosted().is_some()) {
            let (x, y) = binary_operands(b, dtype).unwrap();
            for args in [[&x, &y], [&x, &number], [&number, &y]] {
                j.op(&format!("{b:?} {dtype}"), Op::HostBinary(b), &args, binary_tolerance(b, dtype));
            }
        }
    }
}

#[test]
fn scans_of_the_host() {
    let mut j = asking();
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64] {
        for reducer in [Reducer::Add, Reducer::Multiply, Reducer::Maximum, Reducer::Minimum] {
            let shape = [5, 13, 3];
            for (x, dim) in [(specials(dtype), 0), (noise(dtype, &shape, 1), 1), (small(dtype, &shape, 2), 0)] {
                let scan = |backwards| Op::HostScan(Scan { reducer, dim, backwards });
                j.op(&format!("{reducer:?} {dtype} along {dim}"), scan(false), &[&x], EXACT);
                // The evaluator sums `f64` from an element to the end, the host from the end to the element.
                if dtype != DType::F64 || dim == 0 {
                    j.op(&format!("{reducer:?} {dtype} along {dim}, backwards"), scan(true), &[&x], EXACT);
                }
            }
        }
    }
}

#[test]
fn sorts_of_the_host() {
    let mut j = asking();
    let dtypes = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64, DType::U8, DType::I16];
    for (i, dtype) in dtypes.into_iter().enumerate() {
        let shape = [5, 13, 3];
        let other = noise(DType::F32, &shape, 3);
        for (dim, start, limit) in [(0, 0, 5), (1, 2, 9), (2, 1, 2)] {
            let (descending, places) = (i % 2 == 0, [Some(DType::I64), None, Some(DType::I32)][dim]);
            let nan_first = i % 3 == 0;
            let sort = Op::HostSort(SortedPart { dim, descending, nan_first, start, limit, places });
            j.op(&format!("{dtype} along {dim}"), sort.clone(), &[&small(dtype, &shape, 2)], EXACT);
            j.op(&format!("{dtype} with another along {dim}"), sort, &[&small(dtype, &shape, 2), &other], EXACT);
        }
        let special = specials(dtype);
        for nan_first in [false, true] {
            let limit = special.ty.shape[0];
            let whole = SortedPart { dim: 0, descending: false, nan_first, start: 0, limit, places: None };
            j.op(&format!("special {dtype}"), Op::HostSort(whole), &[&special], EXACT);
        }
    }
}

#[test]
fn scatters_of_the_host() {
    let mut j = asking();
    let scatter = |combiner, batch| Scatter {
        combiner,
        update_window_dims: smallvec![],
        inserted_window_dims: smallvec![1 - batch],
        input_batching_dims: smallvec![batch],
        scatter_indices_batching_dims: smallvec![batch],
        scatter_dims_to_operand_dims: smallvec![1 - batch],
        index_vector_dim: 2,
        unique_indices: false,
    };
    for combiner in COMBINERS {
        for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::BF16, DType::F16, DType::Bool] {
            for (batch, shape, many) in [(0, [3, 7], [3, 11]), (1, [7, 3], [11, 3])] {
                let places: Vec<i64> = (0..33).map(|i| i * 5 % 9 - 1).collect();
                for counted in [DType::I32, DType::I64] {
                    let indices = ints(counted, &[many[0], many[1], 1], &places);
                    let (a, updates) = (noise(dtype, &shape, 1), noise(dtype, &many, 2));
                    let what = format!("{combiner:?} of {dtype} in batches of dimension {batch}, by {counted}");
                    j.op(&what, Op::HostScatter(scatter(combiner, batch)), &[&a, &indices, &updates], EXACT);
                }
            }
        }
    }
}

#[test]
fn products_of_the_host() {
    let mut j = asking();
    let mut asked = 0;
    for dtype in [DType::F32, DType::F64] {
        // Batch, rows, contracted and columns, in several orders.
        for (lhs, rhs) in
            [([0, 1, 2], [0, 2, 1]), ([1, 0, 2], [2, 0, 1]), ([2, 0, 1], [1, 2, 0]), ([0, 2, 1], [2, 1, 0])]
        {
            for [b, m, k, n] in [[3, 4, 5, 6], [1, 40, 50, 60], [3, 1, 5, 6], [2, 4, 1, 6], [2, 4, 5, 1]] {
                let at = |order: [usize; 3], dim| order.iter().position(|&d| d == dim).unwrap();
                let d = DotGeneral {
                    lhs_batch: smallvec![at(lhs, 0)],
                    rhs_batch: smallvec![at(rhs, 0)],
                    lhs_contract: smallvec![at(lhs, 2)],
                    rhs_contract: smallvec![at(rhs, 1)],
                    precision: Precision::Default,
                    out: dtype,
                    host: true,
                };
                let (x, y) = (small(dtype, &lhs.map(|i| [b, m, k][i]), 1), small(dtype, &rhs.map(|i| [b, k, n][i]), 2));
                asked += usize::from(d.strided(&x.ty, &y.ty).is_some());
                j.op(&format!("{dtype} {lhs:?} {rhs:?} {m} {k} {n}"), Op::DotGeneral(d), &[&x, &y], EXACT);
            }
        }
    }
    assert!(asked > 20, "{asked}");
}

/// A convolution of images that lie as the host takes them.
fn of_the_host(dtype: DType) -> Convolution {
    Convolution {
        input_feature: 1,
        input_spatial: smallvec![2, 3],
        kernel_spatial: smallvec![2, 3],
        output_spatial: smallvec![2, 3],
        host: true,
        ..programs::asymmetric_convolution(dtype)
    }
}

#[test]
fn convolutions_of_the_host() {
    let mut j = asking();
    let plain = Convolution {
        strides: smallvec![1, 1],
        padding: smallvec![(1, 2), (-1, 3)],
        lhs_dilation: smallvec![1, 1],
        rhs_dilation: smallvec![2, 1],
        ..of_the_host(DType::F32)
    };
    for (out, groups) in [(DType::F32, 1), (DType::F64, 2), (DType::F32, 3)] {
        let map = Convolution { strides: smallvec![2, 1], feature_group_count: groups, out, ..plain.clone() };
        let image = Convolution {
            lhs_dilation: smallvec![1, 3],
            kernel_input_feature: 0,
            kernel_output_feature: 1,
            reversed: true,
            feature_group_count: groups,
            out,
            ..plain.clone()
        };
        let kernel = Convolution {
            strides: smallvec![1, 2],
            input_batch: 1,
            input_feature: 0,
            kernel_input_feature: 0,
            kernel_output_feature: 1,
            output_batch: 1,
            output_feature: 0,
            batch_group_count: groups,
            out,
            ..plain.clone()
        };
        let (wide, narrow, deep) = ([3, 4 * groups, 9, 8], [5 * groups, 4, 3, 2], [5, 4 * groups, 3, 2]);
        for (c, x, k) in
            [(map, wide, narrow), (image, [3, 5 * groups, 6, 4], deep), (kernel, wide, [3, 5 * groups, 2, 3])]
        {
            let (x, k) = (small(out, &x, 1), small(out, &k, 2));
            assert!(c.windows(&x.ty, &k.ty).is_some(), "{c:?}");
            j.op(&format!("{c:?}"), Op::Convolution(c), &[&x, &k], EXACT);
        }
    }
}

#[test]
fn results_finished_by_the_host() {
    let mut j = asking();
    for dtype in [DType::F32, DType::F64] {
        let product = DotGeneral {
            lhs_batch: smallvec![0],
            rhs_batch: smallvec![0],
            lhs_contract: smallvec![2],
            rhs_contract: smallvec![1],
            precision: Precision::Default,
            out: dtype,
            host: true,
        };
        let convolution = Convolution {
            strides: smallvec![1, 1],
            padding: smallvec![(0, 0), (0, 0)],
            lhs_dilation: smallvec![1, 1],
            rhs_dilation: smallvec![1, 1],
            ..of_the_host(dtype)
        };
        // The product's features are two dimensions.
        type Case<'a> = (Op, [&'a [usize]; 2], &'a [usize], &'a [usize]);
        let cases: [Case<'_>; 2] = [
            (Op::DotGeneral(product), [&[2, 5, 6], &[2, 6, 3, 4]], &[2, 5, 3, 4], &[3, 4]),
            (Op::Convolution(convolution), [&[2, 4, 6, 5], &[7, 4, 3, 2]], &[2, 7, 4, 4], &[7]),
        ];
        for ((of, [x, y], out, features), bits) in
            cases.into_iter().flat_map(|c| (0..16).map(move |bits| (c.clone(), bits)))
        {
            let [scale, bias, addend, relu] = [0, 1, 2, 3].map(|i| bits >> i & 1 == 1);
            let added = [(scale, features), (bias, features), (addend, out)];
            let shapes = [x, y].into_iter().chain(added.into_iter().filter(|a| a.0).map(|a| a.1));
            let operands: Vec<Literal> = shapes.enumerate().map(|(i, shape)| small(dtype, shape, i as u64)).collect();
            let op = Op::Finished(Box::new(Finished { of, scale, bias, addend, relu }));
            j.op(&format!("{op:?}"), op, &operands.iter().collect::<Vec<_>>(), EXACT);
        }
    }
}
