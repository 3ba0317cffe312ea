//! The expiry of a job in JSON.

use serde::{Deserialize, Serialize};

use super::values::{Moment, Seconds};
use crate::job::{Delay, Expire, Expiry, OnExpiry, Timestamp};

/// What was asked, a duration or a moment, and when the job expires.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpiryJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Seconds>,
    at: Moment,
    on_expiry: String,
}

impl ExpiryJson {
    pub fn new(Expiry { expire, on_expiry }: Expiry, expires_at: Timestamp) -> Self {
        let after = match expire {
            Expire::After(delay) => Some(Seconds(delay.as_duration())),
            Expire::At(_) => None,
        };
        Self { after, at: Moment(expires_at), on_expiry: on_expiry.as_str().to_owned() }
    }

    pub fn into_expiry(self) -> Result<(Expiry, Timestamp), String> {
        let expire = match self.after {
            Some(after) => Expire::After(Delay::new(after.0).map_err(|error| format!("its expiry {error}"))?),
            None => Expire::At(self.at.0),
        };
        let on_expiry = OnExpiry::ALL.into_iter().find(|named| named.as_str() == self.on_expiry);
        let on_expiry = on_expiry.ok_or("its on_expiry is unknown")?;
        Ok((Expiry { expire, on_expiry }, self.at.0))
    }
}
