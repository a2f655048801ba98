pub(crate) mod exact_number;
pub(crate) mod integer;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::Number;

use crate::allowance::{self, TOO_MANY};
use crate::id::RequestId;
use crate::method::Method;
use crate::raw_json::RawJson;
use crate::version::ProtocolVersion;

/// What a member of a message can be: read as serde reads it, but for lists, which are kept within
/// the [`allowance`].
pub(crate) trait Member: DeserializeOwned {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

macro_rules! plain_members {
    ($($type:ty),*) => {
        $(impl Member for $type {})*
    };
}

plain_members!(
    (),
    bool,
    f64,
    String,
    Number,
    RawJson,
    RequestId,
    Method,
    ProtocolVersion,
    BTreeMap<String, String>
);

/// Reads one member inside of another.
pub(crate) struct Inside<T>(PhantomData<T>);

impl<T> Default for Inside<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<'de, T: Member> DeserializeSeed<'de> for Inside<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::read(deserializer)
    }
}

impl<T: Member> Member for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OptionVisitor<T>(PhantomData<T>);
        impl<'de, T: Member> Visitor<'de> for OptionVisitor<T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("option")
            }

            fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
                Ok(None)
            }

            fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
                Ok(None)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
                T::read(deserializer).map(Some)
            }
        }
        deserializer.deserialize_option(OptionVisitor(PhantomData))
    }
}

impl<T: Member> Member for Box<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Self::new)
    }
}

impl<T: Member> Member for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Member> Visitor<'de> for ListVisitor<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, entries: A) -> Result<Vec<T>, A::Error> {
                read_list(entries)
            }
        }
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

/// Reads the entries of a list, within the [`allowance`].
pub(crate) fn read_list<'de, T: Member, A: SeqAccess<'de>>(mut entries: A) -> Result<Vec<T>, A::Error> {
    let mut list = Vec::new();
    while let Some(entry) = entries.next_element_seed(Inside::default())? {
        if !allowance::take(size_of::<T>()) {
            return Err(A::Error::custom(TOO_MANY));
        }
        list.push(entry);
    }
    Ok(list)
}
