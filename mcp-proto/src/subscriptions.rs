use std::collections::HashSet;

use serde::Deserialize;

use crate::entries::Entries;
use crate::id::RequestId;
use crate::message::message;
use crate::meta::meta_key;
use crate::method::Method;
use crate::other_members::OtherMembers;
use crate::payload::Payload;
use crate::ping::EmptyResult;
use crate::raw_json::RawJson;
use crate::request::{Notification, Request};
use crate::result_type::ResultType;

message! {
    /// Asks to be told of changes for as long as the request lives (since 2026-07-28).
    ///
    /// The server answers at once with [`SubscriptionAcknowledged`], and with a [`ListenResult`] when it
    /// ends the subscription itself.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/subscriptions: `subscriptions/listen`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    Listen skipping "_meta" {
        /// Which changes are wanted.
        notifications: SubscriptionFilter = "notifications", Required;
    }
}

message! {
    /// Which changes are wanted or promised (since 2026-07-28).
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/subscriptions.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    SubscriptionFilter {
        /// Those of the list of tools.
        tools_list_changed: bool = "toolsListChanged", HintOrDefault;
        /// Those of the list of prompts.
        prompts_list_changed: bool = "promptsListChanged", HintOrDefault;
        /// Those of the list of resources.
        resources_list_changed: bool = "resourcesListChanged", HintOrDefault;
        /// Those of these resources and of what they hold, by their addresses.
        resource_subscriptions: Vec<String> = "resourceSubscriptions", HintOrDefault;
        /// Those of these tasks (extension tasks).
        task_ids: Vec<String> = "taskIds", HintOrDefault;
    }
}

message! {
    /// A subscription has begun; the first message of its stream (since 2026-07-28).
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/subscriptions.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    SubscriptionAcknowledged {
        /// What the server promises to tell of what was wanted.
        notifications: SubscriptionFilter = "notifications", Required;
        /// Metadata, as received; it names the subscription.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// The answer to [`Listen`]: the server has ended the subscription in good order (since 2026-07-28).
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, basic/patterns/subscriptions.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ListenResult {
        /// What kind of result it is.
        result_type: Option<ResultType> = "resultType", Hint;
        /// Metadata, as received; it names the subscription.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// Asks to be told of changes of one resource (until 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, server/resources: `resources/subscribe`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    SubscribeResource skipping "_meta" {
        /// Its address.
        uri: String = "uri", Required;
    }
}

message! {
    /// Ends what [`SubscribeResource`] began (until 2025-11-25).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, server/resources: `resources/unsubscribe`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    UnsubscribeResource skipping "_meta" {
        /// Its address.
        uri: String = "uri", Required;
    }
}

message! {
    /// A resource has changed, or one that a subscribed one holds; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources.
    #[derive(Debug, Clone, PartialEq, Eq)]
    ResourceUpdated {
        /// Its address, which may be below the one that was subscribed to; untrusted.
        uri: String = "uri", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// The list of tools has changed; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/tools.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ToolListChanged {
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// The list of prompts has changed; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/prompts.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    PromptListChanged {
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// The list of resources has changed; in all versions.
    ///
    /// # Source
    ///
    /// MCP 2026-07-28, server/resources.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ResourceListChanged {
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

/// The subscription that a notification belongs to: the id of its [`Listen`], of the same JSON type.
///
/// `params` is that of the notification, of whatever method. `None` when it names none (as in the
/// legacy era, always).
///
/// # Source
///
/// MCP 2026-07-28, basic: `NotificationMetaObject`.
#[must_use]
pub fn subscription_id(params: &Payload) -> Option<RequestId> {
    #[derive(Deserialize)]
    struct Members {
        #[serde(rename = "_meta")]
        meta: Option<Entries<RawJson>>,
    }
    params.decode::<Members>().ok()?.meta?.get(meta_key::SUBSCRIPTION_ID)?.decode().ok()
}

impl Listen {
    /// Asks for the changes that `filter` names.
    #[must_use]
    pub fn new(filter: SubscriptionFilter) -> Self {
        Self { notifications: filter, ..Self::default() }
    }
}

impl SubscriptionFilter {
    /// Whether it names no change at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self { other: self.other.clone(), ..Self::default() }
    }

    /// The part of this filter that `honoured` names too; whatever else it names is left out.
    #[must_use]
    pub fn within(&self, honoured: &Self) -> Self {
        let common = |wanted: &[String], given: &[String]| {
            let given: HashSet<&String> = given.iter().collect();
            wanted.iter().filter(|name| given.contains(name)).cloned().collect()
        };
        Self {
            tools_list_changed: self.tools_list_changed && honoured.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed && honoured.prompts_list_changed,
            resources_list_changed: self.resources_list_changed && honoured.resources_list_changed,
            resource_subscriptions: common(&self.resource_subscriptions, &honoured.resource_subscriptions),
            task_ids: common(&self.task_ids, &honoured.task_ids),
            other: OtherMembers::default(),
        }
    }

    /// What this filter names and `honoured` does not: changes that were wanted and will not be told.
    #[must_use]
    pub fn without(&self, honoured: &Self) -> Self {
        let missing = |wanted: &[String], given: &[String]| {
            wanted.iter().filter(|name| !given.contains(name)).cloned().collect()
        };
        Self {
            tools_list_changed: self.tools_list_changed && !honoured.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed && !honoured.prompts_list_changed,
            resources_list_changed: self.resources_list_changed && !honoured.resources_list_changed,
            resource_subscriptions: missing(&self.resource_subscriptions, &honoured.resource_subscriptions),
            task_ids: missing(&self.task_ids, &honoured.task_ids),
            other: OtherMembers::default(),
        }
    }
}

impl SubscribeResource {
    /// Subscribes to the resource at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), other: OtherMembers::default() }
    }
}

impl UnsubscribeResource {
    /// Ends the subscription to the resource at `uri`.
    pub fn new(uri: impl Into<String>) -> Self {
        Self { uri: uri.into(), other: OtherMembers::default() }
    }
}

impl Request for Listen {
    const METHOD: Method = Method::SUBSCRIPTIONS_LISTEN;
    type Result = ListenResult;
}

impl Request for SubscribeResource {
    const METHOD: Method = Method::RESOURCES_SUBSCRIBE;
    type Result = EmptyResult;
}

impl Request for UnsubscribeResource {
    const METHOD: Method = Method::RESOURCES_UNSUBSCRIBE;
    type Result = EmptyResult;
}

impl Notification for SubscriptionAcknowledged {
    const METHOD: Method = Method::SUBSCRIPTIONS_ACKNOWLEDGED;
}

impl Notification for ResourceUpdated {
    const METHOD: Method = Method::RESOURCES_UPDATED;
}

impl Notification for ToolListChanged {
    const METHOD: Method = Method::TOOLS_LIST_CHANGED;
}

impl Notification for PromptListChanged {
    const METHOD: Method = Method::PROMPTS_LIST_CHANGED;
}

impl Notification for ResourceListChanged {
    const METHOD: Method = Method::RESOURCES_LIST_CHANGED;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> SubscriptionFilter {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_filter_names_only_what_is_wanted() {
        assert_eq!(serde_json::to_string(&Listen::default()).unwrap(), r#"{"notifications":{}}"#);
        let text = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["t"]}"#;
        let listen = Listen::new(filter(text));
        assert_eq!(serde_json::to_string(&listen).unwrap(), format!(r#"{{"notifications":{text}}}"#));
        assert!(!listen.notifications.is_empty() && filter(r#"{"x":1,"taskIds":null}"#).is_empty());
    }

    #[test]
    fn what_is_not_honoured_is_found() {
        let wanted = filter(
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a","b"],"taskIds":["t"]}"#,
        );
        let honoured =
            filter(r#"{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["b"]}"#);
        let missing = filter(r#"{"promptsListChanged":true,"resourceSubscriptions":["a"],"taskIds":["t"]}"#);
        assert_eq!(wanted.without(&honoured), missing);
        assert!(wanted.without(&wanted).is_empty());
    }

    #[test]
    fn a_notification_names_its_subscription_in_the_type_of_the_id() {
        let of = |text: &'static str| subscription_id(&Payload::from_checked(text.into()));
        assert_eq!(of(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#), Some(7.into()));
        assert_eq!(
            of(r#"{"uri":"a","_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}"#),
            Some("7".into())
        );
        for text in
            ["{}", r#"{"_meta":null}"#, r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":{}}}"#, "7"]
        {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn subscribing_in_the_legacy_era_names_an_address() {
        let text = r#"{"uri":"a:b"}"#;
        assert_eq!(serde_json::to_string(&SubscribeResource::new("a:b")).unwrap(), text);
        assert_eq!(serde_json::to_string(&UnsubscribeResource::new("a:b")).unwrap(), text);
        assert_eq!(serde_json::from_str::<ResourceUpdated>(text).unwrap().uri, "a:b");
    }
}
