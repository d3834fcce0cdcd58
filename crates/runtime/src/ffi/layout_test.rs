//! Compares the declarations of `sys` and `table` with the header that the CPU plugin's Python package ships, and those of
//! `handler` with the one in `jaxlib`, by compiling a C program that prints what the C compiler makes of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{handler, sys, table};
use crate::types::ElementType;

#[path = "../../tests/common/plugin.rs"]
mod plugin;

/// Size of one declared struct, and offset and size of each of its fields, under their C names.
#[derive(Debug)]
pub(super) struct StructLayout {
    pub(super) name: &'static str,
    pub(super) size: usize,
    pub(super) fields: Vec<(&'static str, usize, usize)>,
}

type Facts = BTreeMap<String, i64>;

/// `expression in C` to `value`, as declared in Rust.
fn declared() -> Facts {
    let mut layouts = sys::struct_layouts();
    layouts.push(table::api_layout());
    let mut all = facts(layouts);
    all.extend(sys::constants().into_iter().map(|(name, value)| (name.to_owned(), i64::from(value))));
    all.extend(ElementType::ALL.iter().map(|ty| (ty.c_name().to_owned(), i64::from(ty.raw()))));
    all
}

fn facts(layouts: Vec<StructLayout>) -> Facts {
    let mut all = Facts::new();
    for layout in layouts {
        all.insert(format!("sizeof({})", layout.name), layout.size as i64);
        for (field, offset, size) in layout.fields {
            all.insert(format!("offsetof({}, {field})", layout.name), offset as i64);
            all.insert(format!("sizeof((({}*)0)->{field})", layout.name), size as i64);
        }
    }
    all
}

/// The folder of the header, beside the plugin.
fn include() -> PathBuf {
    plugin::path().with_file_name("include")
}

/// Values of C expressions, according to the C compiler and the header below `include`.
fn compiled(include: &Path, header: &str, expressions: impl Iterator<Item = String>) -> Facts {
    let mut source = format!("#include <stdio.h>\n#include \"{header}\"\nint main(void) {{\n");
    for expression in expressions {
        writeln!(source, "  printf(\"%lld %s\\n\", (long long)({expression}), \"{expression}\");").expect("writes");
    }
    source.push_str("  return 0;\n}\n");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (program, binary) = (dir.path().join("layout.c"), dir.path().join("layout"));
    std::fs::write(&program, source).expect("writes");
    let status = Command::new("cc").arg("-I").arg(include).arg(&program).arg("-o").arg(&binary).status();
    assert!(status.expect("cc is installed").success(), "a declared name is not in the header");
    let output = Command::new(&binary).output().expect("runs");
    let lines = String::from_utf8(output.stdout).expect("prints text");
    let parse = |line: &str| {
        let (value, expression) = line.split_once(' ').expect("two columns");
        (expression.to_owned(), value.parse().expect("a number"))
    };
    lines.lines().map(parse).collect()
}

#[test]
fn declarations_match_the_header() {
    let declared = declared();
    assert!(declared.len() > 800, "only {} facts were declared", declared.len());
    agree(&declared, &compiled(&include(), "pjrt_c_api.h", declared.keys().cloned()));
}

#[test]
fn handlers_match_the_header_of_jaxlib() {
    let mut declared = facts(handler::struct_layouts());
    declared.retain(|expression, _| !GROW.iter().any(|name| expression == &format!("sizeof({name})")));
    declared.extend(handler::CONSTANTS.into_iter().map(|(name, value)| (name.to_owned(), i64::from(value))));
    assert!(declared.len() > 90, "only {} facts were declared", declared.len());
    let packages = plugin::path().ancestors().nth(3).expect("the plugin lies in site-packages").to_owned();
    let include = packages.join("jaxlib/include");
    agree(&declared, &compiled(&include, "xla/ffi/api/c_api.h", declared.keys().cloned()));
}

/// Of these the first part is declared.
const GROW: [&str; 2] = ["XLA_FFI_Api", "XLA_FFI_CallFrame"];

fn agree(declared: &Facts, compiled: &Facts) {
    let wrong: Vec<String> = declared
        .iter()
        .filter(|(expression, value)| compiled.get(*expression) != Some(value))
        .map(|(expression, value)| format!("{expression}: {value} here, {:?} in C", compiled.get(expression)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_element_type_of_the_header_is_missing() {
    let text = std::fs::read_to_string(include().join("pjrt_c_api.h")).expect("reads");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let constants = text.split(|c| !is_word(c)).filter(|word| word.starts_with("PJRT_Buffer_Type_"));
    for constant in constants {
        assert!(ElementType::ALL.iter().any(|ty| ty.c_name() == constant), "{constant}");
    }
}
