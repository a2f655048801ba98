//! How lists that come in pages are declared.

/// Declares a request for a list, one page of its answer, and how a page is taken apart.
macro_rules! list {
    (
        $(#[$request_doc:meta])*
        $request:ident = $method:ident;
        $(#[$result_doc:meta])*
        $result:ident { $(#[$entries_doc:meta])* $entries:ident: Vec<$entry:ty> = $wire:literal; }
    ) => {
        $crate::message::message! {
            $(#[$request_doc])*
            #[derive(Debug, Clone, Default, PartialEq, Eq)]
            $request skipping "_meta" {
                /// Which page, as given by the page before; `None` is the first.
                cursor: Option<String> = "cursor", Optional;
            }
        }

        $crate::message::message! {
            $(#[$result_doc])*
            #[derive(Debug, Clone, Default, PartialEq)]
            $result {
                /// What kind of result it is.
                result_type: Option<$crate::result_type::ResultType> = "resultType", Hint, since V2026_07_28;
                $(#[$entries_doc])*
                $entries: Vec<$entry> = $wire, List;
                /// Where the next page is; `None` ends the list, the empty text does not.
                next_cursor: Option<String> = "nextCursor", Optional;
                /// How long the page may be reused, in milliseconds.
                ttl_ms: Option<u64> = "ttlMs", Hint, since V2026_07_28;
                /// Who may be given a cached page.
                cache_scope: Option<$crate::cache::CacheScope> = "cacheScope", Hint, since V2026_07_28;
                /// Metadata, as received.
                meta: Option<$crate::raw_json::RawJson> = "_meta", Optional;
            }
        }

        impl $request {
            /// Asks for the first page.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }
        }

        impl $crate::request::Request for $request {
            const METHOD: $crate::method::Method = $crate::method::Method::$method;
            type Result = $result;
        }

        impl $crate::request::Paginated for $request {
            type Item = $entry;

            fn page(cursor: Option<String>) -> Self {
                Self { cursor, ..Self::default() }
            }

            fn split(result: $result) -> (Vec<$entry>, Option<String>) {
                (result.$entries, result.next_cursor)
            }
        }
    };
}

pub(crate) use list;
