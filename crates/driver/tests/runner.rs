//! Programs on the CPU plugin: what they compute, what they compile, what they write and what they refuse. The traces
//! and the values PyTorch computed are those of `testdata/traces`.

#![allow(clippy::unwrap_used)]

#[path = "../../runtime/tests/common/division.rs"]
mod division;
#[path = "../../runtime/tests/common/plugin.rs"]
mod plugin;

use division::{is_divided, may_be_divided};
use ir::import::InputValue;
use ir::{DType, TensorType};
use runtime::{AlignedBytes, HostMemory};
use serde_json::Value as Json;
use std::sync::Arc;
use torchtpu_driver::*;

fn session() -> Arc<Session> {
    Arc::new(Session::new(plugin::path().to_str(), None).unwrap())
}

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../../testdata/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn program(name: &str) -> Arc<Program> {
    Arc::new(Program::from_bytes(file(&format!("{name}.json")), Options::default()).unwrap())
}

fn values(name: &str) -> Json {
    serde_json::from_slice(&file(&format!("{name}.values.json"))).unwrap()
}

/// A tensor of `ty` that holds `numbers`, row-major.
fn tensor(ty: &TensorType, numbers: &[f64]) -> HostTensor {
    assert_eq!(numbers.len(), ty.numel());
    let bytes: Vec<u8> = numbers.iter().flat_map(|&n| ir::Number::Float(n).to_bytes(ty.dtype)).collect();
    HostTensor::contiguous(ty, HostMemory::from(AlignedBytes::copy_of(&bytes).unwrap()))
}

fn f32s(shape: &[usize], numbers: &[f64]) -> Argument {
    Argument::Tensor(tensor(&TensorType::new(DType::F32, shape.iter().copied()), numbers))
}

fn counted(shape: &[usize]) -> Argument {
    f32s(shape, &(0..shape.iter().product()).map(|i| i as f64).collect::<Vec<_>>())
}

fn numbers(list: &Json) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
}

/// The arguments that PyTorch had.
fn arguments(program: &Program, values: &Json) -> Vec<Argument> {
    let dims =
        values["dims"].as_object().unwrap().iter().map(|(name, n)| (name.clone(), n.as_i64().unwrap())).collect();
    let inputs = program.import(&dims).unwrap().inputs;
    let argument = |(name, value): (String, InputValue)| match value {
        InputValue::Tensor { ty, .. } => Argument::Tensor(tensor(&ty, &numbers(&values["inputs"][&name]))),
        InputValue::Constant => Argument::None,
        InputValue::Symbol(_) => panic!("`{name}` is a symbol"),
    };
    inputs.into_iter().map(|input| argument((input.name, input.value))).collect()
}

fn no_seed() -> impl FnMut() -> Result<[u64; 2]> {
    || panic!("nothing here is random")
}

fn run(runner: &Runner, arguments: &[Argument]) -> Result<Vec<Value>> {
    runner.run(arguments, &mut no_seed())
}

fn decoded(bytes: &[u8], dtype: DType) -> Vec<f64> {
    let element = |chunk: &[u8]| match dtype {
        DType::F32 => f64::from(f32::from_ne_bytes(chunk.try_into().unwrap())),
        DType::I64 => i64::from_ne_bytes(chunk.try_into().unwrap()) as f64,
        other => panic!("no test has results of {other}"),
    };
    bytes.chunks_exact(dtype.size()).map(element).collect()
}

/// What a result holds, a number in a list of its own.
fn shown(results: &[Value], at: usize, arguments: &[Argument]) -> Vec<f64> {
    match &results[at] {
        Value::Tensor(t) => decoded(&t.dense_bytes().unwrap(), t.dtype),
        Value::Argument(n) => held(&arguments[*n]),
        Value::Result(n) => shown(results, *n, arguments),
        Value::Int(n) => vec![*n as f64],
        Value::Float(x) => vec![*x],
        Value::Bool(_) | Value::None => panic!("result {at} is no number"),
    }
}

fn held(argument: &Argument) -> Vec<f64> {
    let Argument::Tensor(t) = argument else { panic!("a number") };
    decoded(&t.dense_bytes(), t.dtype)
}

fn assert_close(got: &[f64], wanted: &[f64], what: &str) {
    let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 + 1e-5 * b.abs();
    assert!(got.len() == wanted.len() && got.iter().zip(wanted).all(close), "{what}: {got:?}, not {wanted:?}");
}

/// Runs a program on PyTorch's arguments and compares its results and what it wrote.
fn check(name: &str) {
    let (program, values) = (program(name), values(name));
    let arguments = arguments(&program, &values);
    let names: Vec<String> = program
        .import(&program.bind(&arguments).unwrap())
        .unwrap()
        .inputs
        .into_iter()
        .map(|input| input.name)
        .collect();
    let results = run(&Runner::new(program, session()), &arguments).unwrap();
    let wanted = values["outputs"].as_array().unwrap();
    assert_eq!(results.len(), wanted.len());
    for (i, output) in wanted.iter().enumerate() {
        let wanted = match output {
            Json::Object(tensor) => numbers(&tensor["values"]),
            Json::Number(n) => vec![n.as_f64().unwrap()],
            _ => {
                assert!(matches!(results[i], Value::None | Value::Bool(_)), "result {i} is no tensor");
                continue;
            }
        };
        assert_close(&shown(&results, i, &arguments), &wanted, &format!("result {i}"));
    }
    for (name, next) in values["mutations"].as_object().unwrap() {
        let at = names.iter().position(|n| n == name).unwrap();
        assert_close(&held(&arguments[at]), &numbers(next), name);
    }
}

#[test]
fn results_and_writes_are_those_of_pytorch() {
    ["mlp", "mutation", "dynamic", "lists", "channels_last"].into_iter().for_each(check);
}

/// Rows of `x` and `y` for the program `dynamic`, whose sizes are symbols.
fn rows(x: usize, y: usize) -> [Argument; 2] {
    [counted(&[x, 6]), counted(&[y, 6])]
}

#[test]
fn a_program_is_compiled_once_for_each_set_of_sizes() {
    let session = session();
    let runner = Runner::new(program("dynamic"), session.clone());
    runner.prepare(0).unwrap();
    assert_eq!(session.stats().compiles, 0, "no sizes are known before a call");
    for (sizes, compiles) in [((4, 5), 1), ((3, 7), 2), ((4, 5), 2), ((3, 7), 2), ((4, 7), 3)] {
        let results = run(&runner, &rows(sizes.0, sizes.1)).unwrap();
        assert_eq!(shown(&results, 1, &[]), [(sizes.0 + sizes.1 + 1) as f64]);
        assert_eq!(shown(&results, 0, &[]).len(), (sizes.0 + sizes.1) * 6);
        assert_eq!(session.stats().compiles, compiles, "{sizes:?}");
    }
    assert_eq!(session.stats().executions, 5);
}

#[test]
fn threads_compile_a_program_once() {
    let session = session();
    let runner = Runner::new(program("dynamic"), session.clone());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(run(&runner, &rows(4, 5)).unwrap().len(), 3));
        }
    });
    assert_eq!(session.stats().compiles, 1);
    assert_eq!(session.stats().executions, 8);
}

#[test]
fn runners_of_equal_programs_share_an_executable() {
    let session = session();
    let first = Runner::new(program("mlp"), session.clone());
    first.prepare(0).unwrap();
    Runner::new(program("mlp"), session.clone()).prepare(0).unwrap();
    let stats = session.stats();
    assert_eq!((stats.compiles, stats.cache_hits), (1, 1));
}

#[test]
fn a_later_session_finds_the_executable_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let stats = [(), ()].map(|()| {
        let disk = DiskCache::new(folder.path(), DEFAULT_LIMIT);
        let session = Arc::new(Session::new(plugin::path().to_str(), Some(disk)).unwrap());
        Runner::new(program("mlp"), session.clone()).prepare(0).unwrap();
        (session.stats().compiles, session.stats().disk_hits)
    });
    assert_eq!(stats, [(1, 0), (0, 1)]);
}

/// The buffer and the argument of the program `mutation`.
fn mutated() -> [Argument; 2] {
    [f32s(&[3], &[0.0; 3]), counted(&[2, 3])]
}

#[test]
fn what_a_program_writes_stays_where_it_was() {
    let runner = Runner::new(program("mutation"), session());
    let arguments = mutated();
    let results = run(&runner, &arguments).unwrap();
    assert!(matches!(results[1], Value::Argument(0)), "the buffer itself is returned");
    assert_eq!(held(&arguments[0]), [5.0, 1.0, 1.0]);
    assert_eq!(held(&arguments[1]), [5.0, 1.0, 1.0, 3.0, 4.0, 5.0]);
    // Once more, from what the first call left there.
    run(&runner, &arguments).unwrap();
    assert_eq!(held(&arguments[0]), [5.0, 2.0, 2.0]);
}

#[test]
fn a_strided_argument_is_written_through_its_strides() {
    let runner = Runner::new(program("mutation"), session());
    let [buffer, x] = mutated();
    let Argument::Tensor(mut x) = x else { panic!("a tensor") };
    x.strides = Strides::from_slice(&[1, 2]);
    let arguments = [buffer, Argument::Tensor(x)];
    let before = held(&arguments[1]);
    assert_eq!(before, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    let results = run(&runner, &arguments).unwrap();
    assert_eq!(held(&arguments[1]), [5.0, 1.0, 1.0, 1.0, 3.0, 5.0]);
    assert_eq!(shown(&results, 0, &arguments), held(&arguments[1]));
}

#[test]
fn arguments_that_share_memory_are_not_written_in_place() {
    let (program, values) = (program("mlp"), values("mlp"));
    let runner = Runner::new(program.clone(), session());
    // The running mean and variance, both `f32[4]`, both written.
    let (mean, variance) = (6, 7);
    let with_ones = || {
        let mut arguments = arguments(&program, &values);
        arguments[mean] = f32s(&[4], &[1.0; 4]);
        arguments[variance] = f32s(&[4], &[1.0; 4]);
        arguments
    };
    let apart = with_ones();
    let wanted = shown(&run(&runner, &apart).unwrap(), 0, &apart);
    let mut shared = with_ones();
    let Argument::Tensor(t) = &shared[mean] else { panic!("a tensor") };
    shared[variance] = Argument::Tensor(HostTensor::contiguous(&TensorType::new(DType::F32, [4]), t.memory.share()));
    assert_close(&shown(&run(&runner, &shared).unwrap(), 0, &shared), &wanted, "the result");
    // One of the two writes is there whole.
    let left = held(&shared[mean]);
    assert!([mean, variance].iter().any(|&n| held(&apart[n]) == left), "{left:?}");
}

/// The message of an `Argument` error.
fn refused(runner: &Runner, arguments: &[Argument]) -> String {
    match run(runner, arguments) {
        Err(Error::Argument(message)) => message,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it ran"),
    }
}

#[test]
fn wrong_arguments_are_refused_by_name() {
    let runner = Runner::new(program("mutation"), session());
    let buffer = || f32s(&[3], &[0.0; 3]);
    let wanted = "argument 1 (`x`) must be a tensor of f32[2,3], got ";
    let double = TensorType::new(DType::F64, [2, 3]);
    for (argument, got) in [
        (counted(&[3, 2]), "f32[3,2]"),
        (Argument::Tensor(tensor(&double, &[0.0; 6])), "f64[2,3]"),
        (Argument::Int(1), "a number"),
        (Argument::Float(1.0), "a number"),
        (Argument::None, "None"),
    ] {
        assert_eq!(refused(&runner, &[buffer(), argument]), format!("{wanted}{got}"));
    }
    assert_eq!(refused(&runner, &[buffer()]), format!("{wanted}nothing"));
}

#[test]
fn sizes_that_contradict_the_trace_are_refused_by_name() {
    let runner = Runner::new(program("dynamic"), session());
    let Err(error) = run(&runner, &[counted(&[4, 5]), counted(&[5, 6])]) else { panic!("it ran") };
    assert!(matches!(error, Error::Program(_)) && error.to_string().contains("`x`"), "{error}");
    let Err(error) = run(&runner, &rows(2, 5)) else { panic!("it ran") };
    assert!(error.to_string().contains("makes `s77` 2, outside the range 3..=64"), "{error}");
    assert_eq!(runner.session().stats().compiles, 0);
}

#[test]
fn a_program_says_what_it_takes() {
    let program = program("dynamic");
    assert!(program.is_symbolic() && program.num_nodes() > 0 && program.unsupported().is_empty());
    let dims = program.bind(&rows(3, 7)).unwrap();
    assert_eq!(dims.values().copied().collect::<Vec<_>>(), [7, 3], "{dims:?}");
    let tensors = program.user_tensors(&dims).unwrap();
    let shown: Vec<String> = tensors.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    assert_eq!(shown, ["x: f32[3,6]", "y: f32[7,6]"]);
    let Err(error) = program.arguments(&dims, |_| None) else { panic!("`x` is missing") };
    assert_eq!(error.to_string(), "input `x` is missing");
}

#[test]
fn a_program_shows_its_stages() {
    let (program, session, dims) = (program("mlp"), session(), DimValues::new());
    for (stage, sign) in [("core", "graph @"), ("fused", "graph @"), ("stablehlo", "func.func"), ("hlo", "HloModule")] {
        let text = program.text(stage.parse().unwrap(), &dims, Some(&session)).unwrap();
        assert!(text.contains(sign), "{stage}: {text}");
    }
    let Err(error) = program.text(Stage::Hlo, &dims, None) else { panic!("nothing compiles it") };
    assert_eq!(error.to_string(), "the hlo stage needs a plugin");
    let Err(error) = "llvm".parse::<Stage>() else { panic!("there is none") };
    assert_eq!(error.to_string(), "there is no stage `llvm`; the stages are core, fused, stablehlo and hlo");
}

#[test]
fn only_long_programs_are_divided_among_threads() {
    let session = session();
    let divides = |n: usize| {
        let text = format!(
            "graph @sum {{\n  %0: f32[{n}] = input 0 \"x\" user\n  %1: f32[{n}] = add %0, %0\n  return %1 \"y\"\n}}"
        );
        let kernel = session.kernel(&ir::text::parse(&text).unwrap()).unwrap();
        is_divided(&kernel.serialize().unwrap())
    };
    assert!(!divides(300_000));
    assert_eq!(divides(3_000_000), may_be_divided());
}

#[test]
fn only_long_compiled_programs_are_divided_among_threads() {
    let divides = |more_rows: usize| {
        let folder = tempfile::tempdir().unwrap();
        let disk = DiskCache::new(folder.path(), DEFAULT_LIMIT);
        let session = Arc::new(Session::new(plugin::path().to_str(), Some(disk)).unwrap());
        run(&Runner::new(program("dynamic"), session), &rows(3, more_rows)).unwrap();
        let kept: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
        is_divided(&std::fs::read(&kept[0]).unwrap())
    };
    assert!(!divides(12_000));
    assert_eq!(divides(1_000_000), may_be_divided());
}

fn partitioned(name: &str, mesh: &str, rules: &str) -> Partitioned {
    let by = Partitioning { mesh: mesh.parse().unwrap(), rules: serde_json::from_str(rules).unwrap() };
    program(name).partitioned(&DimValues::new(), &by).unwrap()
}

fn devices(count: usize) -> Arc<Session> {
    Arc::new(Session::with_cpu_devices(plugin::path().to_str(), count, None).unwrap())
}

#[test]
fn results_of_any_layout_are_put_together() {
    // The first result is stored with its channels last: it is split by its logical rows and columns.
    let rules = r#"{"x": ["a", null, "b"], "output.0": [null, null, "a", "b"], "output.1": [["b", "a"]]}"#;
    let loaded = partitioned("channels_last", "a=2,b=2", rules).compile(devices(4)).unwrap();
    let arguments = [counted(&[2, 3, 2, 2])];
    let whole = run(&Runner::new(program("channels_last"), session()), &arguments).unwrap();
    let split = loaded.run(&arguments, &mut no_seed()).unwrap();
    for at in 0..2 {
        assert_eq!(shown(&split, at, &arguments), shown(&whole, at, &arguments), "result {at}");
    }
    assert_eq!(loaded.program().argument_bytes(), 24 * 4 / 4);
    let parts: Vec<_> = loaded.executable().output_types().iter().map(|ty| ty.dims.to_vec()).collect();
    assert_eq!(parts, [vec![2, 1, 1, 3], vec![6]]);
}

#[test]
fn what_a_partitioned_program_writes_is_written_back() {
    let loaded = partitioned("mutation", "a=2", r#"{"x": ["a"]}"#).compile(devices(2)).unwrap();
    let [split, whole] = [mutated(), mutated()];
    let results = loaded.run(&split, &mut no_seed()).unwrap();
    run(&Runner::new(program("mutation"), session()), &whole).unwrap();
    assert!(matches!(results[1], Value::Argument(0)), "the buffer itself is returned");
    assert_eq!((held(&split[0]), held(&split[1])), (held(&whole[0]), held(&whole[1])));
}

#[test]
fn a_mesh_that_is_too_large_is_refused() {
    let Err(error) = partitioned("mutation", "a=2", r#"{"x": ["a"]}"#).compile(devices(1)) else { panic!("it fits") };
    assert_eq!(error.to_string(), "the mesh a=2 needs 2 devices, the plugin has 1");
}

#[test]
fn what_is_no_trace_is_refused() {
    for bytes in [&b""[..], b"{}", b"PK\x03\x04"] {
        let Err(error) = Program::from_bytes(bytes.to_vec(), Options::default()) else { panic!("{bytes:?}") };
        assert!(matches!(error, Error::Program(_)), "{error}");
    }
}
