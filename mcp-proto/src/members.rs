use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::envelope::MAX_BATCH;
use crate::id::RequestId;
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

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<RequestId>::deserialize(deserializer).map(|id| id.map_or(Self::Null, Self::Read))
    }
}

/// The members of an envelope, each at most once.
#[derive(Default)]
pub(crate) struct Members<'a> {
    pub(crate) is_version_2: bool,
    pub(crate) id: Id,
    pub(crate) method: Option<Method>,
    pub(crate) params: Option<&'a RawValue>,
    pub(crate) result: Option<&'a RawValue>,
    pub(crate) error: Option<&'a RawValue>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON-RPC message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::default();
        let mut seen = [false; 6];
        while let Some(key) = map.next_key::<Key>()? {
            if seen.get_mut(key as usize).is_some_and(|seen| std::mem::replace(seen, true)) {
                return Err(de::Error::custom("a member is repeated"));
            }
            match key {
                Key::JsonRpc => members.is_version_2 = map.next_value::<&RawValue>()?.get() == "\"2.0\"",
                Key::Id => members.id = map.next_value()?,
                // Servers that write all members of a union write `null` here in their answers.
                Key::Method => members.method = map.next_value::<Option<MethodName>>()?.map(|name| name.0),
                Key::Params => members.params = Some(map.next_value()?),
                Key::Result => members.result = Some(map.next_value()?),
                Key::Error => members.error = Some(map.next_value()?),
                // Not skipped but read raw, which checks that it is UTF-8 like the rest of the frame.
                Key::Other => drop(map.next_value::<&RawValue>()?),
            }
        }
        Ok(members)
    }
}

/// The entries of a batch, kept up to the limit and counted beyond it.
#[derive(Default)]
pub(crate) struct Batch<'a> {
    pub(crate) entries: Vec<&'a RawValue>,
    pub(crate) length: usize,
}

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BatchVisitor;
        impl<'de> Visitor<'de> for BatchVisitor {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a batch of JSON-RPC messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Batch<'de>, A::Error> {
                let mut batch = Batch::default();
                while let Some(entry) = seq.next_element()? {
                    batch.length += 1;
                    if batch.length <= MAX_BATCH {
                        batch.entries.push(entry);
                    }
                }
                Ok(batch)
            }
        }
        deserializer.deserialize_seq(BatchVisitor)
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

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "jsonrpc" => Key::JsonRpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    "error" => Key::Error,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct MethodName(Method);

impl<'de> Deserialize<'de> for MethodName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl Visitor<'_> for NameVisitor {
            type Value = MethodName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a method name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<MethodName, E> {
                Ok(MethodName(Method::from_wire(name)))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}
