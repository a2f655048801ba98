use crate::auth::challenge::Challenges;
use crate::auth::error::Refusal;
use crate::auth::metadata::{ResourceMetadata, ServerMetadata};

/// How proofs are signed here: the one algorithm that every server knows.
const ALGORITHM: &str = "ES256";

/// When new tokens are bound to a key, so that whoever has taken one cannot use it.
///
/// It is about new grants alone: tokens that are bound stay so, and are renewed with their key.
///
/// # Source
///
/// RFC 9449; RFC 9728, section 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dpop {
    /// Never.
    Off,
    /// If both sides offer it: the authorization server in its metadata, and the server in its metadata or
    /// when it refuses a request. The default.
    #[default]
    WhenOffered,
    /// Always: without it there is no access, and tokens that are not bound are not used.
    Required,
}

/// What is known about both sides.
#[derive(Debug, Clone, Copy)]
pub(in crate::auth) struct Offer<'a> {
    /// The authorization server.
    pub(in crate::auth) issuer: &'a ServerMetadata,
    /// The server.
    pub(in crate::auth) resource: Option<&'a ResourceMetadata>,
    /// What the server has asked for last, if it was asked.
    pub(in crate::auth) challenges: &'a Challenges,
    /// Whether the last tokens for the server were bound.
    pub(in crate::auth) was_bound: bool,
}

/// What the tokens of a grant have to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::auth) enum Binding {
    /// They are not bound.
    Free,
    /// They are asked for with a key, and are good without one.
    Wanted,
    /// They are bound to a key, or not used.
    Required,
}

impl Dpop {
    /// What the tokens of a new grant have to be.
    pub(in crate::auth) fn choose(self, offer: &Offer<'_>) -> Result<Binding, Refusal> {
        let is_required = offer.resource.is_some_and(|resource| resource.dpop_bound_access_tokens_required);
        match self {
            Self::Off => Ok(Binding::Free),
            Self::WhenOffered if !is_required && !offer.is_by_both() => Ok(Binding::Free),
            Self::WhenOffered if !is_required => Ok(Binding::Wanted),
            _ if offer.is_by_issuer() => Ok(Binding::Required),
            _ => Err(Refusal::NoDpop),
        }
    }
}

impl Offer<'_> {
    fn is_by_both(&self) -> bool {
        self.is_by_issuer() && self.is_by_server()
    }

    fn is_by_issuer(&self) -> bool {
        lists_algorithm(&self.issuer.dpop_signing_alg_values_supported)
    }

    /// A server that knows nothing of it may take a bound token for one of no use.
    fn is_by_server(&self) -> bool {
        let is_published =
            self.resource.is_some_and(|one| lists_algorithm(&one.dpop_signing_alg_values_supported));
        is_published
            || if self.challenges.is_empty() { self.was_bound } else { asks_for_dpop(self.challenges) }
    }
}

/// Whether a server asks for proofs that can be made here.
fn asks_for_dpop(challenges: &Challenges) -> bool {
    let is_known = |algs: &String| algs.split(' ').any(|one| one == ALGORITHM);
    challenges.dpop.as_ref().is_some_and(|dpop| dpop.algs.as_ref().is_none_or(is_known))
}

fn lists_algorithm(listed: &Option<Vec<String>>) -> bool {
    listed.as_ref().is_some_and(|listed| listed.iter().any(|one| one == ALGORITHM))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(algorithms: &[&str]) -> Option<Vec<String>> {
        Some(algorithms.iter().map(|one| (*one).to_owned()).collect())
    }

    #[test]
    fn tokens_are_bound_where_both_sides_offer_it() {
        use Binding::{Free, Required, Wanted};
        let issuer =
            |listed| ServerMetadata { dpop_signing_alg_values_supported: listed, ..Default::default() };
        let (takes, other, silent) =
            (issuer(list(&["PS256", "ES256"])), issuer(list(&["PS256"])), issuer(None));
        let published = |listed, dpop_bound_access_tokens_required| {
            let dpop_signing_alg_values_supported = listed;
            Some(ResourceMetadata {
                dpop_signing_alg_values_supported,
                dpop_bound_access_tokens_required,
                ..Default::default()
            })
        };
        let (offers, wants, mute) =
            (published(list(&["ES256"]), false), published(None, true), published(None, false));
        let challenges = |value: &str| Challenges::parse([value.as_bytes()]);
        let (unasked, bearer, dpop) = (challenges(""), challenges("Bearer"), challenges("Bearer, DPoP"));
        let (knows, foreign) = (challenges(r#"DPoP algs="RS256 ES256""#), challenges(r#"DPoP algs="RS256""#));
        let choose = |setting: Dpop, issuer, resource: &Option<ResourceMetadata>, challenges, was_bound| {
            let resource = resource.as_ref();
            setting.choose(&Offer { issuer, resource, challenges, was_bound })
        };
        let auto = Dpop::WhenOffered;
        for (resource, challenges, was_bound, expected) in [
            (&offers, &unasked, false, Wanted),
            (&offers, &bearer, false, Wanted),
            (&wants, &unasked, false, Required),
            (&mute, &unasked, false, Free),
            (&None, &unasked, false, Free),
            (&mute, &dpop, false, Wanted),
            (&None, &knows, false, Wanted),
            (&None, &foreign, true, Free),
            (&None, &unasked, true, Wanted),
            (&mute, &bearer, true, Free),
        ] {
            let found = choose(auto, &takes, resource, challenges, was_bound);
            assert_eq!(found, Ok(expected), "{resource:?} {challenges:?} {was_bound}");
            for issuer in [&other, &silent] {
                let found = choose(auto, issuer, resource, challenges, was_bound);
                let expected = if expected == Required { Err(Refusal::NoDpop) } else { Ok(Free) };
                assert_eq!(found, expected, "{resource:?} {challenges:?} {was_bound}");
            }
            assert_eq!(choose(Dpop::Off, &takes, resource, challenges, was_bound), Ok(Free));
            assert_eq!(choose(Dpop::Required, &takes, resource, challenges, was_bound), Ok(Required));
            assert_eq!(
                choose(Dpop::Required, &silent, resource, challenges, was_bound),
                Err(Refusal::NoDpop)
            );
        }
    }
}
