use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::allowance::{self, TOO_MANY};
use crate::member::Member;

/// A JSON object whose names are chosen by a peer, in the order in which it wrote them.
///
/// Of a name that is repeated the last value counts. Finding a name takes time in proportion to the
/// number of entries, which the size of a frame bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries<T>(Vec<(String, T)>);

impl<T> Entries<T> {
    /// The empty object.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Puts `value` under `name`, in the place of what stood there.
    pub fn insert(&mut self, name: impl Into<String>, value: T) {
        let name = name.into();
        match self.0.iter_mut().find(|(present, _)| *present == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name, value)),
        }
    }

    /// The value under `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(present, _)| *present == name).map(|(_, value)| value)
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The entries in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Removes every entry but the last of each name.
    fn keep_last(&mut self) {
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        let name_of = |index: &usize| self.0.get(*index).map(|(name, _)| name);
        order.sort_by(|one, other| name_of(one).cmp(&name_of(other)));
        // The sort is stable: of two equal names, the first is the earlier one.
        let mut is_repeated = vec![false; self.0.len()];
        for (earlier, later) in order.iter().zip(order.iter().skip(1)) {
            if name_of(earlier) == name_of(later)
                && let Some(flag) = is_repeated.get_mut(*earlier)
            {
                *flag = true;
            }
        }
        let mut flags = is_repeated.into_iter();
        self.0.retain(|_| !flags.next().unwrap_or_default());
    }
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> FromIterator<(String, T)> for Entries<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(entries: I) -> Self {
        let mut entries = Self(entries.into_iter().collect());
        entries.keep_last();
        entries
    }
}

impl<T> IntoIterator for Entries<T> {
    type Item = (String, T);
    type IntoIter = std::vec::IntoIter<(String, T)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<T: DeserializeOwned> Member for Entries<T> {}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Entries::new();
                while let Some(entry) = map.next_entry()? {
                    if !allowance::take(size_of::<(String, T)>()) {
                        return Err(A::Error::custom(TOO_MANY));
                    }
                    entries.0.push(entry);
                }
                entries.keep_last();
                Ok(entries)
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_stays_and_the_last_of_a_repeated_name_counts() {
        let read: Entries<u8> = serde_json::from_str(r#"{"z":1,"a":2,"z":3,"m":4,"z":5,"a":2}"#).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"{"m":4,"z":5,"a":2}"#);
        assert_eq!((read.get("z"), read.get("x"), read.len()), (Some(&5), None, 3));
        assert_eq!(serde_json::from_str::<Entries<u8>>("{}").unwrap(), Entries::new());
        assert!(serde_json::from_str::<Entries<u8>>("[]").is_err());
    }

    #[test]
    fn an_entry_is_replaced_where_it_stands() {
        let mut entries = Entries::from_iter([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        entries.insert("a", 3);
        entries.insert("c", 4);
        assert_eq!(serde_json::to_string(&entries).unwrap(), r#"{"a":3,"b":2,"c":4}"#);
    }
}
