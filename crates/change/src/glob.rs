//! Wildcards in names of tables.

/// Whether `name` matches: `*` is any run of characters, `?` one byte.
pub fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::glob;

    #[test]
    fn stars_and_question_marks() {
        let yes = [
            ("*", ""),
            ("a*b?", "axxbc"),
            ("*_1", "tmp_1"),
            ("**", "x"),
            ("a", "a"),
        ];
        let no = [
            ("a", "ab"),
            ("?", ""),
            ("a*b", "axxbc"),
            ("", "a"),
            ("tmp_*", "tmpx1"),
        ];
        for (pattern, name) in yes {
            assert!(
                glob(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in no {
            assert!(
                !glob(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        // Many stars take no longer than their product.
        assert!(!glob("*a".repeat(40).as_bytes(), "a".repeat(39).as_bytes()));
    }
}
