//! The fields that say when a job expires, of adds and of changes.

use super::{fields::Fields, values};
use crate::job::{Expire, ExpiryChange, OnExpiry};

/// `expire` and `on_expiry`, the second only with the first.
pub fn of_job(fields: &mut Fields<'_>) -> (Option<Expire>, Option<OnExpiry>) {
    if fields.has("on_expiry") && !fields.has("expire") {
        fields.add_fault("on_expiry", "must be given together with expire");
    }
    (fields.optional("expire", values::expire), fields.optional("on_expiry", values::on_expiry))
}

/// `expire` and `on_expiry`, or `clear_expire`.
pub fn change(fields: &mut Fields<'_>) -> ExpiryChange {
    let clears = fields.optional("clear_expire", values::flag).unwrap_or_default();
    if clears && fields.has("expire") {
        fields.add_fault("clear_expire", "must not be given together with expire");
    }
    match of_job(fields) {
        (Some(expire), on_expiry) => ExpiryChange::Set(expire, on_expiry),
        (None, _) if clears => ExpiryChange::Clear,
        (None, _) => ExpiryChange::Keep,
    }
}
