use super::*;
use crate::builder::Builder;
use crate::dtype::DType;
use crate::graph::ValueId;
use crate::literal::{Literal, Number};
use crate::ops::sample;
use crate::types::TensorType;
use crate::{Binary, Comparison, Unary};
use insta::assert_snapshot;
use proptest::prelude::*;

fn example() -> Graph {
    let b = Builder::new("main");
    let x = b.input("x", InputKind::User, TensorType::new(DType::F32, [2, 3]));
    let w = b.input("layer.\"w\"", InputKind::Parameter, TensorType::new(DType::F32, [3, 2]));
    let n = b.input("n", InputKind::Symbol("s0 + 1".into()), TensorType::new(DType::I64, []));
    let loc = Loc { file: "model.py".into(), line: 12, function: "forward".into(), ..Loc::default() };
    b.set_loc(&loc);
    let w = b.transpose(w, &[1, 0]).unwrap();
    let sum = b.add(x, w).unwrap();
    let two = b.full(Number::Float(2.5), DType::F32, &[2, 3]).unwrap();
    let less = b.compare(Comparison::Lt, sum, two).unwrap();
    let picked = b.select(less, b.unary(Unary::Tanh, sum).unwrap(), two).unwrap();
    let n = counted(&b, n);
    b.output("out", OutputKind::Mutation(0), picked);
    b.output("n", OutputKind::User, n);
    b.finish()
}

/// Counts to ten in a loop.
fn counted(b: &Builder, start: ValueId) -> ValueId {
    let body = |name: &str, step: &dyn Fn(&Builder, ValueId, ValueId) -> ValueId| {
        let b = Builder::new(name);
        let i = b.input("i", InputKind::User, TensorType::new(DType::I64, []));
        let ten = b.scalar(Number::Int(10), DType::I64).unwrap();
        b.output("next", OutputKind::User, step(&b, i, ten));
        b.finish()
    };
    let cond = body("cond", &|b, i, ten| b.compare(Comparison::Lt, i, ten).unwrap());
    let step = body("body", &|b, i, ten| b.binary(Binary::Add, i, ten).unwrap());
    b.while_loop(&[start], cond, step).unwrap()[0]
}

fn survives(graph: &Graph) {
    let text = print(graph);
    let back = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(print(&back), text);
    assert_eq!(canonical(&back), canonical(graph));
}

#[test]
fn positions_survive() {
    let b = Builder::new("main");
    b.output("out", OutputKind::User, b.position_input(3));
    survives(&b.finish());
}

#[test]
fn a_program_prints_and_parses_back() {
    assert_snapshot!(print(&example()), @r#"
    graph @main {
      %0: f32[2,3] = input 0 "x" user
      %1: f32[3,2] = input 1 "layer.\"w\"" parameter
      %2: i64[] = input 2 "n" symbol "s0 + 1"
      %3: f32[2,3] = transpose(permutation:[1,0]) %1 @1
      %4: f32[2,3] = add %0, %3 @1
      %5: f32[] = constant 2.5 @1
      %6: f32[2,3] = broadcast_in_dim(shape:[2,3],dims:[]) %5 @1
      %7: bool[2,3] = compare_lt %4, %6 @1
      %8: f32[2,3] = tanh %4 @1
      %9: f32[2,3] = select %7, %8, %6 @1
      %10: (i64[]) = while %2 @1 {
        graph @cond {
          %0: i64[] = input 0 "i" user
          %1: i64[] = constant 10
          %2: bool[] = compare_lt %0, %1
          return %2 "next"
        }
        graph @body {
          %0: i64[] = input 0 "i" user
          %1: i64[] = constant 10
          %2: i64[] = add %0, %1
          return %2 "next"
        }
      }
      %11: i64[] = get_tuple_element(index:0) %10 @1
      return %9 "out" mutates 0, %11 "n"
      @1 = "model.py":12 in "forward"
    }
    "#);
    survives(&example());
}

#[test]
fn the_canonical_form_has_no_locations() {
    assert!(!canonical(&example()).contains("model.py"));
    let parsed = parse(&canonical(&example())).unwrap();
    assert_eq!(canonical(&parsed), canonical(&example()));
}

#[test]
fn every_sample_of_the_op_table_survives() {
    sample::expansions().for_each(|(_, expansion)| survives(&expansion.graph));
}

#[test]
fn errors_name_their_line() {
    let text = |node: &str| format!("graph @g {{\n  %0: f32[2] = input 0 \"x\" user\n  {node}\n  return\n}}\n");
    let said = |node: &str| parse(&text(node)).unwrap_err().message().to_owned();
    assert_eq!(said("%1: f32[3] = tanh %0"), "line 3: declared f32[3], but the op gives f32[2]");
    assert_eq!(said("%1: f32[2] = tanh %1"), "line 3: %1 is not computed before %1");
    assert_eq!(said("%2: f32[2] = tanh %0"), "line 3: %2 stands where %1 belongs");
    assert_eq!(said("%1: f32[2] = tanh %0 @4"), "line 5: @4 of %1 is not in the table");
    assert_eq!(said("%1: f32[2] = unary(tanh) %0"), "line 3: `unary(tanh)` is not how this op is written");
    assert_eq!(said("%1: i8[] = constant 200"), "line 3: `200` is no element of i8");
    assert_eq!(said("%1: i8[3] = constant [1, 2]"), "line 3: the list does not hold the elements of i8[3]");
    assert_eq!(said("%1: f32[2] = add %0, %0, %0"), "line 3: takes 2 operands, got 3");
    assert_eq!(said("%1: f32[2] = sort(dim:0"), "line 3: a parenthesis is not closed");
    assert_eq!(said("%1: f32[2] = input 3 \"y\" user"), "%1 is not input 3 of @g");
}

#[test]
fn deep_nesting_is_refused() {
    let open = "graph @g { %0: f32[] = while { ".repeat(100_000);
    assert!(parse(&open).unwrap_err().message().contains("nest deeper than 32"));
}

fn literals() -> impl Strategy<Value = Literal> {
    let dtypes = proptest::sample::select(&DType::ALL[..]);
    let shapes = proptest::collection::vec(0usize..4, 0..3);
    (dtypes, shapes, any::<bool>(), proptest::collection::vec(any::<u8>(), 256)).prop_map(|(d, shape, splat, bytes)| {
        let ty = TensorType::new(d, shape);
        let n = if splat { d.size() } else { ty.size_in_bytes() };
        let bits = |b: &u8| if d == DType::Bool { b & 1 } else { *b };
        Literal { ty, bytes: bytes[..n].iter().map(bits).collect() }
    })
}

proptest! {
    #[test]
    fn constants_survive_to_the_bit(literal in literals()) {
        let b = Builder::new("g");
        let v = b.constant(literal.clone()).unwrap();
        b.output("v", OutputKind::User, v);
        let back = parse(&print(&b.finish())).unwrap();
        prop_assert_eq!(&back.nodes()[0].op, &Op::Constant(literal));
    }

    #[test]
    fn no_text_makes_the_parser_panic(cut in 0usize..4000, put in "[ -~\n]{0,12}", len in 0usize..40) {
        let mut text = print(&example());
        let from = cut.min(text.len());
        let to = (from + len).min(text.len());
        text.replace_range(from..to, &put);
        let _ = parse(&text);
    }
}
