//! What a user sees when something is wrong: every message is written out here.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::*;
use torchtpu_runtime::{
    Buffer, CPU_DEVICE_COUNT, Client, CompileOptions, ElementType, Error, ErrorCode, ExecuteOptions, FlagValue,
};
use torchtpu_runtime::{Plugin, Signature, TensorType, Value};

/// What `fake_plugin.c` does wrong; the numbers are its own.
#[derive(Clone, Copy)]
enum Fault {
    NullTable = 1,
    TinyTable,
    WrongMajor,
    OldMinor,
    ShortTable,
    FailingInitialize,
    NullClient,
    GarbageError,
    ErrorWithoutFunctions,
    ErrorOnError,
    NullDevice,
    NullStrings,
    TracedError,
}

/// A folder with a plugin that has the fault.
fn fake(fault: Fault) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let library = dir.path().join("fake.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_plugin.c");
    let include = plugin_path().with_file_name("include");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-I"]).arg(include).arg(format!("-DFAULT={}", fault as i32));
    let status = cc.arg(source).arg("-o").arg(&library).status();
    assert!(status.expect("cc is installed").success());
    (dir, library)
}

/// The error of loading a faulty plugin and making a client, with the temporary path taken out.
fn failure(fault: Fault) -> (Error, String) {
    let (dir, library) = fake(fault);
    let error = Plugin::load(&library).and_then(|plugin| Client::new(plugin, &[])).expect_err("it is faulty");
    let folder = dir.path().canonicalize().expect("exists").display().to_string();
    let message = error.to_string().replace(&folder, "DIR");
    (error, message)
}

#[test]
fn a_missing_plugin_is_named() {
    let error = Plugin::load("/no/such/plugin.so").expect_err("missing");
    assert_eq!(error.to_string(), "no PJRT plugin for `/no/such/plugin.so`\n  tried /no/such/plugin.so");
    let error = Plugin::discover(Some("gpu")).expect_err("unknown");
    assert_eq!(error.to_string(), "no PJRT plugin for `gpu`\n  tried gpu");
}

#[test]
fn files_that_are_no_plugins_are_refused() {
    let refuse = |path: &Path| match Plugin::load(path).expect_err("not a plugin") {
        Error::NotAPlugin { reason, .. } => reason,
        other => panic!("{other}"),
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = dir.path().join("text.so");
    std::fs::write(&text, "not a library").expect("writes");
    assert!(refuse(&text).contains("file too short") || refuse(&text).contains("invalid ELF header"));
    assert!(refuse(dir.path()).contains("cannot read file data"));

    let (_, real) = (text, dir.path().join("empty.so"));
    let source = dir.path().join("empty.c");
    std::fs::write(&source, "int nothing(void) { return 0; }").expect("writes");
    let status = Command::new("cc").args(["-shared", "-fPIC"]).arg(&source).arg("-o").arg(&real).status();
    assert!(status.expect("cc is installed").success());
    assert_eq!(refuse(&real), "it has no function GetPjrtApi");
    let libc = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if libc.exists() {
        assert_eq!(refuse(libc), "it has no function GetPjrtApi");
    }
}

#[test]
fn broken_tables_and_wrong_versions_are_refused() {
    let cases = [
        (Fault::NullTable, "DIR/fake.so is not a PJRT plugin: GetPjrtApi returned no function table"),
        (Fault::TinyTable, "DIR/fake.so is not a PJRT plugin: its function table is too small to hold a version"),
        (Fault::WrongMajor, "DIR/fake.so speaks PJRT C API 1.81; this build needs 0.54"),
        (Fault::OldMinor, "DIR/fake.so speaks PJRT C API 0.40; this build needs 0.54"),
        (Fault::ShortTable, "the plugin does not implement PJRT_Client_Create"),
        (Fault::FailingInitialize, "out of order (unavailable, from PJRT_Plugin_Initialize)"),
    ];
    for (fault, expected) in cases {
        assert_eq!(failure(fault).1, expected);
    }
}

#[test]
fn nonsense_from_a_plugin_is_an_error() {
    let cases = [
        (Fault::NullClient, "the plugin broke the contract of PJRT_Client_Create: it returned no client"),
        (Fault::GarbageError, "no message (Other(999), from PJRT_Client_Create)"),
        (Fault::ErrorWithoutFunctions, "no message (unknown, from PJRT_Client_Create)"),
        (Fault::ErrorOnError, "caf\u{fffd} (unknown, from PJRT_Client_Create)"),
        (Fault::NullDevice, "the plugin broke the contract of PJRT_Client_AddressableDevices: it returned no device"),
    ];
    for (fault, expected) in cases {
        assert_eq!(failure(fault).1, expected);
    }
}

#[test]
fn stack_traces_are_kept_apart_from_messages() {
    let (error, message) = failure(Fault::TracedError);
    assert_eq!(message, "it broke (internal, from PJRT_Client_Create)");
    let Error::Plugin(error) = error else { panic!("{error}") };
    assert!(error.trace.expect("kept").contains("xla::Frame()"));
}

#[test]
fn a_plugin_without_strings_devices_and_attributes_still_loads() {
    let (_dir, library) = fake(Fault::NullStrings);
    let plugin = Plugin::load(&library).expect("loads");
    let client = Client::new(plugin, &[]).expect("has a client");
    assert_eq!((client.platform_name(), client.devices().len()), ("", 0));
    assert!(matches!(plugin.attributes(), Err(Error::MissingFunction { function: "PJRT_Plugin_Attributes" })));
    assert_eq!(plugin.fingerprint().expect("reads").len(), 64);
    let error = client.compile(b"", &CompileOptions::default(), None).expect_err("cannot");
    assert_eq!(error.to_string(), "the plugin does not implement PJRT_Client_Compile");
}

#[test]
fn a_wrong_device_count_is_refused() {
    let refuse = |value: Value| Client::new(plugin(), &[(CPU_DEVICE_COUNT, value)]).expect_err("refused").to_string();
    let expected = r#"cpu_device_count must be a positive integer, not String("many")"#;
    assert_eq!(refuse(Value::String("many".to_owned())), expected);
    assert_eq!(refuse(Value::I64(0)), "cpu_device_count must be a positive integer, not I64(0)");
    assert!(refuse(Value::I64(i64::MAX)).contains("must be a positive integer"));
}

#[test]
fn a_failing_compile_carries_the_compilers_message() {
    let client = client();
    let compile = |program: &str| {
        let error = client.compile(program.as_bytes(), &CompileOptions::default(), None).expect_err("invalid");
        error.to_string()
    };
    // The program ends in the middle of a word: the plugin must not read on.
    let word = compile("hello");
    assert!(word.starts_with("-:1:1: error: custom op 'hello' is unknown"), "{word}");
    assert!(compile("").contains("module with `main` function"));
    let wrong_type = compile(
        "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
           return %x : tensor<2xf32>
         }",
    );
    let expected = "-:2:12: error: type of return operand 0 ('tensor<2xf32>') doesn't match function result type";
    assert!(wrong_type.starts_with(expected), "{wrong_type}");
    let unknown = "func.func @main() { stablehlo.frobnicate\n return }";
    assert!(compile(unknown).contains("custom op 'stablehlo.frobnicate' is unknown"));
    // Bytecode's magic number with nothing behind it.
    let error = client.compile(b"ML\xefR", &CompileOptions::default(), None).expect_err("truncated");
    assert!(error.code().is_some(), "{error}");
}

#[test]
fn impossible_compile_options_are_refused() {
    let client = client();
    let compile =
        |options: &CompileOptions| client.compile(ADD.as_bytes(), options, None).expect_err("refused").to_string();
    let mut options = CompileOptions::default();
    options.flags.insert("xla_nonsense".to_owned(), FlagValue::Bool(true));
    assert_eq!(
        compile(&options),
        "No such compile option: 'xla_nonsense' (invalid argument, from PJRT_Client_Compile)"
    );
    let assigned = |ids| CompileOptions { device_assignment: Some(ids), ..CompileOptions::default() };
    assert!(compile(&assigned(vec![77])).contains("device_id 77"));
    assert_eq!(compile(&assigned(vec![])), "1 devices are needed, 0 are assigned");
    let none = CompileOptions { num_replicas: 0, ..CompileOptions::default() };
    assert_eq!(compile(&none), "cannot compile for 0 replicas of 1 partitions");
}

#[test]
fn wrong_arguments_never_reach_the_plugin() {
    let client = client();
    let device = first_device(&client);
    let add = compile(&client, ADD);
    let right = upload(&device, &[1.0; 4], &[4]);
    let execute =
        |arguments: &[&Buffer]| add.execute(arguments, &ExecuteOptions::default()).expect_err("refused").to_string();
    assert_eq!(execute(&[&right]), "the program takes 2 arguments, got 1");
    let long = upload(&device, &[1.0; 5], &[5]);
    assert_eq!(execute(&[&right, &long]), "argument 1 is f32[5], the program takes f32[4]");
    let square = upload(&device, &[1.0; 4], &[2, 2]);
    assert_eq!(execute(&[&square, &right]), "argument 0 is f32[2,2], the program takes f32[4]");
    let ints = Buffer::from_host(&device, &[0; 16], TensorType::new(ElementType::S32, [4])).expect("uploads");
    assert_eq!(execute(&[&right, &ints]), "argument 1 is s32[4], the program takes f32[4]");
    let other = common::client();
    let foreign = upload(&first_device(&other), &[1.0; 4], &[4]);
    assert_eq!(execute(&[&right, &foreign]), "argument 1 belongs to another client");
    let options = ExecuteOptions { device: Some(&first_device(&other)), ..ExecuteOptions::default() };
    let error = add.execute(&[&right, &right], &options).expect_err("refused");
    assert_eq!(error.to_string(), "the device belongs to another client");
    assert!(matches!(right.copy_to_device(&first_device(&other)), Err(Error::OtherClient { .. })));
}

#[test]
fn a_signature_must_make_sense_and_a_wrong_one_is_still_no_crash() {
    let client = client();
    let device = first_device(&client);
    let signature = Signature::new([f32s(&[4])]).donating([1]);
    let error = client.compile(ADD.as_bytes(), &CompileOptions::default(), Some(signature)).expect_err("refused");
    assert_eq!(error.to_string(), "argument 1 is donated, but there are only 1");

    // Too few arguments: the plugin notices.
    let signature = Signature::new([f32s(&[4])]);
    let add = client.compile(ADD.as_bytes(), &CompileOptions::default(), Some(signature)).expect("compiles");
    let x = upload(&device, &[1.0; 4], &[4]);
    let error = add.execute(&[&x], &ExecuteOptions::default()).expect_err("refused");
    assert_eq!(error.code(), Some(ErrorCode::InvalidArgument), "{error}");

    // A donation that the signature hides: the next use is an error, not a read of freed memory.
    let signature = Signature::new([f32s(&[64])]);
    let increment = client.compile(INCREMENT.as_bytes(), &CompileOptions::default(), Some(signature));
    let increment = increment.expect("compiles");
    let x = upload(&device, &[1.0; 64], &[64]);
    increment.execute(&[&x], &ExecuteOptions::default()).expect("runs");
    let error = x.to_host().expect_err("gone");
    assert!(error.to_string().contains("deleted or donated"), "{error}");
}

#[test]
fn a_failed_execution_does_not_take_donated_arguments() {
    let client = client();
    let device = first_device(&client);
    // The signature promises one argument more than the program has, so the plugin refuses to run it.
    let signature = Signature::new([f32s(&[64]), f32s(&[64])]).donating([0]);
    let increment = client.compile(INCREMENT.as_bytes(), &CompileOptions::default(), Some(signature));
    let increment = increment.expect("compiles");
    let (x, y) = (upload(&device, &[1.0; 64], &[64]), upload(&device, &[1.0; 64], &[64]));
    increment.execute(&[&x, &y], &ExecuteOptions::default()).expect_err("refused");
    assert_eq!(download(&x), [1.0; 64]);
}

#[test]
fn an_execution_that_does_not_fit_is_an_error() {
    let client = client();
    let device = first_device(&client);
    // A pebibyte lies beyond what an address space can hold, however the host overcommits.
    let huge = compile(
        &client,
        "func.func @main(%x: tensor<f32> {tf.aliasing_output = 1 : i32}) -> (tensor<281474976710656xf32>, tensor<f32>) {
           %0 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<281474976710656xf32>
           return %0, %x : tensor<281474976710656xf32>, tensor<f32>
         }",
    );
    let x = upload(&device, &[1.0], &[]);
    let error = huge.execute(&[&x], &ExecuteOptions::default()).expect_err("too large");
    assert_eq!(error.code(), Some(ErrorCode::ResourceExhausted), "{error}");
    assert_eq!(download(&x), [1.0]);
    add_still_works(&client);
}

fn add_still_works(client: &Client) {
    let x = upload(&first_device(client), &[1.0; 4], &[4]);
    let run = compile(client, ADD).execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
    assert_eq!(download(&run.outputs[0]), [2.0; 4]);
}

#[test]
fn host_data_of_the_wrong_size_is_refused() {
    let client = client();
    let device = first_device(&client);
    let upload =
        |bytes: &[u8], dims: &[i64]| Buffer::from_host(&device, bytes, f32s(dims)).expect_err("refused").to_string();
    assert_eq!(upload(&[0; 15], &[4]), "f32[4] takes 16 bytes, got 15");
    assert_eq!(upload(&[0; 16], &[-1, 4]), "f32[-1,4] has a negative dimension");
    assert_eq!(upload(&[], &[i64::MAX, 8]), "f32[9223372036854775807,8] has too many elements");
    let buffer = common::upload(&device, &[1.0; 4], &[4]);
    assert_eq!(buffer.copy_to_host(&mut [0; 15]).expect_err("refused").to_string(), "f32[4] takes 16 bytes, got 15");
    let token = Buffer::from_host(&device, &[], TensorType::new(ElementType::Token, []));
    assert_eq!(token.expect_err("refused").to_string(), "token values have no host form");
}

#[test]
fn buffers_and_executables_keep_their_client_alive() {
    let client = client();
    let device = first_device(&client);
    let add = compile(&client, ADD);
    let x = upload(&device, &[1.0; 4], &[4]);
    drop((client, device));
    let run = add.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
    drop((add, x));
    assert_eq!(download(&run.outputs[0]), [2.0; 4]);
}
