//! Partial JSON updates: the diffs of a PARTIAL_UPDATE_ROWS event applied to the document before.
//!
//! Shape of the diffs: per diff an operation (0 replace, 1 insert, 2 remove), a path, and, but for a
//! removal, a binary document. Keys of an object stay in the order of length, then bytes.
//! Source: MySQL source, sql-common/json_diff.cc.

use super::bytes::{Bytes, DecodeError, Decoded};
use super::json::{Scalar, Visitor, put_scalar, put_string, walk};

/// A document as a tree; scalars are kept as their text.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Scalar(Vec<u8>),
    Array(Vec<Node>),
    Object(Vec<(Vec<u8>, Node)>),
}

fn impossible<T>(what: &str) -> Decoded<T> {
    Err(DecodeError::Unsupported(format!(
        "a partial JSON update does not fit the document before it: {what}"
    )))
}

/// Applies `diffs` to the binary document `before`; appends the text of the result to `out`.
pub fn apply(before: &[u8], diffs: &[u8], out: &mut Vec<u8>) -> Decoded<()> {
    let mut root = parse(before)?;
    let mut b = Bytes::new(diffs);
    while !b.is_empty() {
        let operation = b.u8("a JSON diff")?;
        let path = b.lenenc_bytes("a JSON diff's path")?;
        let steps = parse_path(path)?;
        let value = match operation {
            0 | 1 => Some(parse(b.lenenc_bytes("a JSON diff's value")?)?),
            2 => None,
            _ => return b.fail("a JSON diff's operation"),
        };
        apply_one(&mut root, &steps, operation, value)?;
    }
    render(&root, out);
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Step {
    Key(Vec<u8>),
    Index(usize),
}

fn apply_one(root: &mut Node, steps: &[Step], operation: u8, value: Option<Node>) -> Decoded<()> {
    let Some((last, parents)) = steps.split_last() else {
        return match (operation, value) {
            (0, Some(value)) => {
                *root = value;
                Ok(())
            }
            _ => impossible("its root is inserted or removed"),
        };
    };
    let mut node = root;
    for step in parents {
        node = match (step, node) {
            (Step::Key(key), Node::Object(members)) => {
                match members.iter_mut().find(|(name, _)| name == key) {
                    Some((_, member)) => member,
                    None => return impossible("a member is not there"),
                }
            }
            (Step::Index(index), Node::Array(items)) => match items.get_mut(*index) {
                Some(item) => item,
                None => return impossible("an array is too short"),
            },
            _ => return impossible("a path leads through a scalar"),
        };
    }
    change_member(node, last, operation, value)
}

fn change_member(node: &mut Node, last: &Step, operation: u8, value: Option<Node>) -> Decoded<()> {
    match (last, node) {
        (Step::Key(key), Node::Object(members)) => {
            let order = |name: &[u8]| (name.len(), name.to_vec());
            let place = members.binary_search_by_key(&order(key), |(name, _)| order(name));
            match (operation, place, value) {
                (0, Ok(at), Some(value)) => members[at].1 = value,
                (1, Err(at), Some(value)) => members.insert(at, (key.clone(), value)),
                (2, Ok(at), None) => {
                    members.remove(at);
                }
                _ => return impossible("a member is, or is not, there"),
            }
        }
        (Step::Index(index), Node::Array(items)) => match (operation, value) {
            (0, Some(value)) if *index < items.len() => items[*index] = value,
            // An index past the end appends.
            (1, Some(value)) => items.insert((*index).min(items.len()), value),
            (2, None) if *index < items.len() => {
                items.remove(*index);
            }
            _ => return impossible("an array is too short"),
        },
        _ => return impossible("a path leads through a scalar"),
    }
    Ok(())
}

/// Reads `$.key."quoted key"[3]`.
fn parse_path(path: &[u8]) -> Decoded<Vec<Step>> {
    let mut steps = Vec::new();
    let Some(mut rest) = path.strip_prefix(b"$") else {
        return impossible("a path does not start with $");
    };
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'.' if after.first() == Some(&b'"') => {
                let (key, used) = parse_quoted(&after[1..])?;
                steps.push(Step::Key(key));
                rest = &after[1 + used..];
            }
            b'.' => {
                let end = after
                    .iter()
                    .position(|byte| matches!(byte, b'.' | b'['))
                    .unwrap_or(after.len());
                steps.push(Step::Key(after[..end].to_vec()));
                rest = &after[end..];
            }
            b'[' => {
                let Some(end) = after.iter().position(|byte| *byte == b']') else {
                    return impossible("a path's bracket is open");
                };
                let index = std::str::from_utf8(&after[..end]).ok();
                match index.and_then(|text| text.trim().parse().ok()) {
                    Some(index) => steps.push(Step::Index(index)),
                    None => return impossible("a path's index is no number"),
                }
                rest = &after[end + 1..];
            }
            b' ' => rest = after,
            _ => return impossible("a path cannot be read"),
        }
    }
    Ok(steps)
}

/// Reads up to the closing quote; returns the key and the bytes used.
fn parse_quoted(text: &[u8]) -> Decoded<(Vec<u8>, usize)> {
    let mut key = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return Ok((key, at + 1)),
            b'\\' => {
                at += 1;
                match text.get(at) {
                    Some(b'b') => key.push(8),
                    Some(b'f') => key.push(12),
                    Some(b'n') => key.push(10),
                    Some(b'r') => key.push(13),
                    Some(b't') => key.push(9),
                    Some(b'u') => {
                        let hex = text.get(at + 1..at + 5);
                        let code = hex
                            .and_then(|hex| std::str::from_utf8(hex).ok())
                            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
                            .and_then(char::from_u32);
                        let Some(code) = code else {
                            return impossible("a path's escape cannot be read");
                        };
                        key.extend_from_slice(code.encode_utf8(&mut [0; 4]).as_bytes());
                        at += 4;
                    }
                    Some(other) => key.push(*other),
                    None => break,
                }
            }
            other => key.push(*other),
        }
        at += 1;
    }
    impossible("a path's quote is open")
}

fn parse(document: &[u8]) -> Decoded<Node> {
    let mut builder = Builder::default();
    walk(document, &mut builder)?;
    match builder.root {
        Some(root) => Ok(root),
        None => impossible("a value is empty"),
    }
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<(Vec<u8>, Node)>,
    key: Vec<u8>,
}

impl Builder {
    fn add(&mut self, key: Vec<u8>, node: Node) {
        match self.open.last_mut() {
            Some((_, Node::Array(items))) => items.push(node),
            Some((_, Node::Object(members))) => members.push((key, node)),
            _ => self.root = Some(node),
        }
    }
}

impl Visitor for Builder {
    fn open(&mut self, object: bool, _count: usize) {
        let node = if object {
            Node::Object(Vec::new())
        } else {
            Node::Array(Vec::new())
        };
        self.open.push((std::mem::take(&mut self.key), node));
    }

    fn key(&mut self, key: &[u8]) {
        self.key = key.to_vec();
    }

    fn scalar(&mut self, scalar: Scalar<'_>) -> Decoded<()> {
        let mut text = Vec::new();
        put_scalar(&mut text, scalar)?;
        let key = std::mem::take(&mut self.key);
        self.add(key, Node::Scalar(text));
        Ok(())
    }

    fn close(&mut self, _object: bool) {
        if let Some((key, node)) = self.open.pop() {
            self.add(key, node);
        }
    }
}

fn render(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Scalar(text) => out.extend_from_slice(text),
        Node::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                render(item, out);
            }
            out.push(b']');
        }
        Node::Object(members) => {
            out.push(b'{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                put_string(out, key);
                out.extend_from_slice(b": ");
                render(member, out);
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: [u8; 33] = [
        0, 2, 0, 32, 0, 18, 0, 1, 0, 19, 0, 1, 0, 5, 1, 0, 2, 20, 0, b'a', b'b', 2, 0, 10, 0, 5, 1,
        0, 5, 2, 0, 0, 0,
    ];

    fn after(diffs: &[u8]) -> Decoded<String> {
        let mut out = Vec::new();
        apply(&BEFORE, diffs, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn diffs_replace_insert_and_remove() {
        assert_eq!(
            after(b"\x00\x03$.a\x03\x05\x07\x00").unwrap(),
            r#"{"a": 7, "b": [1, 2]}"#
        );
        assert_eq!(
            after(b"\x01\x06$.\"aa\"\x02\x04\x00\x02\x03$.a").unwrap(),
            r#"{"b": [1, 2], "aa": null}"#
        );
        assert_eq!(after(b"\x02\x06$.b[0]").unwrap(), r#"{"a": 1, "b": [2]}"#);
    }

    #[test]
    fn a_diff_that_does_not_fit_is_an_error() {
        for bad in [
            &b"\x02\x03$.x"[..],
            b"\x02\x06$.b[9]",
            b"\x02\x01$",
            b"\x07\x01$",
        ] {
            assert!(after(bad).is_err());
        }
    }
}
