use crate::envelope::MAX_BATCH;
use crate::id::RequestId;
use crate::json::plain::plain_integer;
use crate::json::scan::{ScanFault, Scanner, Text};
use crate::method::Method;

const VERSION_2: &[u8] = b"\"2.0\"";

/// The `id` member of an envelope.
#[derive(Default)]
pub(crate) enum Id {
    #[default]
    Absent,
    Null,
    Read(RequestId),
}

impl Id {
    pub(crate) fn read(self) -> Option<RequestId> {
        match self {
            Self::Absent | Self::Null => None,
            Self::Read(id) => Some(id),
        }
    }
}

/// The members of an envelope, each at most once; payloads as the texts they are.
#[derive(Default)]
pub(crate) struct Members<'a> {
    pub(crate) is_version_2: bool,
    pub(crate) id: Id,
    pub(crate) method: Option<Method>,
    pub(crate) params: Option<&'a [u8]>,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) error: Option<&'a [u8]>,
}

impl<'a> Members<'a> {
    /// Reads a text that must be exactly one envelope.
    pub(crate) fn read(text: Text<'a>) -> Result<Self, ScanFault> {
        let mut members = Self::default();
        let mut seen = 0;
        let mut scanner = Scanner::new(text);
        let mut has_more = scanner.open_object()?;
        if scanner.passes(br#""jsonrpc":"2.0","#) {
            // As almost everybody begins.
            members.is_version_2 = true;
            seen = Key::JsonRpc.bit();
        }
        while has_more {
            let key = Key::next(&mut scanner)?;
            if seen & key.bit() != 0 {
                return Err(scanner.malformed());
            }
            seen |= key.bit();
            match key {
                Key::JsonRpc => {
                    members.is_version_2 = scanner.passes(VERSION_2) || scanner.value()? == VERSION_2;
                }
                Key::Id => members.id = next_id(&mut scanner)?,
                Key::Method => members.method = next_method(&mut scanner)?,
                Key::Params => members.params = Some(scanner.value()?),
                Key::Result => members.result = Some(scanner.value()?),
                Key::Error => members.error = Some(scanner.value()?),
                Key::Other => {
                    scanner.value()?;
                }
            }
            has_more = scanner.next_member()?;
        }
        if scanner.is_at_end() { Ok(members) } else { Err(scanner.malformed()) }
    }
}

fn next_id(scanner: &mut Scanner<'_>) -> Result<Id, ScanFault> {
    if let Some(number) = scanner.pass(plain_integer) {
        return Ok(Id::Read(RequestId::Number(number)));
    }
    match scanner.value()? {
        b"null" => Ok(Id::Null),
        value => serde_json::from_slice(value).map(Id::Read).map_err(|_| scanner.malformed()),
    }
}

/// Servers that write all members of a union write `null` here in their answers.
fn next_method(scanner: &mut Scanner<'_>) -> Result<Option<Method>, ScanFault> {
    if scanner.peek() != Some(b'"') {
        return if scanner.value()? == b"null" { Ok(None) } else { Err(scanner.malformed()) };
    }
    let name = scanner.quoted()?.ok_or(scanner.malformed())?;
    Ok(Some(Method::of_checked(&name)))
}

/// The entries of a batch, kept up to the limit and counted beyond it.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) entries: Vec<&'a [u8]>,
    pub(crate) length: usize,
}

impl<'a> Batch<'a> {
    /// Reads a text that must be exactly one array.
    pub(crate) fn read(text: Text<'a>) -> Result<Self, ScanFault> {
        let mut batch = Self::default();
        let mut scanner = Scanner::new(text);
        let mut has_more = scanner.open_array()?;
        while has_more {
            let entry = scanner.value()?;
            batch.length += 1;
            if batch.length <= MAX_BATCH {
                batch.entries.push(entry);
            }
            has_more = scanner.next_entry()?;
        }
        if scanner.is_at_end() { Ok(batch) } else { Err(scanner.malformed()) }
    }
}

#[derive(Clone, Copy)]
enum Key {
    JsonRpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl Key {
    /// The name that comes next.
    fn next(scanner: &mut Scanner<'_>) -> Result<Self, ScanFault> {
        scanner.peek();
        if let Some(key) = scanner.pass(Self::known) {
            return Ok(key);
        }
        Ok(match scanner.name()?.as_ref() {
            b"jsonrpc" => Self::JsonRpc,
            b"id" => Self::Id,
            b"method" => Self::Method,
            b"params" => Self::Params,
            b"result" => Self::Result,
            b"error" => Self::Error,
            _ => Self::Other,
        })
    }

    /// The name that `text` begins with, as almost everybody writes it, and its length with quotes and
    /// colon.
    #[inline]
    fn known(text: &[u8]) -> Option<(Self, usize)> {
        let begins_with = |name: &[u8]| text.starts_with(name);
        if begins_with(b"\"id\":") {
            Some((Self::Id, 5))
        } else if begins_with(b"\"result\":") {
            Some((Self::Result, 9))
        } else if begins_with(b"\"method\":") {
            Some((Self::Method, 9))
        } else if begins_with(b"\"params\":") {
            Some((Self::Params, 9))
        } else if begins_with(b"\"jsonrpc\":") {
            Some((Self::JsonRpc, 10))
        } else {
            None
        }
    }

    /// Which bit tells that it has been seen; none does of one that does not matter.
    fn bit(self) -> u8 {
        match self {
            Self::Other => 0,
            key => 1 << key as u8,
        }
    }
}
