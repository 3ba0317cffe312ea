//! Steps that end a reservation although its worker does not ask for it.

use linger::{
    job::{JobId, TopicFilter},
    store::{Release, Steps},
};
use rand::RngExt;

use super::Sequence;
use crate::harness::jobs::delay;

impl Sequence<'_> {
    /// Cancels or postpones.
    pub(super) async fn give_back(&mut self) {
        let (grants, wait) = (vec![self.receipt()], delay(self.wait()));
        self.touched.push(grants[0].0.clone());
        self.log_step(("give back", &grants[0].0, wait));
        if wait.as_duration().is_zero() {
            self.fixture.store.cancel(grants.clone()).await.expect("cancels");
            self.model.cancel(grants).await.expect("cancels");
        } else {
            self.fixture.store.postpone(grants.clone(), wait).await.expect("postpones");
            self.model.postpone(grants, wait).await.expect("postpones");
        }
    }

    /// Takes a job back from its worker, perhaps only in the attempt with a certain number.
    pub(super) async fn revoke(&mut self, scope: TopicFilter, id: JobId, release: Release) {
        let attempt = self.sometimes(|model| model.random.random_range(1..3));
        self.log_step(("revoke", &scope, &id, attempt, &release));
        let engine = self.fixture.store.revoke(&scope, &id, attempt, release.clone()).await;
        let model = self.model.revoke(&scope, &id, attempt, release).await;
        self.assert_equal(&engine, &model, "revoke");
    }
}
