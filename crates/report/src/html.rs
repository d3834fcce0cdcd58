//! A report as one page that needs nothing else: style, script and data are in it, and it may load nothing.
//!
//! The page is built by its script from the JSON form of the reports, which stands in it as data. Whatever comes from
//! outside, such as file names, reaches the document as text: in the title through [`escape_markup`], in the data
//! through [`escape_script`], and from there through `textContent`, since no script of the page parses markup.

use serde::Serialize;

use crate::{Planned, Report, Rewrites, SourceText};

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/style.css");

/// What all sheets of a page use, in parts that are in scope of one another.
const SHARED: &[&str] =
    &[include_str!("html/format.js"), include_str!("html/elements.js"), include_str!("html/grid.js")];

/// The body of the function that draws one sheet, in parts likewise.
const SHEET: &[&str] = &[
    include_str!("html/data.js"),
    include_str!("html/source.js"),
    include_str!("html/overview.js"),
    include_str!("html/model.js"),
    include_str!("html/memory.js"),
    include_str!("html/schedule.js"),
    include_str!("html/fusions.js"),
    include_str!("html/tables.js"),
    include_str!("html/rewrites.js"),
    include_str!("html/sheet.js"),
];

const PAGES: &str = include_str!("html/pages.js");

/// One self-contained page with a sheet for each report: equal reports give equal bytes.
pub fn html(reports: &[Report]) -> String {
    let targets: Vec<&str> = reports.iter().map(|report| report.target.name.as_str()).collect();
    let program = reports.first().map_or("", |report| &report.program.name);
    page(&format!("{program} on {}", targets.join(", ")), reports)
}

/// What the optimizer changed in `program`, and what it plans to run together, as a page of its own, with the source of
/// the lines that it names.
pub fn rewrites_html(program: &str, rewrites: &Rewrites, planned: &[Planned], sources: &[SourceText]) -> String {
    let sheet = serde_json::json!({
        "program": { "name": program }, "findings": [], "rewrites": rewrites, "planned": planned, "sources": sources,
    });
    page(program, &[sheet])
}

fn page(title: &str, sheets: &[impl Serialize]) -> String {
    let data = serde_json::to_string(sheets).expect("a report has no maps whose keys are not strings");
    fill(PAGE, |name| match name {
        "title" => escape_markup(title),
        "style" => STYLE.to_owned(),
        "script" => script(),
        "data" => escape_script(&data),
        _ => unreachable!("the page has no part named {name}"),
    })
}

fn script() -> String {
    let (shared, sheet) = (SHARED.concat(), SHEET.concat());
    format!("{shared}\nconst drawSheet = (report, root, sheetAddress) => {{\n{sheet}\n}};\n{PAGES}")
}

/// Puts values where a template has `{{name}}`. What a value holds is not looked at.
fn fill(template: &str, value: impl Fn(&str) -> String) -> String {
    let mut parts = template.split("{{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("}}").expect("the page's parts are closed");
        filled += &value(name);
        filled += rest;
    }
    filled
}

fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// JSON that cannot end the script element it stands in. These characters are in strings only, so escapes do not change
/// what the JSON means. U+2028 and U+2029 end lines for some readers of scripts.
fn escape_script(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finding, Program, SCHEMA, Severity, Source, SourceText, Target, Verdict};

    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>-->&amp;{{style}}\u{2028}\u{2029}.py";

    fn report(name: &str) -> Report {
        let source = Source { file: name.to_owned(), line: 3, module: name.to_owned(), op: name.to_owned() };
        Report {
            schema: SCHEMA,
            program: Program { name: name.to_owned(), num_ops: 1, hash: "0".to_owned() },
            target: Target {
                name: "v5e:1x1".to_owned(),
                device_kind: "TPU v5 lite".to_owned(),
                num_devices: 1,
                devices_used: 1,
                compiler: "0.0.51".to_owned(),
                peak_flops: 197e12,
                hbm_bandwidth: 819e9,
                hbm_bytes: 1 << 34,
                vmem_bytes: 1 << 27,
            },
            verdict: Verdict { runs: true, summary: name.to_owned(), advice: vec![name.to_owned()] },
            findings: vec![Finding {
                severity: Severity::Note,
                kind: "dtype".to_owned(),
                message: name.to_owned(),
                help: None,
                source,
            }],
            memory: None,
            cost: None,
            slices: None,
            rewrites: None,
            sources: vec![SourceText { file: name.to_owned(), lines: vec![(3, name.to_owned())] }],
        }
    }

    /// What stands between the tags of the element that holds the data.
    fn data(page: &str) -> &str {
        let start = page.find("id=\"report\">").expect("there is data") + "id=\"report\">".len();
        &page[start..start + page[start..].find("</script>").expect("the data ends")]
    }

    #[test]
    fn nothing_from_outside_becomes_markup() {
        let page = html(&[report(HOSTILE)]);
        let plain = html(&[report("a.py")]);
        assert!(!page.contains("<img"));
        let tags = |page: &str| page.matches('<').count();
        assert_eq!(tags(&page), tags(&plain), "a name opened or closed an element");
        assert!(!data(&page).contains(['<', '>', '\u{2028}', '\u{2029}']));
    }

    #[test]
    fn the_data_is_the_report() {
        let wanted = vec![report(HOSTILE), report("a.py")];
        let read: Vec<Report> = serde_json::from_str(data(&html(&wanted))).expect("the data is JSON");
        assert_eq!(read, wanted);
    }

    #[test]
    fn equal_reports_give_equal_bytes() {
        assert_eq!(html(&[report("a.py")]), html(&[report("a.py")]));
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = html(&[report("a.py")]);
        assert!(page.contains("default-src 'none'"));
        for loading in [" src=", "@import", "url(", "fetch(", "XMLHttpRequest"] {
            assert!(!page.contains(loading), "{loading}");
        }
    }

    #[test]
    fn no_script_parses_markup() {
        let script = script();
        for parsing in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval("] {
            assert!(!script.contains(parsing), "{parsing}");
        }
    }
}
