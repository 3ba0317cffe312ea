//! Checks callbacks against the settings of the server, and manages the secrets that sign calls. Makes no calls.

pub(super) mod called_endpoint;
pub(super) mod outlet_listener;
pub(super) mod outlets;

use super::{
    error::{Error, HiddenHeaders, Result},
    service::Queue,
    topics::TopicView,
};
use crate::{
    config::CallbackSettings,
    job::{
        CallHeaders, Callback, NewJob, RetrySchedule, SecretId, SigningKey, SigningSecret, Topic,
        TopicSettings, Ttr,
    },
    store::{self, TopicConfig, TopicUpdates},
};

/// A secret that a topic has after it was to be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddedSecret {
    /// It was added.
    New(SigningSecret),
    /// The topic had it already; nothing changed.
    Known(SigningSecret),
}

/// What the callback of a job, or of its topic, adds to the job.
pub(super) struct CallRules<'a>(pub &'a CallbackSettings);

impl CallRules<'_> {
    /// Refuses the own callback of a job if a setting forbids it.
    pub fn check_own(&self, callback: &Callback) -> Result<()> {
        if !self.0.in_jobs {
            return Err(Error::CallbackNotAllowed { setting: CallbackSettings::IN_JOBS });
        }
        self.check(callback)
    }

    /// Refuses a callback if a setting forbids its URL.
    pub fn check(&self, callback: &Callback) -> Result<()> {
        let forbidden_by = self.0.forbidden_by(callback.url.origin());
        forbidden_by.map_or(Ok(()), |setting| Err(Error::CallbackNotAllowed { setting }))
    }

    /// The retry schedule of a job for which neither itself nor its topic has one, if it will be called.
    pub fn retry(&self, job: &NewJob, topic: &TopicSettings) -> Option<&RetrySchedule> {
        let is_called = job.callback.is_some() || topic.callback.target.is_some();
        (is_called && job.retry.is_none() && topic.retry.is_none()).then_some(&self.0.retry)
    }

    /// At least `ttr`, and long enough for a call of the job's own callback and its settling.
    pub fn ttr(&self, job: &NewJob, ttr: Ttr) -> Ttr {
        let needed = job.callback.as_ref().map(|callback| callback.timeout() + Callback::SETTLING);
        let needed = needed.and_then(|needed| Ttr::new(needed).ok());
        needed.map_or(ttr, |needed| needed.max(ttr))
    }
}

impl Queue {
    pub(super) fn call_rules(&self) -> CallRules<'_> {
        CallRules(&self.limits.callbacks)
    }

    /// Replaces a topic's settings, as [`put_settings`](Self::put_settings) does. The headers of its callback that
    /// `kept_headers` names get the values that are stored for them: only if the callback goes to the same scheme, host
    /// and port, so that a client that may change a topic cannot send its credentials elsewhere.
    ///
    /// # Errors
    /// [`Error::HiddenHeaders`], and those of `put_settings`.
    pub async fn put_settings_keeping_headers(
        &self,
        topic: &Topic,
        mut settings: TopicSettings,
        kept_headers: Vec<String>,
    ) -> Result<TopicView> {
        let Some(target) = settings.callback.target.clone().filter(|_| !kept_headers.is_empty()) else {
            return self.put_settings(topic, settings).await;
        };
        self.call_rules().check(&target)?;
        // Made anew if another caller has changed the headers since they were read.
        let put = |config: &mut TopicConfig| -> Result<()> {
            let stored = config.settings.callback.target.as_ref();
            let headers = with_kept(&target, stored, kept_headers.clone())?;
            settings.callback.target = Some(Callback { headers, ..target.clone() });
            config.settings.clone_from(&settings);
            Ok(())
        };
        self.store.update_config(topic, put).await??;
        self.topic_or_default(topic).await
    }

    /// Has the endpoints of a topic called at once, by all processes, although they rest: as always, only for jobs that are ready,
    /// and within the windows, limits and pauses of the topic.
    ///
    /// # Errors
    /// [`Error::TopicNotFound`], or the store's.
    pub async fn call_now(&self, topic: &Topic) -> Result<()> {
        self.topic(topic).await?;
        Ok(self.store.call_now(topic).await?)
    }

    /// Adds a secret to a topic: this key, or 32 random bytes.
    ///
    /// # Errors
    /// [`Error::TooManySecrets`], or the store's.
    pub async fn add_secret(&self, topic: &Topic, key: Option<SigningKey>) -> Result<AddedSecret> {
        let key = key.unwrap_or_else(SigningKey::generate);
        let created_at = self.clock.wall_now();
        let secret = SigningSecret { id: SecretId::generate(), created_at, key };
        match self.store.add_secret(topic, secret).await? {
            store::AddedSecret::Created(secret) => Ok(AddedSecret::New(secret)),
            store::AddedSecret::Exists(secret) => Ok(AddedSecret::Known(secret)),
            store::AddedSecret::TooMany => Err(Error::TooManySecrets),
        }
    }

    /// The secrets of a topic, oldest first.
    ///
    /// # Errors
    /// The store's.
    pub async fn secrets(&self, topic: &Topic) -> Result<Vec<SigningSecret>> {
        Ok(self.store.read_topic_config(topic).await?.secrets)
    }

    /// Deletes a secret of a topic.
    ///
    /// # Errors
    /// [`Error::SecretNotFound`], or the store's.
    pub async fn delete_secret(&self, topic: &Topic, id: SecretId) -> Result<()> {
        if self.store.delete_secret(topic, id).await? { Ok(()) } else { Err(Error::SecretNotFound) }
    }
}

/// The headers of `target`, and those that are named with the values that `stored` has for them.
fn with_kept(target: &Callback, stored: Option<&Callback>, names: Vec<String>) -> Result<CallHeaders> {
    let Some(stored) = stored else {
        return Err(Error::HiddenHeaders { names, why: HiddenHeaders::NotStored });
    };
    let missing: Vec<String> =
        names.iter().filter(|name| stored.headers.get(name).is_none()).cloned().collect();
    if !missing.is_empty() {
        return Err(Error::HiddenHeaders { names: missing, why: HiddenHeaders::NotStored });
    }
    if stored.url.origin() != target.url.origin() {
        return Err(Error::HiddenHeaders { names, why: HiddenHeaders::OtherOrigin });
    }
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let kept = stored.headers.iter().filter(|(name, _)| names.iter().any(|kept| kept == name));
    let all = target.headers.iter().chain(kept).map(owned).collect();
    CallHeaders::new(all).map_err(|_| Error::HiddenHeaders { names, why: HiddenHeaders::TooLarge })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::CallbackUrl;

    fn callback(url: &str, headers: &[(&str, &str)]) -> Callback {
        let pairs = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let headers = CallHeaders::new(pairs.collect()).expect("valid");
        Callback { headers, ..Callback::to(CallbackUrl::parse(url).expect("valid")) }
    }

    fn kept(target: &Callback, stored: Option<&Callback>, names: &[&str]) -> Result<CallHeaders> {
        with_kept(target, stored, names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn a_kept_value_goes_to_the_same_origin_only() {
        let stored = callback("https://a/old", &[("authorization", "s3cret"), ("x-a", "1")]);
        let target = callback("https://a:443/new?q", &[("x-b", "2")]);
        let headers = kept(&target, Some(&stored), &["authorization"]).expect("is stored");
        let listed: Vec<_> = headers.iter().collect();
        assert_eq!(listed, [("authorization", "s3cret"), ("x-b", "2")]);
        let refused = |target: &Callback, stored, names: &[&str]| match kept(target, stored, names) {
            Err(Error::HiddenHeaders { names, why }) => (names, why),
            other => panic!("{other:?}"),
        };
        for url in ["http://a/old", "https://b/old", "https://a:444/old"] {
            let other = callback(url, &[]);
            let expected = (vec!["x-a".to_owned()], HiddenHeaders::OtherOrigin);
            assert_eq!(refused(&other, Some(&stored), &["x-a"]), expected, "{url}");
        }
        let expected = (vec!["x-c".to_owned()], HiddenHeaders::NotStored);
        assert_eq!(refused(&target, Some(&stored), &["x-a", "x-c"]), expected);
        assert_eq!(refused(&target, None, &["x-c"]), expected);
        let full = callback("https://a/", &[("y", &"v".repeat(1_024)), ("z", &"v".repeat(1_024))]);
        let stored = callback("https://a/", &[("a", &"v".repeat(1_024)), ("b", &"v".repeat(1_024))]);
        assert_eq!(refused(&full, Some(&stored), &["a", "b"]).1, HiddenHeaders::TooLarge);
    }
}
