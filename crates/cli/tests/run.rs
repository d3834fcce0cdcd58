//! Where `tputc run` has its values from: a file, by name, or drawn; and what it says where they lack or contradict.

use insta::assert_snapshot;
use safetensors::{Dtype, SafeTensors, View};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A tensor of `f32`, of these extents.
struct Floats(&'static [usize], Vec<f32>);

impl View for Floats {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        self.0
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.1.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>().into()
    }
    fn data_len(&self) -> usize {
        4 * self.1.len()
    }
}

/// 1, 2, 3 and so on.
fn counted(shape: &'static [usize]) -> Floats {
    Floats(shape, (1..=shape.iter().product()).map(|i| i as f32).collect())
}

/// A folder with a file of inputs.
struct Place(tempfile::TempDir);

impl Place {
    fn with<const N: usize>(tensors: [(&str, Floats); N]) -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = safetensors::serialize(tensors, None).expect("bytes");
        std::fs::write(folder.path().join("in.safetensors"), bytes).expect("written");
        Place(folder)
    }

    /// The path of one of the traces as `change` leaves it.
    fn changed(&self, trace: &str, change: impl Fn(&mut Value)) -> String {
        let text = std::fs::read_to_string(root().join("testdata/traces").join(trace)).expect("the trace");
        let mut value = serde_json::from_str(&text).expect("JSON");
        change(&mut value);
        let file = self.0.path().join(trace);
        std::fs::write(&file, value.to_string()).expect("written");
        file.to_str().expect("a UTF-8 path").to_owned()
    }

    /// `tputc run` on one of the traces.
    fn run(&self, trace: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tputc"));
        command.env("TORCHTPU_CACHE_DIR", "").env_remove("TORCHTPU_DUMP");
        if std::env::var_os("TORCHTPU_PLUGIN").is_none() {
            command.env("VIRTUAL_ENV", root().join(".venv"));
        }
        command.current_dir(&self.0).arg("run").arg(root().join("testdata/traces").join(trace));
        command.args(arguments).output().expect("tputc starts")
    }

    /// What a run says that ends with `status`.
    fn refused(&self, trace: &str, arguments: &[&str], status: i32) -> String {
        let output = self.run(trace, arguments);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        stderr(&output)
    }

    /// The result `out.{number}` of a run that ends well.
    fn result(&self, trace: &str, arguments: &[&str], number: usize) -> Vec<f32> {
        self.saved(trace, arguments, "-o", &format!("out.{number}"))
    }

    /// What a run that ends well saves by this name into the file of `option`.
    fn saved(&self, trace: &str, arguments: &[&str], option: &str, name: &str) -> Vec<f32> {
        let output = self.run(trace, &[arguments, &[option, "out.safetensors"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let bytes = std::fs::read(self.0.path().join("out.safetensors")).expect("results");
        let results = SafeTensors::deserialize(&bytes).expect("safetensors");
        let result = results.tensor(name).expect("a result");
        result.data().chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes"))).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const INPUTS: [&str; 2] = ["--inputs", "in.safetensors"];

#[test]
fn values_that_a_trace_lacks_come_from_the_file_by_their_qualified_names() {
    // It adds 1 to the buffer `n`, puts 5 at its front, and copies it to the first row of `x`.
    let place = Place::with([("n", counted(&[3])), ("x", counted(&[2, 3]))]);
    assert_eq!(place.result("mutation.json", &INPUTS, 0), [5.0, 3.0, 4.0, 4.0, 5.0, 6.0]);
    assert_eq!(place.result("mutation.json", &INPUTS, 1), [5.0, 3.0, 4.0]);
}

#[test]
fn updated_inputs_are_saved_and_each_run_starts_from_the_values_given() {
    let place = Place::with([("n", counted(&[3])), ("x", counted(&[2, 3]))]);
    for repeat in ["1", "3"] {
        let arguments = [&INPUTS[..], &["--repeat", repeat]].concat();
        let updated = |name: &str| place.saved("mutation.json", &arguments, "--updated", name);
        assert_eq!(updated("n"), [5.0, 3.0, 4.0]);
        assert_eq!(updated("x"), [5.0, 3.0, 4.0, 4.0, 5.0, 6.0]);
        assert_eq!(place.result("mutation.json", &arguments, 2), [10.0, 6.0, 8.0, 8.0, 10.0, 12.0]);
    }
    let told = place.run("mutation.json", &INPUTS);
    assert!(String::from_utf8_lossy(&told.stdout).ends_with("updated: `n`, `x`; --updated writes them\n"), "{told:?}");
}

#[test]
fn what_the_file_lacks_can_be_drawn() {
    let place = Place::with([("n", counted(&[3]))]);
    let drawn = |seed: &str| place.result("mutation.json", &[&INPUTS[..], &["--random", seed]].concat(), 0);
    let first = drawn("1");
    assert_eq!(first[..3], [5.0, 3.0, 4.0], "`n` is the file's");
    assert_eq!(first, drawn("1"));
    assert_ne!(first[3..], drawn("2")[3..]);
    assert_eq!(place.result("mlp.json", &["--random", "0"], 0).len(), 10, "parameters and buffers are drawn, too");
}

#[test]
fn missing_values_are_named_with_what_to_do() {
    let place = Place::with([("x", counted(&[5, 3]))]);
    let refused = |arguments: &[&str], status: i32| place.refused("mlp.json", arguments, status);
    assert_snapshot!(refused(&INPUTS, 1), @"error: 9 inputs are missing: `up.weight`, `up.bias`, `norm.weight` and 6 more; give --inputs IN.safetensors or --random SEED, or both to draw what the file lacks");
    assert_snapshot!(refused(&[], 2), @"error: 10 inputs are missing: `up.weight`, `up.bias`, `norm.weight` and 7 more; give --inputs IN.safetensors or --random SEED, or both to draw what the file lacks");
    let few = stderr(&place.run("mutation.json", &[]));
    assert!(few.starts_with("error: 2 inputs are missing: `n`, `x`; give "), "{few}");
}

#[test]
fn a_size_that_contradicts_an_input_is_refused() {
    let place = Place::with([("x", counted(&[3, 6])), ("y", counted(&[7, 6]))]);
    let refused = |dims: &[&str]| place.refused("dynamic.json", &[&INPUTS[..], dims].concat(), 2);
    assert_snapshot!(refused(&["--dim", "s77=8"]), @"error: --dim s77=8: `s77` is 3 by input `x`, f32[3,6]");
    assert_snapshot!(refused(&["--dim", "s77=3", "--dim", "s17=6"]), @"error: --dim s17=6: `s17` is 7 by input `y`, f32[7,6]");
    for dims in [&["--dim", "s77=3", "--dim", "s17=7"][..], &["--dim", "s17=7"], &[]] {
        assert_eq!(place.result("dynamic.json", &[&INPUTS[..], dims].concat(), 2).len(), 2 * 6);
    }
}

#[test]
fn sizes_that_the_file_tells_need_not_be_given_to_draw_the_rest() {
    let place = Place::with([("x", counted(&[3, 6]))]);
    let random = [&INPUTS[..], &["--random", "0"]].concat();
    let drawn = place.result("dynamic.json", &[&random[..], &["--dim", "s17=7"]].concat(), 0);
    assert_eq!(drawn.len(), (3 + 7) * 6);
    let open = place.run("dynamic.json", &random);
    assert_eq!(open.status.code(), Some(1));
    assert!(stderr(&open).contains("`s17`") && stderr(&open).contains("--dim "), "{}", stderr(&open));
}

#[test]
fn values_of_no_input_are_refused_with_the_nearest_names() {
    let place = Place::with([("x", counted(&[5, 3])), ("up.wieght", counted(&[4, 3]))]);
    let said = place.refused("mlp.json", &INPUTS, 1);
    assert_snapshot!(said, @"error: the program has no input `up.wieght`: the nearest are `up.weight`, `up.bias`, `norm.weight`");
    assert_eq!(place.refused("mlp.json", &[&INPUTS[..], &["--random", "0"]].concat(), 1), said);
    // What the trace calls a parameter is not what users call it.
    let place = Place::with([("x", counted(&[5, 3])), ("p_up_weight", counted(&[4, 3]))]);
    assert!(place.refused("mlp.json", &INPUTS, 1).contains("no input `p_up_weight`: the nearest are `up.weight`"));
    // Nor are sizes that it would tell missed before.
    let place = Place::with([("xx", counted(&[3, 6])), ("y", counted(&[7, 6]))]);
    let said = place.refused("dynamic.json", &[&INPUTS[..], &["--random", "0"]].concat(), 1);
    assert!(said.contains("no input `xx`: the nearest are `x`, `y`"), "{said}");
}

#[test]
fn values_of_what_is_fixed_are_refused() {
    let place = Place::with([("x", counted(&[2, 3])), ("n", counted(&[3])), ("times", counted(&[1]))]);
    let file = place.changed("mutation.json", |trace| {
        let module = &mut trace["graph_module"];
        let push = |list: &mut Value, one| list.as_array_mut().expect("a list").push(one);
        push(&mut module["graph"]["inputs"], json!({ "as_int": 5 }));
        let spec = json!({ "constant_input": { "name": "times", "value": { "as_int": 5 } } });
        push(&mut module["signature"]["input_specs"], spec);
    });
    let said = place.refused(&file, &INPUTS, 1);
    assert_snapshot!(said, @"error: input `times` takes no value: it is fixed to 5, which it was exported with");
}

#[test]
fn what_exceeds_the_memory_is_not_drawn() {
    let place = Place::with([("y", counted(&[7, 6]))]);
    let unbounded = place.changed("dynamic.json", |trace| trace["range_constraints"] = json!({}));
    for size in ["10000000000000", "100000000000000000"] {
        let dims = ["--random", "0", "--dim", &format!("s77={size}")];
        let said = place.refused(&unbounded, &[&INPUTS[..], &dims].concat(), 2);
        assert!(said.starts_with(&format!("error: input `x`, f32[{size},6], takes ")), "{said}");
        assert!(said.contains("iB: ") && said.ends_with("; fix a smaller size with --dim\n"), "{said}");
    }
}
