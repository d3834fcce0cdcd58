use super::*;

fn value(text: &str) -> std::result::Result<Number, String> {
    let lookup = |s: &str| match s {
        "s0" => Some(7),
        "s1" => Some(-3),
        _ => None,
    };
    Expr::parse(text).and_then(|e| e.evaluate(&lookup)).map_err(|e| e.message().to_owned())
}

#[test]
fn both_notations_evaluate() {
    let int = |i| Ok(Number::Int(i));
    for (text, want) in [
        ("s0", int(7)),
        ("2*s0 + 1", int(15)),
        ("s0*s1 - 4", int(-25)),
        ("-s0**2", int(-49)),
        ("2**-1*4", int(2)),
        ("s0//2 + s1//2", int(1)),
        ("s1 % 2", int(1)),
        ("Mod(s1, 5)", int(2)),
        ("(s0 + 1)/2", int(4)),
        ("Max(1, s0, s1)", int(7)),
        ("Min(1, s0)", int(1)),
        ("FloorDiv(Add(Symbol('s0', positive=True, integer=True), Integer(1)), Integer(3))", int(2)),
        ("Mul(Rational(1, 2), Add(Symbol('s0', integer=True), Integer(-1)))", int(3)),
        ("CeilDiv(s0, 2)", int(4)),
        ("CleanDiv(s0*4, 2)", int(14)),
        ("PythonMod(s0, 4)", int(3)),
        ("ModularIndexing(s0, 2, 2)", int(1)),
        ("TruncToInt(ToFloat(s0)/2)", int(3)),
        ("IntTrueDiv(s0, 2)", Ok(Number::Float(3.5))),
        ("Mul(Float('1.5', precision=53), ToFloat(Symbol('s0')))", Ok(Number::Float(10.5))),
        ("FloatPow(ToFloat(Integer(4)), Float('0.5', precision=53))", Ok(Number::Float(2.0))),
        ("OpaqueUnaryFn_sqrt(ToFloat(Integer(9)))", Ok(Number::Float(3.0))),
        ("GreaterThan(s0, 7)", Ok(Number::Bool(true))),
        ("(s0 > 3) & ~(s1 > 0)", Ok(Number::Bool(true))),
        ("Piecewise((1, s0 < 0), (s0, True))", int(7)),
        ("Where(Eq(s0, 7), 1, s0//0)", int(1)),
        ("9223372036854775807", int(i64::MAX)),
        ("LShift(1, 3)", int(8)),
        ("BitwiseFn_bitwise_xor(s0, s1)", int(-6)),
        ("BitwiseFn_bitwise_and(s0, 6)", int(6)),
        ("BitAnd(s0 > 3, s1 > 0)", Ok(Number::Bool(false))),
        ("RoundToInt(IntTrueDiv(s0, 2))", int(4)),
        ("RoundDecimal(Float('2.675'), 2)", Ok(Number::Float(2.67))),
        ("RoundDecimal(Float('0.125'), 2)", Ok(Number::Float(0.12))),
        ("RoundDecimal(Float('-0.375'), 2)", Ok(Number::Float(-0.38))),
        ("RoundDecimal(Float('1250.0'), -2)", Ok(Number::Float(1200.0))),
        ("RoundDecimal(Float('1e22'), 400)", Ok(Number::Float(1e22))),
        ("RoundDecimal(Float('5.0'), -400)", Ok(Number::Float(0.0))),
        ("OpaqueUnaryFn_cosh(ToFloat(Integer(0)))", Ok(Number::Float(1.0))),
        ("OpaqueUnaryFn_log2(ToFloat(Integer(8)))", Ok(Number::Float(3.0))),
    ] {
        assert_eq!(value(text), want, "{text}");
    }
}

#[test]
fn printed_expressions_read_back() {
    for text in ["2*s0 + 1", "FloorDiv(s0, -2)", "Float('2.5')*s0", "Eq(s0, 7)", "-s0**2"] {
        let expr = Expr::parse(text).expect(text);
        let again = Expr::parse(&expr.to_string()).expect("printed");
        assert_eq!(again, expr, "{text}");
    }
}

#[test]
fn faults_are_named() {
    for (text, want) in [
        ("s9 + 1", "symbol `s9` has no value"),
        ("s0//0", "division by zero"),
        ("s0**99", "does not fit 64 bits"),
        ("9223372036854775807 + s0", "does not fit 64 bits"),
        ("99999999999999999999", "does not fit 64 bits"),
        ("Frobnicate(s0)", "unknown function `Frobnicate`"),
        ("2*", "it ends too early"),
        ("(s0", "`)` expected"),
        ("s0 s1", "unexpected text at byte 3"),
        ("Symbol(s0)", "a quoted name expected"),
        ("FloorDiv(s0)", "does not take 1 arguments"),
    ] {
        let got = value(text).expect_err(text);
        assert!(got.contains(want), "{text}: {got}");
    }
    let deep = "(".repeat(100_000);
    assert!(value(&deep).expect_err("deep").contains("too long"));
    assert!(value(&"(".repeat(5000)).expect_err("deep").contains("too deeply"));
    assert!(value(&"-".repeat(5000)).is_err());
    assert!(value(&"~".repeat(5000)).is_err());
    for op in ["//", "/", "%", "==", "<"] {
        let chain = format!("s0{}", format!("{op}1").repeat(20_000));
        assert!(value(&chain).expect_err(op).contains("too deeply"), "{op}");
    }
}

#[test]
fn long_chains_do_not_nest() {
    let chain = |op: &str, n| format!("s0{}", format!("{op}1").repeat(n));
    for (op, want) in [("+", 30_007), ("-", -29_993), ("*", 7)] {
        assert_eq!(value(&chain(op, 30_000)), Ok(Number::Int(want)), "{op}");
    }
}

#[test]
fn linear_forms_are_solved() {
    let solve = |text: &str, value| Expr::parse(text).expect(text).solve(value);
    assert_eq!(solve("s0", 5), Some(("s0".into(), 5)));
    assert_eq!(solve("2*s0", 6), Some(("s0".into(), 3)));
    assert_eq!(solve("2*s0", 5), None);
    assert_eq!(solve("2*s0 + 3", 13), Some(("s0".into(), 5)));
    assert_eq!(solve("2*(s0 + 1)", 12), Some(("s0".into(), 5)));
    assert_eq!(solve("s0*s1", 12), None);
    assert_eq!(solve("s0 + s1", 12), None);
    assert_eq!(solve("7", 7), None);
}

#[test]
fn truth_values_have_symbols() {
    let flag = |text: &str| Expr::parse(text).expect(text).flag();
    assert_eq!(flag("Unequality(Symbol('gt_value', integer=True), Integer(0))"), Some("gt_value".into()));
    assert_eq!(flag("Ne(u0, 1)"), None);
    assert_eq!(flag("Ne(u0 + 1, 0)"), None);
    assert_eq!(flag("u0"), None);
}

#[test]
fn what_was_learned_holds_in_bodies() {
    let symbols = Symbols::new([("s0".into(), 3)].into());
    symbols.learn("u0".into(), 2);
    let of = |name: &str| Sym { expr: name.into(), free: [name.into()].into(), value: Number::Int(0) };
    symbols.consult(&of("s0"));
    assert!(symbols.is_decided(&of("s0")));
    assert!(!symbols.is_decided(&of("u0")));
    let inner = symbols.unconsulted();
    assert_eq!((inner.get("s0"), inner.get("u0")), (Some(3), Some(2)));
    assert!(inner.is_learned("u0"));
    assert!(inner.consulted().is_empty());
}
