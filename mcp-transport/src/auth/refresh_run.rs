use mcp_proto::Secret;
use tokio::time::Instant;

use super::error::AuthError;
use super::provider::Shared;
use super::refresh::{Refresh, RefreshInput, RefreshOutput};
use super::store::{FENCE_LIMIT, LockedCredentials, StoreError};

/// Drives a [`Refresh`] to its end. Runs in a task of its own, so that nobody can drop it half-way.
///
/// The fence is held from before the store is read until what was renewed is kept: whoever comes next
/// finds the new token. What cannot be kept is published all the same, as the old one is worth nothing.
pub(super) async fn run(shared: &Shared, refused: Option<Secret>) -> Result<(), AuthError> {
    let (mut refresh, mut wants) = Refresh::begin(shared.settings(), shared.server.clone(), refused);
    let fence: Box<dyn LockedCredentials> = lock(shared).await?;
    let mut has_saved = false;
    loop {
        let input = match wants {
            RefreshOutput::NeedFence => RefreshInput::FenceTaken(fence.load().await?.map(Box::new)),
            RefreshOutput::Reload => RefreshInput::Reloaded(fence.load().await?.map(Box::new)),
            RefreshOutput::Send(number, request) => {
                RefreshInput::Response(number, shared.seams.http.send(*request).await)
            }
            RefreshOutput::Commit(mut record) => {
                let saved = fence.save(&record).await;
                has_saved = true;
                if let Ok(saved) = &saved {
                    record.revision = saved.revision;
                }
                if let Err(error) = &saved {
                    tracing::warn!(server = %shared.server, %error, "a renewed token cannot be kept");
                }
                shared.publish(record, saved.as_ref().ok().copied());
                RefreshInput::Saved(saved)
            }
            RefreshOutput::Done(end) => {
                if let Ok(record) = &end
                    && !has_saved
                {
                    shared.adopt(Some(record.clone()));
                }
                return end.map(drop);
            }
        };
        // The inputs above are what it waits for.
        match refresh.step(input, shared.now()) {
            Ok(next) => wants = next,
            Err(error) => return Err(AuthError::unavailable(error.to_string())),
        }
    }
}

/// Tries once more to keep what was renewed.
pub(super) async fn save_again(shared: &Shared) -> Result<(), AuthError> {
    let Some(mut record) = shared.unsaved() else { return Ok(()) };
    let fence = lock(shared).await?;
    let obtained =
        |record: &super::record::CredentialRecord| record.tokens.as_ref().map(|tokens| tokens.obtained_at);
    let kept = fence.load().await?;
    if let Some(kept) = kept.filter(|kept| obtained(kept) > obtained(&record)) {
        shared.adopt(Some(Box::new(kept)));
        return Ok(());
    }
    record.revision = fence.load().await?.map_or(0, |kept| kept.revision);
    let saved = fence.save(&record).await?;
    record.revision = saved.revision;
    shared.publish(record, Some(saved));
    Ok(())
}

async fn lock(shared: &Shared) -> Result<Box<dyn LockedCredentials>, StoreError> {
    shared.seams.store.lock(&shared.key, Instant::now() + FENCE_LIMIT).await
}
