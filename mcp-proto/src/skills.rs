//! The extension skills: instructions for a model, as files of a server (with 2026-07-28).
//!
//! # Source
//!
//! SEP-2640.

use serde::{Deserialize, Serialize};

use crate::cache::CacheScope;
use crate::list::list;
use crate::member::Member;
use crate::message::message;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::payload::decode_with;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::resources::ListResourcesResult;
use crate::result_type::ResultType;
use crate::versioned::Versioned;

list! {
    /// Lists the skills of a server, one page at a time (extension skills).
    ListSkills = SKILLS_LIST;
    /// One page of [`ListSkills`].
    ListSkillsResult {
        /// The skills, in the order of the server.
        skills: Vec<Skill> = "skills";
    }
}

message! {
    /// Fetches the description of one skill (extension skills).
    #[derive(Debug, Clone, PartialEq, Eq)]
    GetSkill skipping "_meta" {
        /// The address of its `SKILL.md`.
        uri: String = "uri", Required;
    }
}

message! {
    /// The answer to [`GetSkill`].
    #[derive(Debug, Clone, PartialEq, Eq)]
    GetSkillResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint;
        /// The skill.
        skill: Skill = "skill", Required;
        /// How long the answer may be reused, in milliseconds.
        ttl_ms: Option<u64> = "ttlMs", Hint;
        /// Who may be given a cached answer.
        cache_scope: Option<CacheScope> = "cacheScope", Hint;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// Instructions for a model, as files of a server (extension skills).
    #[derive(Debug, Clone, PartialEq, Eq)]
    Skill {
        /// The address of its `SKILL.md`, untrusted.
        uri: String = "uri", Required;
        /// What the head of that file says.
        frontmatter: SkillFrontmatter = "frontmatter", Required;
        /// Its files.
        resources: SkillResources = "resources", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// What the head of a `SKILL.md` says; untrusted.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    SkillFrontmatter {
        /// The name of the skill.
        name: String = "name", Required;
        /// What it is for, for a model to read.
        description: String = "description", OrDefault;
    }
}

/// The files of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkillResources {
    /// They change, so that no digest can be told: `dynamic`.
    Dynamic,
    /// All of them.
    Files(Vec<SkillResource>),
    /// Anything else, as received: no file of it can be checked.
    Other(RawJson),
}

message! {
    /// One file of a skill.
    #[derive(Debug, Clone, PartialEq, Eq)]
    SkillResource {
        /// Its address.
        uri: String = "uri", Required;
        /// `sha256:` and the digest of its bytes in 64 lower-case hexadecimal digits, unchecked.
        digest: String = "digest", Required;
        /// Its size in bytes.
        size: u64 = "size", Required;
    }
}

message! {
    /// Lists what a directory holds, one page at a time (extension skills, where it is declared).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ReadDirectory skipping "_meta" {
        /// The address of the directory.
        uri: String = "uri", Required;
        /// Which page, as given by the page before; `None` is the first.
        cursor: Option<String> = "cursor", Optional;
    }
}

impl GetSkill {
    /// Fetches the skill whose `SKILL.md` is at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), other: OtherMembers::default() }
    }
}

impl ReadDirectory {
    /// Lists the directory at `uri`, from the page at `cursor` on.
    pub fn new(uri: impl Into<String>, cursor: Option<String>) -> Self {
        Self { uri: uri.into(), cursor, other: OtherMembers::default() }
    }
}

impl Request for GetSkill {
    const METHOD: Method = Method::SKILLS_GET;
    type Result = GetSkillResult;
}

impl Request for ReadDirectory {
    const METHOD: Method = Method::RESOURCES_DIRECTORY_READ;
    type Result = ListResourcesResult;
}

impl Member for SkillResources {}

impl Versioned for SkillResources {}

impl Serialize for SkillResources {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dynamic => serializer.serialize_str("dynamic"),
            Self::Files(files) => files.serialize(serializer),
            Self::Other(raw) => raw.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SkillResources {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        Ok(match raw.get() {
            r#""dynamic""# => Self::Dynamic,
            text => decode_with(text, |reader| Vec::read(reader)).map_or(Self::Other(raw), Self::Files),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Paginated;

    #[test]
    fn a_skill_keeps_what_its_author_wrote() {
        for resources in
            [r#""dynamic""#, r#"[{"uri":"skill://a/SKILL.md","digest":"sha256:00","size":7,"x":1.0}]"#, "7"]
        {
            let text = format!(
                r#"{{"uri":"skill://a/SKILL.md","frontmatter":{{"name":"a","description":"d","license":"MIT"}},"resources":{resources}}}"#
            );
            let skill: Skill = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&skill).unwrap(), text);
            assert_eq!(skill.resources == SkillResources::Dynamic, resources == r#""dynamic""#);
            let result: GetSkillResult = serde_json::from_str(&format!(r#"{{"skill":{text}}}"#)).unwrap();
            assert_eq!(result.skill, skill);
            let page: ListSkillsResult = serde_json::from_str(&format!(r#"{{"skills":[{text}]}}"#)).unwrap();
            assert_eq!(ListSkills::split(page).0, [skill]);
        }
    }

    #[test]
    fn requests_name_what_they_want() {
        assert_eq!(serde_json::to_string(&GetSkill::new("a:b")).unwrap(), r#"{"uri":"a:b"}"#);
        let text = serde_json::to_string(&ReadDirectory::new("a:b/", Some(String::new()))).unwrap();
        assert_eq!(text, r#"{"uri":"a:b/","cursor":""}"#);
    }
}
