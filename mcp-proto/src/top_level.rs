use std::borrow::Cow;

/// Walks through the top-level members of an object, which may be cut or broken: each name, and all
/// that follows its colon.
pub(crate) struct TopLevel<'a> {
    rest: &'a [u8],
    depth: usize,
    expects_name: bool,
}

impl<'a> TopLevel<'a> {
    /// Begins before the opening brace.
    pub(crate) fn of(rest: &'a [u8]) -> Self {
        Self { rest, depth: 0, expects_name: false }
    }

    /// Begins behind the opening brace.
    pub(crate) fn inside(rest: &'a [u8]) -> Self {
        Self { rest, depth: 1, expects_name: true }
    }
}

impl<'a> Iterator for TopLevel<'a> {
    type Item = (Cow<'a, [u8]>, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some((&byte, tail)) = self.rest.split_first() {
            self.rest = tail;
            match byte {
                b'{' | b'[' => {
                    self.depth += 1;
                    self.expects_name = self.depth == 1 && byte == b'{';
                }
                b'}' | b']' => self.depth = self.depth.checked_sub(1)?,
                b',' => self.expects_name = self.depth == 1,
                b'"' => {
                    let (text, tail) = split_text(self.rest)?;
                    self.rest = tail;
                    if std::mem::take(&mut self.expects_name) {
                        let value = tail.trim_ascii_start().strip_prefix(b":")?;
                        return Some((unescape(text), value.trim_ascii_start()));
                    }
                }
                _ => {}
            }
        }
        None
    }
}

/// Splits behind the closing quote of a text whose opening quote is already taken.
pub(crate) fn split_text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut end = 0;
    loop {
        match rest.get(end)? {
            b'\\' => end += 2,
            b'"' => return Some((rest.get(..end)?, rest.get(end + 1..)?)),
            _ => end += 1,
        }
    }
}

/// A name as it is meant; only odd ones are written with escapes.
fn unescape(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(name), |read| read.into_bytes().into())
}
