//! Reads JSON from outside: every value knows its place, depth and size are bounded, members that
//! come twice are told.
//!
//! Shape: one node per value in the order of the text; a container's `next` is the node after its
//! content. Where a member comes twice, the last one counts, as most readers have it.

use crate::decode::Fault;
use std::borrow::Cow;
use std::collections::HashSet;

/// Deeper messages are refused: the formats need five levels, a JSON document in a string none.
pub(crate) const DEPTH_MAX: usize = 64;
/// Larger messages are refused: brokers are set up for a few megabytes, rarely for tens.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Messages with more values are refused, so that small values cannot take much memory.
pub(crate) const VALUES_MAX: usize = 2 << 20;

const OPEN: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Null,
    Bool,
    Number,
    Text,
    Array,
    Object,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    shape: Shape,
    /// Of the value; of a text without its quotes.
    start: u32,
    end: u32,
    /// The member's name without its quotes; empty for an item.
    name: (u32, u32),
    /// The node after this one and its content.
    next: u32,
}

/// A parsed message; reused for the next one.
#[derive(Debug, Default)]
pub(crate) struct Document {
    nodes: Vec<Node>,
    duplicates: Vec<u32>,
}

impl Document {
    /// Parses one message: one value and white space around it.
    pub fn parse<'d>(
        &'d mut self,
        format: &'static str,
        message: &'d [u8],
    ) -> Result<Json<'d>, Fault> {
        self.nodes.clear();
        self.duplicates.clear();
        let fault = |offset, what: &str| Fault {
            format,
            offset,
            path: String::new(),
            what: what.into(),
        };
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(fault(MESSAGE_BYTES_MAX, "the message is too large"));
        }
        let text = std::str::from_utf8(message)
            .map_err(|error| fault(error.valid_up_to(), "the message is not UTF-8"))?;
        let mut parser = Parser {
            text,
            at: 0,
            document: self,
        };
        parser.message().map_err(|(offset, what)| Fault {
            format,
            offset,
            path: self.place_of_last(text),
            what: what.into(),
        })?;
        Ok(Json {
            format,
            text,
            document: self,
            index: 0,
        })
    }

    fn place_of_last(&self, text: &str) -> String {
        match self.nodes.len() {
            0 => String::new(),
            count => self.place(text, count - 1),
        }
    }

    /// Where a node stands: `data[0].price`.
    fn place(&self, text: &str, target: usize) -> String {
        let mut path = String::new();
        let mut at = 0;
        while at < target {
            let container = self.nodes[at];
            let mut child = at + 1;
            let mut index = 0;
            while self.nodes[child].next as usize <= target {
                child = self.nodes[child].next as usize;
                index += 1;
            }
            match container.shape {
                Shape::Object => {
                    let (start, end) = self.nodes[child].name;
                    put_step(&mut path, &text[start as usize..end as usize]);
                }
                _ => path.push_str(&format!("[{index}]")),
            }
            at = child;
        }
        path
    }
}

/// Names in a path are cut here: a fault is a line, not a page.
const STEP_CHARACTERS_MAX: usize = 64;
const PATH_BYTES_MAX: usize = 512;

fn put_step(path: &mut String, name: &str) {
    if path.len() > PATH_BYTES_MAX {
        return;
    }
    if !path.is_empty() {
        path.push('.');
    }
    path.extend(name.chars().take(STEP_CHARACTERS_MAX));
}

type Step<T> = Result<T, (usize, &'static str)>;

struct Parser<'p> {
    text: &'p str,
    at: usize,
    document: &'p mut Document,
}

impl Parser<'_> {
    fn message(&mut self) -> Step<()> {
        self.value((0, 0), 0)?;
        self.space();
        if self.at < self.text.len() {
            return Err((self.at, "there is more after the end of the message"));
        }
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8, what: &'static str) -> Step<()> {
        self.space();
        if self.peek() != Some(byte) {
            return Err((self.at, what));
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self, name: (u32, u32), depth: usize) -> Step<()> {
        self.space();
        if self.document.nodes.len() >= VALUES_MAX {
            return Err((self.at, "the message has too many values"));
        }
        if depth > DEPTH_MAX {
            return Err((self.at, "the message is nested too deep"));
        }
        let index = self.document.nodes.len();
        self.document.nodes.push(Node {
            shape: Shape::Null,
            start: self.at as u32,
            end: self.at as u32,
            name,
            next: OPEN,
        });
        let (shape, start, end) = match self.peek() {
            Some(b'{') => self.object(index, depth)?,
            Some(b'[') => self.array(index, depth)?,
            Some(b'"') => {
                let (start, end) = self.string()?;
                (Shape::Text, start, end)
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        let next = self.document.nodes.len() as u32;
        let node = &mut self.document.nodes[index];
        (node.shape, node.start, node.end, node.next) = (shape, start, end, next);
        if shape == Shape::Object {
            self.find_duplicates(index);
        }
        Ok(())
    }

    fn object(&mut self, index: usize, depth: usize) -> Step<(Shape, u32, u32)> {
        let start = self.at as u32;
        self.document.nodes[index].shape = Shape::Object;
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok((Shape::Object, start, self.at as u32));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err((self.at, "a member's name is missing"));
            }
            let name = self.string()?;
            self.take(b':', "a colon is missing")?;
            self.value(name, depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err((self.at, "a comma or the object's end is missing")),
            }
        }
        self.at += 1;
        Ok((Shape::Object, start, self.at as u32))
    }

    fn array(&mut self, index: usize, depth: usize) -> Step<(Shape, u32, u32)> {
        let start = self.at as u32;
        self.document.nodes[index].shape = Shape::Array;
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok((Shape::Array, start, self.at as u32));
        }
        loop {
            self.value((0, 0), depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err((self.at, "a comma or the array's end is missing")),
            }
        }
        self.at += 1;
        Ok((Shape::Array, start, self.at as u32))
    }

    /// A string from its quote on; returns what stands between the quotes.
    fn string(&mut self) -> Step<(u32, u32)> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        let start = self.at;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err((self.at, "a control character in a string")),
                Some(_) => self.at += 1,
                None => return Err((self.at, "the message ends in a string")),
            }
        }
        let end = self.at;
        self.at += 1;
        Ok((start as u32, end as u32))
    }

    fn escape(&mut self) -> Step<()> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u')
                if (bytes.get(self.at + 2..self.at + 6))
                    .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) =>
            {
                self.at += 6;
            }
            _ => return Err((self.at, "an unknown escape in a string")),
        }
        Ok(())
    }

    fn digits(&mut self) -> Step<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err((self.at, "a digit is missing in a number"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Step<(Shape, u32, u32)> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok((Shape::Number, start as u32, self.at as u32))
    }

    fn word(&mut self) -> Step<(Shape, u32, u32)> {
        let rest = &self.text[self.at..];
        let words = [
            ("null", Shape::Null),
            ("true", Shape::Bool),
            ("false", Shape::Bool),
        ];
        let Some((word, shape)) = words.iter().find(|(word, _)| rest.starts_with(word)) else {
            return Err((self.at, "a value is missing"));
        };
        let start = self.at as u32;
        self.at += word.len();
        Ok((*shape, start, self.at as u32))
    }

    fn find_duplicates(&mut self, object: usize) {
        let text = self.text;
        let nodes = &self.document.nodes;
        let children = || Children {
            nodes,
            at: object + 1,
            end: nodes[object].next as usize,
        };
        let name = |child: usize| unescaped(text, nodes[child].name);
        let mut found = Vec::new();
        if children().count() <= 16 {
            for (count, child) in children().enumerate() {
                if children()
                    .take(count)
                    .any(|other| name(other) == name(child))
                {
                    found.push(child as u32);
                }
            }
        } else {
            let mut seen = HashSet::new();
            found.extend(
                children()
                    .filter(|child| !seen.insert(name(*child)))
                    .map(|child| child as u32),
            );
        }
        self.document.duplicates.extend(found);
    }
}

#[derive(Clone)]
struct Children<'d> {
    nodes: &'d [Node],
    at: usize,
    end: usize,
}

impl Iterator for Children<'_> {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        let child = self.at;
        if child >= self.end {
            return None;
        }
        self.at = self.nodes[child].next as usize;
        Some(child)
    }
}

fn unescaped(text: &str, (start, end): (u32, u32)) -> Cow<'_, str> {
    let raw = &text[start as usize..end as usize];
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let letter = rest.as_bytes()[at + 1];
        rest = &rest[at + 2..];
        match letter {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => rest = put_unicode(&mut out, rest),
            other => out.push(char::from(other)),
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn hex(text: &str) -> Option<u32> {
    text.get(..4)
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
}

/// Reads the digits of `\u`, and of a second one for a pair; a lone half becomes U+FFFD.
fn put_unicode<'t>(out: &mut String, rest: &'t str) -> &'t str {
    let first = hex(rest).unwrap_or(0xfffd);
    let rest = &rest[4..];
    if (0xd800..0xdc00).contains(&first)
        && let Some(second) = rest.strip_prefix("\\u").and_then(hex)
        && (0xdc00..0xe000).contains(&second)
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
        return &rest[6..];
    }
    out.push(char::from_u32(first).unwrap_or('\u{fffd}'));
    rest
}

/// One value of a parsed message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Json<'d> {
    format: &'static str,
    text: &'d str,
    document: &'d Document,
    index: usize,
}

impl<'d> Json<'d> {
    fn node(&self) -> Node {
        self.document.nodes[self.index]
    }

    fn children(&self) -> Children<'d> {
        let node = self.node();
        let is_container = matches!(node.shape, Shape::Array | Shape::Object);
        Children {
            nodes: &self.document.nodes,
            at: self.index + 1,
            end: if is_container { node.next as usize } else { 0 },
        }
    }

    fn at(&self, index: usize) -> Json<'d> {
        Json { index, ..*self }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        self.node().shape == Shape::Null
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.node().shape == Shape::Object
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.node().shape == Shape::Array
    }

    /// A string's text.
    pub fn text(&self) -> Option<Cow<'d, str>> {
        let node = self.node();
        (node.shape == Shape::Text).then(|| unescaped(self.text, (node.start, node.end)))
    }

    /// A number as it is written.
    pub fn number(&self) -> Option<&'d str> {
        (self.node().shape == Shape::Number).then(|| self.raw())
    }

    /// A boolean.
    pub fn boolean(&self) -> Option<bool> {
        (self.node().shape == Shape::Bool).then(|| self.raw() == "true")
    }

    /// A whole number, written bare or as a string.
    pub fn unsigned(&self) -> Option<u64> {
        match self.number() {
            Some(number) => number.parse().ok(),
            None => self.text()?.parse().ok(),
        }
    }

    /// The value as it stands in the message; of a string without its quotes.
    pub fn raw(&self) -> &'d str {
        let node = self.node();
        &self.text[node.start as usize..node.end as usize]
    }

    /// An object's members in order; of anything else none.
    pub fn members(&self) -> impl Iterator<Item = (Cow<'d, str>, Json<'d>)> + use<'d> {
        let this = *self;
        let children = if self.is_object() {
            self.children()
        } else {
            Children {
                nodes: &[],
                at: 0,
                end: 0,
            }
        };
        children.map(move |child| {
            let value = this.at(child);
            (unescaped(this.text, value.node().name), value)
        })
    }

    /// An array's items in order; of anything else none.
    pub fn items(&self) -> impl Iterator<Item = Json<'d>> + use<'d> {
        let this = *self;
        let end = if self.is_array() { usize::MAX } else { 0 };
        self.children().take(end).map(move |child| this.at(child))
    }

    /// A member by its name, whether or not it is null; the last one where it comes twice.
    pub fn member(&self, name: &str) -> Option<Json<'d>> {
        self.members()
            .filter(|(member, _)| member == name)
            .map(|(_, value)| value)
            .last()
    }

    /// A member that is there and not null.
    pub fn get(&self, name: &str) -> Option<Json<'d>> {
        self.member(name).filter(|value| !value.is_null())
    }

    /// A fault at this value.
    pub fn fault(&self, what: impl Into<String>) -> Fault {
        Fault {
            format: self.format,
            offset: self.node().start as usize,
            path: self.document.place(self.text, self.index),
            what: what.into(),
        }
    }

    /// The members of the whole message that come twice.
    pub fn duplicates(&self) -> Vec<Fault> {
        const WARNINGS_MAX: usize = 16;
        (self.document.duplicates.iter())
            .take(WARNINGS_MAX)
            .map(|index| {
                self.at(*index as usize)
                    .fault("the member comes twice; the last one counts")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_places_are_found() {
        let mut document = Document::default();
        let text = br#" {"data":[{"a":"\u00e9\ud83d\ude00\n","b":-1.5e3}, null],"n":true} "#;
        let root = document.parse("f", text).unwrap();
        let data = root.get("data").unwrap();
        let row = data.items().next().unwrap();
        assert_eq!(row.get("a").unwrap().text().unwrap(), "é😀\n");
        assert_eq!(row.get("b").unwrap().number(), Some("-1.5e3"));
        assert!(data.items().nth(1).unwrap().is_null());
        assert_eq!(root.get("n").unwrap().boolean(), Some(true));
        let fault = row.get("b").unwrap().fault("odd");
        assert_eq!(
            fault.to_string(),
            format!(
                "decode f at byte {} (data[0].b): odd",
                text.iter().position(|b| *b == b'-').unwrap()
            )
        );
    }

    #[test]
    fn a_member_that_comes_twice_is_told_and_the_last_counts() {
        let mut document = Document::default();
        let root = document
            .parse("f", br#"{"a":{"x":1,"\u0078":2},"b":[]}"#)
            .unwrap();
        assert_eq!(root.get("a").unwrap().get("x").unwrap().number(), Some("2"));
        let duplicates = root.duplicates();
        assert_eq!(duplicates.len(), 1);
        assert_eq!(duplicates[0].path, "a.\\u0078");
        let many: Vec<String> = (0..40).map(|i| format!("\"k{}\":0", i % 39)).collect();
        let text = format!("{{{}}}", many.join(","));
        let root = document.parse("f", text.as_bytes()).unwrap();
        assert_eq!(root.duplicates()[0].path, "k0");
    }

    #[test]
    fn broken_text_is_a_fault_with_its_place() {
        let cases: [(&[u8], usize, &str); 12] = [
            (b"", 0, ""),
            (b"{", 1, ""),
            (b"{\"a\":}", 5, "a"),
            (b"{\"a\":[1,2", 9, "a[1]"),
            (b"{\"a\":[1,,2]}", 8, "a[1]"),
            (b"[01]", 2, "[0]"),
            (b"[1.]", 3, "[0]"),
            (b"[\"\\x\"]", 2, "[0]"),
            (b"[\"\\u00g0\"]", 2, "[0]"),
            (b"[\"\x01\"]", 2, "[0]"),
            (b"[] []", 3, ""),
            (b"[\"\xff\"]", 2, ""),
        ];
        for (text, offset, path) in cases {
            let mut document = Document::default();
            let fault = document.parse("f", text).unwrap_err();
            let place = (fault.offset, fault.path.as_str());
            assert_eq!(place, (offset, path), "{}", String::from_utf8_lossy(text));
        }
        let deep = "[".repeat(100_000);
        let mut document = Document::default();
        let fault = document.parse("f", deep.as_bytes()).unwrap_err();
        assert_eq!(fault.what, "the message is nested too deep");
    }
}
