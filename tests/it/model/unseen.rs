//! Steps that give a reservation back which no client has seen.

use linger::store::Steps;

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
}
