//! Source locations: `"module.path/3#region/aten.op"("path.py":line)`.

use crate::session::Session;
use ir::Loc;
use melior::ir::Location;

/// What to cut off the front of source paths, so that the same program is written the same way on every host.
///
/// A path loses everything up to its package folder (`site-packages`, `dist-packages`), wherever that stands: often below
/// the current folder, in a virtual environment that is called differently elsewhere. Else the longest prefix that ends at
/// a path separator wins, and any other absolute path loses everything but the file's name.
#[derive(Clone, Debug, Default)]
pub struct PathPrefixes(Vec<String>);

impl PathPrefixes {
    /// These folders, usually the current one.
    pub fn new(prefixes: impl IntoIterator<Item = impl Into<String>>) -> PathPrefixes {
        let trimmed = |p: String| p.trim_end_matches(['/', '\\']).to_owned();
        let mut all: Vec<String> = prefixes.into_iter().map(|p| trimmed(p.into())).collect();
        all.retain(|p| !p.is_empty());
        all.sort_by_key(|p| std::cmp::Reverse(p.len()));
        PathPrefixes(all)
    }

    /// `path` relative to the project or its package.
    pub fn relative<'p>(&self, path: &'p str) -> &'p str {
        if let Some(rest) = in_package(path) {
            return rest;
        }
        let below = |prefix: &String| path.strip_prefix(prefix.as_str())?.strip_prefix(['/', '\\']);
        if let Some(rest) = self.0.iter().find_map(below) {
            return rest;
        }
        let absolute = path.starts_with(['/', '\\']) || path.get(1..3).is_some_and(|c| c == ":\\" || c == ":/");
        match path.rsplit(['/', '\\']).next() {
            Some(name) if absolute && !name.is_empty() => name,
            _ => path,
        }
    }
}

/// What stands behind the last package folder of `path`.
fn in_package(path: &str) -> Option<&str> {
    let starts = ["site-packages", "dist-packages"].into_iter().flat_map(|folder| {
        let whole = move |&(i, _): &(usize, &str)| i == 0 || path[..i].ends_with(['/', '\\']);
        path.rmatch_indices(folder).filter(whole).map(move |(i, _)| i + folder.len())
    });
    let rests = starts.filter_map(|start| path[start..].strip_prefix(['/', '\\']));
    rests.min_by_key(|rest| rest.len())
}

impl<'c> Session<'c> {
    /// `loc` as MLIR has it, with the fusion region it is in; unknown if locations are off or nothing is known.
    pub(crate) fn location(&self, loc: &Loc, region: &str) -> Location<'c> {
        let unknown = Location::unknown(self.context);
        if !self.options.locations {
            return unknown;
        }
        let place = match &*loc.file {
            "" => unknown,
            file => Location::new(self.context, self.options.path_prefixes.relative(file), loc.line as usize, 0),
        };
        // A region alone says nothing: it would pass for an op.
        let region = if loc.op.is_empty() { "" } else { region };
        let parts: Vec<&str> = [&*loc.module, region, &*loc.op].into_iter().filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { place } else { Location::name(self.context, &parts.join("/"), place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_relative() {
        let prefixes = PathPrefixes::new(["/home/me/project/", "/home/me", ""]);
        let cases = [
            ("/home/me/project/models/net.py", "models/net.py"),
            ("/home/me/other.py", "other.py"),
            ("/home/media/net.py", "net.py"),
            ("/usr/lib/python3.11/site-packages/torch/nn/functional.py", "torch/nn/functional.py"),
            ("/usr/lib/python3/dist-packages/x.py", "x.py"),
            ("/home/me/project/.venv/lib/python3.11/site-packages/timm/vit.py", "timm/vit.py"),
            ("/home/me/site-packages/lib/dist-packages/x.py", "x.py"),
            (".venv/lib/site-packages/x.py", "x.py"),
            ("site-packages/x.py", "x.py"),
            ("/home/me/my-site-packages/x.py", "my-site-packages/x.py"),
            ("/home/me/site-packages-old/x.py", "site-packages-old/x.py"),
            ("C:\\lib\\site-packages\\timm\\vit.py", "timm\\vit.py"),
            ("/opt/x/run.py", "run.py"),
            ("C:\\run.py", "run.py"),
            ("models/net.py", "models/net.py"),
            ("<stdin>", "<stdin>"),
            ("/", "/"),
            ("", ""),
        ];
        for (path, relative) in cases {
            assert_eq!(prefixes.relative(path), relative, "{path}");
        }
    }
}
