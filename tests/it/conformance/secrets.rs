//! The callback of a topic and the secrets that sign its calls.

use std::num::NonZeroU32;

use linger::{
    job::{
        CallHeaders, CallMethod, CallRate, Callback, CallbackUrl, SecretId, SigningKey, SigningSecret,
        TopicCallback, TopicSettings,
    },
    store::{AddedSecret, TopicUpdates},
};

use crate::harness::{jobs::*, stores::StoreFixture};

super::on_every_engine! {
    secrets_added_side_by_side_are_all_kept;
    a_callback_is_a_setting_whose_change_is_announced,
    secrets_outlive_settings_and_pauses,
    a_third_secret_is_refused,
}

fn key(n: u8) -> SigningKey {
    SigningKey::from_bytes(&[n; 32]).expect("valid")
}

fn secret(fixture: &StoreFixture, n: u8) -> SigningSecret {
    SigningSecret { id: SecretId([n; 8]), created_at: fixture.now(), key: key(n) }
}

async fn add_secret(fixture: &StoreFixture, n: u8) -> AddedSecret {
    fixture.store.add_secret(&topic("t"), secret(fixture, n)).await.expect("answers")
}

async fn created(fixture: &StoreFixture, n: u8) -> SigningSecret {
    match add_secret(fixture, n).await {
        AddedSecret::Created(added) => {
            assert_eq!(added, secret(fixture, n));
            added
        }
        other => panic!("secret {n}: {other:?}"),
    }
}

async fn secrets(fixture: &StoreFixture) -> Vec<SigningSecret> {
    let stored = fixture.store.read_topic_config(&topic("t")).await.expect("reads");
    assert_eq!(stored, *fixture.store.topic_config(&topic("t")), "the process that changed it knows at once");
    stored.secrets
}

async fn a_callback_is_a_setting_whose_change_is_announced(mut fixture: StoreFixture) {
    let url = |text| CallbackUrl::parse(text).expect("valid");
    let target = Callback {
        method: CallMethod::Put,
        headers: CallHeaders::new(vec![("authorization".to_owned(), "Bearer s3cret".to_owned())])
            .expect("valid"),
        timeout: Some(seconds(20)),
        ..Callback::to(url("https://shop.example/hooks?a=b"))
    };
    let callback = TopicCallback {
        target: Some(target.clone()),
        rate: Some(CallRate::from_milli(50_500).expect("valid")),
        concurrency: NonZeroU32::new(7),
    };
    let other =
        TopicCallback { target: Some(Callback { url: url("http://other/"), ..target }), ..callback.clone() };
    for callback in [callback, other, TopicCallback::default()] {
        fixture.notifications.take_ready();
        let settings = TopicSettings { ttr: Some(ttr(5)), callback, ..TopicSettings::default() };
        fixture.store.put_settings(&topic("t"), settings.clone()).await.expect("puts");
        assert!(fixture.notifications.take_ready().contains(&plain("t")), "{settings:?}");
        assert_eq!(fixture.store.topic_config(&topic("t")).settings, settings);
        fixture.reopen().await;
        assert_eq!(fixture.store.topic_config(&topic("t")).settings, settings);
    }
}

async fn secrets_outlive_settings_and_pauses(mut fixture: StoreFixture) {
    let kept = vec![created(&fixture, 1).await, created(&fixture, 2).await];
    let settings = TopicSettings { ttr: Some(ttr(5)), ..TopicSettings::default() };
    fixture.store.put_settings(&topic("t"), settings).await.expect("puts");
    fixture.store.pause(&topic("t"), PausedOperations::ALL, Pause::ENDLESS).await.expect("pauses");
    assert_eq!(secrets(&fixture).await, kept);
    fixture.store.put_settings(&topic("t"), TopicSettings::default()).await.expect("clears");
    fixture.store.resume(&topic("t"), PausedOperations::ALL).await.expect("resumes");
    assert_eq!(secrets(&fixture).await, kept);
    fixture.reopen().await;
    assert_eq!(secrets(&fixture).await, kept);
    assert_eq!(
        fixture.store.topics(ALL, None, 10).await.expect("lists").len(),
        1,
        "a topic with secrets is listed"
    );
    for secret in &kept {
        assert!(fixture.store.delete_secret(&topic("t"), secret.id).await.expect("deletes"));
        assert!(!fixture.store.delete_secret(&topic("t"), secret.id).await.expect("deletes"));
    }
    assert_eq!(fixture.store.topic(&topic("t")).await.expect("reads"), None);
}

async fn a_third_secret_is_refused(fixture: StoreFixture) {
    let (first, second) = (created(&fixture, 1).await, created(&fixture, 2).await);
    assert_eq!(add_secret(&fixture, 3).await, AddedSecret::TooMany);
    let again = fixture
        .store
        .add_secret(&topic("t"), SigningSecret { id: SecretId([9; 8]), ..secret(&fixture, 1) })
        .await
        .expect("answers");
    assert_eq!(again, AddedSecret::Exists(first.clone()), "the same key under another id");
    assert_eq!(secrets(&fixture).await, [first.clone(), second.clone()]);
    assert!(!fixture.store.delete_secret(&topic("other"), first.id).await.expect("deletes"));
    assert!(fixture.store.delete_secret(&topic("t"), first.id).await.expect("deletes"));
    let third = created(&fixture, 3).await;
    assert_eq!(secrets(&fixture).await, [second, third]);
}

/// Three callers each add a secret at the same time, on many topics, while a fourth one changes the settings.
async fn secrets_added_side_by_side_are_all_kept(fixture: StoreFixture) {
    let names: Vec<_> = (0..20).map(|n| topic(&n.to_string())).collect();
    for name in &names {
        let mut tasks = tokio::task::JoinSet::new();
        for n in 1..=3 {
            let (store, name, secret) = (fixture.store.clone(), name.clone(), secret(&fixture, n));
            tasks.spawn(async move { store.add_secret(&name, secret).await.expect("answers") });
        }
        let settings = TopicSettings { ttr: Some(ttr(5)), ..TopicSettings::default() };
        fixture.store.put_settings(name, settings.clone()).await.expect("puts");
        let answers = tasks.join_all().await;
        let refused = answers.iter().filter(|added| **added == AddedSecret::TooMany).count();
        let mut added: Vec<_> = answers
            .into_iter()
            .filter_map(|added| match added {
                AddedSecret::Created(secret) => Some(secret.id.0),
                AddedSecret::Exists(_) | AddedSecret::TooMany => None,
            })
            .collect();
        assert_eq!((refused, added.len()), (1, 2), "{name}");
        let config = fixture.store.read_topic_config(name).await.expect("reads");
        let mut stored: Vec<_> = config.secrets.iter().map(|secret| secret.id.0).collect();
        added.sort_unstable();
        stored.sort_unstable();
        assert_eq!((stored, &config.settings), (added, &settings), "{name}");
    }
}
