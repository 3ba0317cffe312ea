//! The steps of a move on real engines.

use linger::{
    store::{ClockOffsets, MoveRole, ScheduleUpdates, TopicRecord, TopicUpdates},
    transfer::{Relocation, TransferError},
};

use super::{Moving, PAIRS, abandon, complete, content_of, copy, nothing_named};
use crate::harness::{
    records::{all_remembered, record, remembered, schedule, topic_record},
    stores::{Engine, StoreFixture},
};

#[tokio::test]
async fn every_engine_moves_to_every_other() {
    for (from, to) in PAIRS {
        let (source, (topics, mut jobs, mut schedules)) = Moving::filled(from, 700).await;
        let target = Moving::new(to).await;
        let first = copy(&source, &*target.movable).await.expect("copies");
        assert_eq!((first.jobs, first.topics, first.copied, first.deleted, first.set), (700, 2, 700, 0, 2));
        assert_eq!((first.schedules, first.schedules_set), (4, 4));
        assert_eq!((first.remembered, first.remembered_set), (3, 3));
        assert!(copy(&source, &*target.movable).await.expect("copies").changed_nothing());
        // What the next pass finds: of jobs and schedules one that is gone, one that changed and a new one, and other settings.
        source.set_fence(true).await;
        let gone = jobs.remove(14);
        jobs[23].job.attempts += 1;
        // The target does not remember their ids as those of deleted jobs.
        assert!(
            [&gone, &jobs[23]].iter().all(|record| record.job.spec.dedup.is_some()),
            "they have a window"
        );
        let fixture = StoreFixture::new(Engine::Naive).await;
        jobs.push(record(&fixture, "new"));
        let changed = [jobs[23].clone(), jobs[699].clone()];
        source.movable.delete(vec![gone.job.id, changed[0].job.id.clone()]).await.expect("deletes");
        source.movable.put(changed.to_vec()).await.expect("puts");
        let paused = TopicRecord { topic: topics[1].topic.clone(), ..topic_record("other") };
        source.movable.replace_topic(paused.clone()).await.expect("replaces");
        let gone = schedules.remove(1);
        schedules[0].content.text = "{\"changed\":true}".into();
        schedules.push(schedule("z", None, "{}"));
        let stored = schedules.iter().map(|stored| (stored.name.clone(), Some(stored.content.clone())));
        let replaced = stored.chain([(gone.name, None)]).collect();
        source.movable.replace_schedules(replaced).await.expect("replaces");
        let mut ids = all_remembered(&*source.store).await;
        assert_eq!(ids, remembered(ids[0].ended_at));
        ids[1].ended_at = ids[1].ended_at.shifted(1);
        source.movable.put_remembered(vec![ids[1].clone()]).await.expect("puts");
        source.set_fence(false).await;
        let last = complete(&source, &*source.movable, &*target.movable).await.expect("completes");
        let last = last.expect("was not complete");
        let done = (last.jobs, last.topics, last.copied, last.deleted, last.set);
        assert_eq!(done, (700, 2, 2, 1, 1), "{from:?} to {to:?}");
        assert_eq!((last.schedules, last.schedules_set), (4, 3), "{from:?} to {to:?}");
        assert_eq!((last.remembered, last.remembered_set), (3, 1), "{from:?} to {to:?}");
        assert_eq!(all_remembered(&*target.store).await, ids, "{from:?} to {to:?}");
        assert_eq!(source.role().await, Some(MoveRole::Moved));
        assert!(target.may_be_served().await);
        jobs.sort_by(|one, other| one.job.id.cmp(&other.job.id));
        let expected = (vec![topics[0].clone(), paused], jobs, schedules);
        assert!(content_of(&target).await == expected, "{from:?} to {to:?}");
        assert_eq!(target.store.verify().await.expect("reads").faults, [""; 0]);
        assert_eq!(complete(&source, &*source.movable, &*target.movable).await.expect("is complete"), None);
        assert!(matches!(copy(&source, &*target.movable).await, Err(TransferError::Refused(_))));
        assert!(matches!(abandon(&source).await, Err(TransferError::Refused(_))));
    }
}

#[tokio::test]
async fn only_an_empty_store_becomes_a_target_and_only_of_one_source() {
    for (from, to) in PAIRS {
        let (source, _) = Moving::filled(from, 35).await;
        let (full, content) = Moving::filled(to, 35).await;
        let refused = copy(&source, &*full.movable).await.expect_err("is not empty").to_string();
        assert_eq!(refused, "target is not empty; a move needs a new store");
        assert_eq!(full.role().await, None);
        assert!(content_of(&full).await == content);
        let scheduled = Moving::new(to).await;
        scheduled.set_fence(true).await;
        scheduled.movable.put_schedules(vec![schedule("s", None, "{}")]).await.expect("puts");
        scheduled.set_fence(false).await;
        let refused = copy(&source, &*scheduled.movable).await.expect_err("is not empty").to_string();
        assert_eq!(refused, "target is not empty; a move needs a new store");
        let target = Moving::new(to).await;
        copy(&source, &*target.movable).await.expect("copies");
        let refused = copy(&full, &*target.movable).await.expect_err("belongs to another").to_string();
        assert_eq!(refused, "target: it takes part in a move from source");
        let refused = copy(&source, &*source.movable).await.expect_err("is the same").to_string();
        assert_eq!(refused, "target is the source itself, or a copy of it");
        // A move that is complete, and one that would overwrite its source.
        complete(&source, &*source.movable, &*target.movable).await.expect("completes");
        let refused = copy(&full, &*source.movable).await.expect_err("was moved away").to_string();
        assert!(refused.contains("its jobs were moved away"), "{refused}");
        let third = Moving::new(to).await;
        let refused = complete(&source, &*source.movable, &*third.movable).await.expect_err("is gone");
        assert!(refused.to_string().contains("its jobs were moved to target"), "{refused}");
        assert_eq!(third.role().await, None, "it was not touched");
    }
}

#[tokio::test]
async fn stores_whose_clocks_differ_are_refused() {
    for (from, to) in PAIRS {
        let (source, target) = (Moving::filled(from, 35).await.0, Moving::new(to).await);
        let relocation =
            Relocation::new(source.place(), &*target.movable, "target".to_owned()).expect("differ");
        for ahead in [-3_000_000, 3_000_000] {
            let other = ClockOffsets { slowest: ahead, fastest: ahead };
            let refused = relocation.copy(None, other, || source.movable.records(), &mut nothing_named).await;
            let refused = refused.expect_err("is refused").to_string();
            assert!(
                refused.contains("the clocks of the servers of source and target differ by "),
                "{refused}"
            );
        }
        assert_eq!(target.role().await, None, "it was not touched");
    }
}
