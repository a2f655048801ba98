use crate::envelope::MAX_BATCH;
use crate::id::RequestId;
use crate::json::scan::{Quoted, ScanFault, Scanner};
use crate::method::Method;

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
    pub(crate) params: Option<&'a str>,
    pub(crate) result: Option<&'a str>,
    pub(crate) error: Option<&'a str>,
}

impl<'a> Members<'a> {
    /// Reads a text that must be exactly one envelope.
    pub(crate) fn read(text: &'a str) -> Result<Self, ScanFault> {
        let mut members = Self::default();
        let mut seen = [false; 6];
        let mut scanner = Scanner::new(text);
        scanner.skip_blanks();
        let mut has_more = scanner.open_object()?;
        while has_more {
            let key = Key::of(scanner.name()?).ok_or(scanner.malformed())?;
            if seen.get_mut(key as usize).is_some_and(|seen| std::mem::replace(seen, true)) {
                return Err(scanner.malformed());
            }
            let value = scanner.value()?;
            match key {
                Key::JsonRpc => members.is_version_2 = value == "\"2.0\"",
                Key::Id => members.id = read_id(value).ok_or(scanner.malformed())?,
                // Servers that write all members of a union write `null` here in their answers.
                Key::Method if value == "null" => {}
                Key::Method => members.method = Some(read_method(value).ok_or(scanner.malformed())?),
                Key::Params => members.params = Some(value),
                Key::Result => members.result = Some(value),
                Key::Error => members.error = Some(value),
                Key::Other => {}
            }
            has_more = scanner.next_member()?;
        }
        if scanner.is_at_end() { Ok(members) } else { Err(scanner.malformed()) }
    }
}

fn read_id(value: &str) -> Option<Id> {
    if value == "null" {
        return Some(Id::Null);
    }
    let plain = value.parse().ok().map(RequestId::Number);
    plain.or_else(|| serde_json::from_str(value).ok()).map(Id::Read)
}

fn read_method(value: &str) -> Option<Method> {
    Quoted::of(value)?.meaning().map(|name| Method::from_wire(&name))
}

/// The entries of a batch, kept up to the limit and counted beyond it.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) entries: Vec<&'a str>,
    pub(crate) length: usize,
}

impl<'a> Batch<'a> {
    /// Reads a text that must be exactly one array.
    pub(crate) fn read(text: &'a str) -> Result<Self, ScanFault> {
        let mut batch = Self::default();
        let mut scanner = Scanner::new(text);
        scanner.skip_blanks();
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
    fn of(name: Quoted<'_>) -> Option<Self> {
        name.meaning().map(|name| match name.as_ref() {
            "jsonrpc" => Self::JsonRpc,
            "id" => Self::Id,
            "method" => Self::Method,
            "params" => Self::Params,
            "result" => Self::Result,
            "error" => Self::Error,
            _ => Self::Other,
        })
    }
}
