use mcp_proto::Secret;
use tokio::time::{Instant, timeout};

use super::error::AuthError;
use super::oauth_http::TOKEN_LIMIT;
use super::provider::Shared;
use super::record::CredentialRecord;
use super::renewal::{Renewal, RenewalInput, RenewalOutput};
use super::store::{FENCE_LIMIT, LockedCredentials, Stamp, StoreError};

/// What holds, and the state of the store from which that is known.
type Current = (Option<Box<CredentialRecord>>, Option<Stamp>);

/// Drives a [`Renewal`] to its end. Runs in a task of its own, so that nobody can drop it half-way.
///
/// The fence is held from before the store is read until what was renewed is kept: whoever comes next
/// finds the new token. What cannot be kept is published all the same, as the old one is worth nothing.
pub(super) async fn run(shared: &Shared, refused: Option<Secret>) -> Result<(), AuthError> {
    let (mut renewal, mut wants) = Renewal::begin(shared.renewal_plan(refused));
    let mut fence: Option<Box<dyn LockedCredentials>> = None;
    let mut stamp = None;
    let mut has_saved = false;
    loop {
        let input = match (wants, &fence) {
            (RenewalOutput::NeedFence, _) => {
                let taken = lock(shared).await?;
                let (record, read_at) = settle(shared, &*taken).await?;
                (fence, stamp) = (Some(taken), read_at);
                RenewalInput::FenceTaken(record)
            }
            (RenewalOutput::Reload, Some(fence)) => {
                let (record, read_at) = settle(shared, &**fence).await?;
                stamp = read_at;
                RenewalInput::Reloaded(record)
            }
            (RenewalOutput::NeedIdentity(source, audience), _) => {
                // What changes from here on was not shown.
                shared.on_shown(source.stamp());
                let identity = timeout(TOKEN_LIMIT, source.identity(&audience)).await;
                let late = || Err(AuthError::unavailable("no token of the identity in time"));
                RenewalInput::Identity(identity.unwrap_or_else(|_| late()))
            }
            (RenewalOutput::Send(number, request), _) => {
                RenewalInput::Response(number, shared.send(*request).await)
            }
            (RenewalOutput::Commit(mut record), Some(fence)) => {
                let saved = fence.save(&record).await;
                has_saved = true;
                if let Ok(saved) = &saved {
                    record.revision = saved.revision;
                }
                if let Err(error) = &saved {
                    tracing::warn!(server = %shared.server, %error, "a renewed token cannot be kept");
                }
                shared.publish(record, saved.as_ref().ok().copied());
                RenewalInput::Saved(saved)
            }
            (RenewalOutput::Done(end), _) => {
                if let Ok(record) = &end
                    && !has_saved
                {
                    shared.adopt(Some(record.clone()), stamp);
                }
                return end.map(drop);
            }
            (RenewalOutput::Reload | RenewalOutput::Commit(_), None) => {
                return Err(AuthError::unavailable("the fence was given back too early"));
            }
        };
        // The inputs above are what it waits for.
        match renewal.step(input, shared.now()) {
            Ok(next) => wants = next,
            Err(error) => return Err(AuthError::unavailable(error.to_string())),
        }
        if !renewal.needs_fence() {
            fence = None;
        }
    }
}

/// Tries once more to keep what was renewed.
pub(super) async fn save_again(shared: &Shared) -> Result<(), AuthError> {
    let fence = lock(shared).await?;
    let (record, stamp) = settle(shared, &*fence).await?;
    shared.adopt(record, stamp);
    Ok(())
}

/// Reads under the fence what holds. What could not be saved so far is saved first if it can be, and holds
/// in any case, unless somebody else has brought something newer.
async fn settle(shared: &Shared, fence: &dyn LockedCredentials) -> Result<Current, StoreError> {
    let stamp = shared.seams.store.stamp(&shared.key);
    let kept = fence.load().await?.map(Box::new);
    let Some(unsaved) = shared.unsaved(&kept) else { return Ok((kept, stamp)) };
    match fence.save(&unsaved).await {
        Ok(saved) => {
            shared.on_saved(saved);
            tracing::info!(server = %shared.server, "a renewed token is kept at last");
            let record = CredentialRecord { revision: saved.revision, ..*unsaved };
            Ok((Some(Box::new(record)), saved.stamp))
        }
        Err(error) => {
            // The first failure was told at a level that is seen.
            tracing::debug!(server = %shared.server, %error, "a renewed token still cannot be kept");
            Ok((Some(unsaved), stamp))
        }
    }
}

async fn lock(shared: &Shared) -> Result<Box<dyn LockedCredentials>, StoreError> {
    shared.seams.store.lock(&shared.key, Instant::now() + FENCE_LIMIT).await
}
