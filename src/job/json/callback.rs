//! A callback in JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Seconds;
use crate::job::{CallHeaders, CallMethod, Callback, CallbackUrl};

/// A callback. That of a topic may have no URL.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallbackJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

impl CallbackJson {
    pub fn new(callback: &Callback) -> Self {
        let Callback { url, method, headers, timeout } = callback;
        Self {
            url: Some(url.as_str().to_owned()),
            method: (*method != CallMethod::Post).then(|| method.as_str().to_owned()),
            headers: headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            timeout: timeout.map(Seconds),
            rate: None,
            concurrency: None,
        }
    }

    /// The callback; what is wrong with it.
    pub fn into_callback(self) -> Result<Callback, String> {
        let url = self.url.as_deref().ok_or("its callback has no URL")?;
        let method = self.method.as_deref().map_or(Some(CallMethod::Post), CallMethod::parse);
        let timeout = self.timeout.map(|timeout| Callback::check_timeout(timeout.0)).transpose();
        Ok(Callback {
            url: CallbackUrl::parse(url).map_err(|error| format!("the URL of its callback {error}"))?,
            method: method.ok_or("the method of its callback is unknown")?,
            headers: CallHeaders::new(self.headers.into_iter().collect())
                .map_err(|error| format!("a header of its callback {error}"))?,
            timeout: timeout.map_err(|error| format!("the timeout of its callback {error}"))?,
        })
    }
}
