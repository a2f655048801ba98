//! How the objects of the protocol are declared: as tables of their members.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// Declares an object of the protocol: a struct, and how it is read and written.
///
/// Each line names a member, its type, its name on the wire, and the rule of [`crate::rule`] by which it
/// is read. Members without a line are kept in `other` and written back. A member that is repeated
/// counts with its last value. `tagged` leaves out the member `type`, which whoever reads the object
/// has looked at before.
macro_rules! message {
    (
        $(#[$attribute:meta])*
        $name:ident $($tagged:ident)? {
            $($(#[$doc:meta])* $member:ident: $type:ty = $wire:literal, $rule:ident;)*
        }
    ) => {
        $(#[$attribute])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $member: $type,)*
            /// Members that have no name here, as received; they are written back.
            pub other: $crate::other_members::OtherMembers,
        }

        impl $crate::message::Object for $name {
            fn read<'de, A: serde::de::MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
                #[allow(non_camel_case_types, reason = "named after the members")]
                enum Name {
                    $($member,)*
                    $($tagged,)?
                    Other(String),
                }
                $(let mut $member: Option<$type> = None;)*
                let mut other = $crate::other_members::OtherMembers::default();
                while let Some(found) = map.next_key_seed($crate::message::NameReader(|text: &str| match text {
                    $($wire => Name::$member,)*
                    $($crate::message::tag!($tagged) => Name::$tagged,)?
                    _ => Name::Other(text.to_owned()),
                }))? {
                    match found {
                        $(Name::$member => {
                            let value = $crate::rule::Value::<$crate::rule::$rule, $type>::default();
                            $member = Some(map.next_value_seed(value)?);
                        })*
                        $(Name::$tagged => drop(map.next_value::<serde::de::IgnoredAny>()?),)?
                        Name::Other(text) => other.push(&text, map.next_value()?),
                    }
                }
                Ok(Self {
                    $($member: $crate::message::or_absent::<$crate::rule::$rule, _, _>($member, $wire)?,)*
                    other,
                })
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::message::read(deserializer)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $(if <$crate::rule::$rule as $crate::rule::Rule<$type>>::is_written(&self.$member) {
                    map.serialize_entry($wire, &self.$member)?;
                })*
                self.other.write(&mut map)?;
                map.end()
            }
        }
    };
}

/// The name of the member that `tagged` leaves out.
macro_rules! tag {
    (tagged) => {
        "type"
    };
}

pub(crate) use {message, tag};

/// What [`message!`] has declared.
pub(crate) trait Object: Sized {
    fn read<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error>;
}

pub(crate) fn read<'de, T: Object, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct ObjectVisitor<T>(PhantomData<T>);
    impl<'de, T: Object> Visitor<'de> for ObjectVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::read(map)
        }
    }
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// What was read of a member, or what stands for it when it is absent.
pub(crate) fn or_absent<R: crate::rule::Rule<T>, T, E: Error>(
    read: Option<T>,
    name: &'static str,
) -> Result<T, E> {
    read.or_else(R::absent).ok_or_else(|| E::missing_field(name))
}

/// Reads the name of a member without a copy.
pub(crate) struct NameReader<F>(pub(crate) F);

impl<'de, K, F: FnOnce(&str) -> K> DeserializeSeed<'de> for NameReader<F> {
    type Value = K;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<K, F: FnOnce(&str) -> K> Visitor<'_> for NameReader<F> {
    type Value = K;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<K, E> {
        Ok((self.0)(name))
    }
}
