use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Longest name that every large model provider takes, in bytes.
pub const LONGEST_NAME: usize = 64;

const PREFIX: &str = "mcp__";
const SEPARATOR: &str = "__";

/// Hexadecimal digits of a hash suffix. Longer ones are only reached when two hashes agree.
const SUFFIX_DIGITS: [usize; 3] = [8, 16, 56];

/// Gives every (server, tool) pair a name of its own, in the order of `pairs`.
///
/// Names look like `mcp__server__tool`, are at most [`LONGEST_NAME`] bytes long and hold only
/// `[A-Za-z0-9_-]`. A pair whose plain name would be too long, would need other characters or could
/// be read in two ways gets a readable stem and a hash of the exact pair instead. So the name of a
/// pair depends on that pair alone: neighbours come, go and change places, and names stay.
///
/// Different pairs have different names; equal pairs have equal names. Never parse a name: what it
/// stands for is recorded where it was made.
#[must_use]
pub fn mint<S: AsRef<str>, T: AsRef<str>>(pairs: &[(S, T)]) -> Vec<String> {
    let pairs: Vec<Pair<'_>> = pairs.iter().map(|(s, t)| (s.as_ref(), t.as_ref())).collect();
    let mut names = BTreeMap::new();
    let mut nameless = BTreeSet::new();
    for pair in &pairs {
        match plain_name(*pair) {
            Some(name) => drop(names.insert(*pair, name)),
            None => drop(nameless.insert(*pair)),
        }
    }
    for digits in SUFFIX_DIGITS {
        let mut owners: BTreeMap<String, Vec<Pair<'_>>> = BTreeMap::new();
        for pair in std::mem::take(&mut nameless) {
            owners.entry(hashed_name(pair, digits)).or_default().push(pair);
        }
        for (name, owners) in owners {
            match owners.as_slice() {
                [only] => drop(names.insert(*only, name)),
                rivals => nameless.extend(rivals),
            }
        }
    }
    // A pair stays nameless only if two SHA-256 hashes agree in 224 bits.
    pairs.iter().map(|pair| names.get(pair).cloned().unwrap_or_default()).collect()
}

/// A server and one of its tools, by their own names.
type Pair<'a> = (&'a str, &'a str);

/// `mcp__server__tool`, if no other pair and no hashed name could ever read the same.
///
/// The first separator after the prefix must be the one between server and tool, so the server has
/// none inside and does not end with half of one. The end must not look like a hash suffix.
fn plain_name((server, tool): (&str, &str)) -> Option<String> {
    let length = PREFIX.len() + server.len() + SEPARATOR.len() + tool.len();
    let is_plain = length <= LONGEST_NAME
        && is_clean(server)
        && is_clean(tool)
        && !server.contains(SEPARATOR)
        && !server.ends_with('_')
        && !ends_like_a_hash(tool);
    is_plain.then(|| format!("{PREFIX}{server}{SEPARATOR}{tool}"))
}

fn is_clean(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(is_allowed)
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Whether the text, with a `_` before it, ends in `_` and at least as many hexadecimal digits as the
/// shortest suffix has.
fn ends_like_a_hash(tool: &str) -> bool {
    let tail = tool.rsplit('_').next().unwrap_or_default();
    tail.len() >= 8 && tail.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A readable stem, `_`, and the first `digits` of the pair's hash.
fn hashed_name((server, tool): (&str, &str), digits: usize) -> String {
    let mut stem = format!("{PREFIX}{}{SEPARATOR}{}", replaced(server), replaced(tool));
    stem.truncate(LONGEST_NAME.saturating_sub(digits + 1));
    let mut name = stem;
    name.push('_');
    name.push_str(hash(server, tool).get(..digits).unwrap_or_default());
    name
}

/// Writes `_` for every character that may not stand in a name.
fn replaced(part: &str) -> String {
    part.chars().map(|c| if u8::try_from(c).is_ok_and(is_allowed) { c } else { '_' }).collect()
}

fn hash(server: &str, tool: &str) -> String {
    let mut hasher = Sha256::new();
    // The length keeps ("ab", "c") and ("a", "bc") apart.
    hasher.update(server.len().to_be_bytes());
    hasher.update(server);
    hasher.update(tool);
    let mut hex = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing into a text cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(server: &str, tool: &str) -> String {
        mint(&[(server, tool)]).remove(0)
    }

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(one("files", "read_file"), "mcp__files__read_file");
        assert_eq!(one("my-server", "list_resources"), "mcp__my-server__list_resources");
        assert_eq!(one("a", "b__c"), "mcp__a__b__c");
    }

    #[test]
    fn other_names_keep_a_readable_stem() {
        assert_eq!(
            one("ein Server", "öffne"),
            "mcp__ein_Server___ffne_".to_owned() + &hash("ein Server", "öffne")[..8]
        );
        let long = one("server", &"t".repeat(200));
        assert_eq!(long.len(), LONGEST_NAME);
        assert!(long.starts_with("mcp__server__tttt"), "{long}");
    }

    #[test]
    fn i37_pairs_that_look_alike_are_told_apart() {
        let pairs = [
            ("a-b", "t"),
            ("a_b", "t"),
            ("a.b", "t"),
            ("a b", "t"),
            ("a", "b__c"),
            ("a__b", "c"),
            ("a_", "b"),
            ("a", "_b"),
            ("a__", "b"),
            ("s", "list_resources"),
            ("s", "list.resources"),
            ("s", ""),
            ("", "s"),
            ("", ""),
            ("S", "t"),
            ("s", "t"),
            ("s", "T"),
        ];
        let names = mint(&pairs);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), pairs.len(), "{names:?}");
    }

    #[test]
    fn i37_a_tool_cannot_take_the_hashed_name_of_another() {
        let victim = one("a.b", "t");
        let (server, tool) = ("a_b", victim.strip_prefix("mcp__a_b__").unwrap());
        assert_ne!(one(server, tool), victim);
        assert_eq!(mint(&[("a.b", "t"), (server, tool)])[0], victim);
    }

    fn part() -> impl Strategy<Value = String> {
        prop_oneof![
            "[ab_.-]{0,4}",
            "[a-z_]{1,3}_[0-9a-f]{8,9}",
            "\\PC{0,80}",
            Just("list_resources".to_owned()),
            Just("read_resource".to_owned()),
            Just("list_prompts".to_owned()),
            Just("get_prompt".to_owned()),
        ]
    }

    proptest! {
        #[test]
        fn i37_minting_is_injective_bounded_and_stable(
            pairs in proptest::collection::vec((part(), part()), 1..40),
            rotation in 0usize..40,
        ) {
            let names = mint(&pairs);
            let mut owners = BTreeMap::new();
            for (pair, name) in pairs.iter().zip(&names) {
                prop_assert!(name.len() <= LONGEST_NAME, "{name}");
                prop_assert!(name.bytes().all(is_allowed), "{name}");
                prop_assert_eq!(owners.entry(name).or_insert(pair), &pair, "{} has two owners", name);
            }
            let mut turned = pairs.clone();
            turned.rotate_left(rotation % pairs.len());
            turned.reverse();
            for (pair, name) in turned.iter().zip(mint(&turned)) {
                let before = pairs.iter().position(|other| other == pair).unwrap();
                prop_assert_eq!(&name, &names[before]);
                prop_assert_eq!(&mint(std::slice::from_ref(pair))[0], &name);
            }
        }
    }
}
