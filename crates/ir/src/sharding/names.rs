//! Patterns over names.

/// Whether `pattern` matches the whole of `name`. `*` stands for any characters, dots included, `?` for one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (p, n): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut i, mut j) = (0, 0);
    // Where the last `*` stands, and how far it reaches: only the last one can need another try.
    let mut star: Option<(usize, usize)> = None;
    while j < n.len() {
        match p.get(i) {
            Some('*') => {
                star = Some((i, j));
                i += 1;
            }
            Some(&c) if c == '?' || c == n[j] => (i, j) = (i + 1, j + 1),
            _ => match &mut star {
                Some((at, reach)) => {
                    *reach += 1;
                    (i, j) = (*at + 1, *reach);
                }
                None => return false,
            },
        }
    }
    p[i..].iter().all(|&c| c == '*')
}

/// Up to `limit` of `names` that `pattern` would match after the fewest changes, nearest first.
pub fn nearest<'a>(pattern: &str, names: &[&'a str], limit: usize) -> Vec<&'a str> {
    let mut all: Vec<(usize, &str)> = names.iter().map(|&name| (distance(pattern, name), name)).collect();
    all.sort_by_key(|&(changes, _)| changes); // stable: of equally near ones, the program's order
    all.into_iter().take(limit).map(|(_, name)| name).collect()
}

/// How many characters must change, come or go until `pattern` matches `name`.
fn distance(pattern: &str, name: &str) -> usize {
    let n: Vec<char> = name.chars().collect();
    let mut row: Vec<usize> = (0..=n.len()).collect();
    for c in pattern.chars() {
        let mut next = Vec::with_capacity(row.len());
        next.push(if c == '*' { row[0] } else { row[0] + 1 });
        for (j, &of_name) in n.iter().enumerate() {
            let best = match c {
                '*' => row[j + 1].min(next[j]),
                _ => (row[j] + usize::from(c != '?' && c != of_name)).min(row[j + 1] + 1).min(next[j] + 1),
            };
            next.push(best);
        }
        row = next;
    }
    row[n.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, wanted) in [
            ("*.q_proj.weight", "layers.0.q_proj.weight", true),
            ("*.q_proj.weight", "q_proj.weight", false),
            ("*.q_proj.weight", "layers.0.q_proj.weight_g", false),
            ("layers.?.*", "layers.3.mlp.up", true),
            ("layers.?.*", "layers.13.mlp.up", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("*ab", "aab", true),
            ("", "", true),
            ("*", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} on {name}");
            assert_eq!(distance(pattern, name) == 0, wanted, "{pattern} on {name}");
        }
    }

    #[test]
    fn near_names_come_first() {
        let names = ["model.norm.weight", "model.layers.0.q_proj.weight", "model.layers.0.q_proj.bias"];
        assert_eq!(nearest("*.q_pro.weight", &names, 2), [names[1], names[0]]);
        assert_eq!(nearest("model.norm.bias", &names, 1), [names[0]]);
    }
}
