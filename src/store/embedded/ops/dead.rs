//! Dead letters of a topic in bulk, oldest first.

use super::{
    super::{
        db::{Sql, Table},
        ids::Located,
        key::Key,
        record::{Broken, Head},
        work::{Found, Work},
    },
    change::requeue_found,
};
use crate::job::{Delay, Topic};

/// Requeues up to `limit` dead letters without delay; how many.
pub(in super::super) fn requeue_dead(work: &mut Work<'_>, topic: &Topic, limit: usize) -> Sql<usize> {
    let mut requeued = 0;
    for key in work.db.oldest_dead(topic, limit)? {
        let record = work.db.read(Table::Dead, key)?;
        match record.and_then(|record| Ok((located(work, key, &record.head)?, record))) {
            Ok((at, content)) => {
                let hash = work.state.ids().hash(content.head.id.as_str().as_bytes());
                requeue_found(work, Found { hash, at, content }, Delay::default())?;
                requeued += 1;
            }
            Err(why) => work.set_aside(key, true, why)?,
        }
    }
    Ok(requeued)
}

/// Deletes up to `limit` dead letters; how many.
pub(in super::super) fn delete_dead(work: &mut Work<'_>, topic: &Topic, limit: usize) -> Sql<usize> {
    let mut deleted = 0;
    for key in work.db.oldest_dead(topic, limit)? {
        deleted += usize::from(forget(work, key)?.is_some());
    }
    Ok(deleted)
}

/// Deletes one dead letter and shows what it was; `None` when it was broken and set aside.
pub(super) fn forget(work: &mut Work<'_>, key: Key) -> Sql<Option<Head>> {
    let head = work.db.read_head(Table::Dead, key)?;
    match head.and_then(|head| Ok((located(work, key, &head)?, head))) {
        Ok((at, head)) => {
            let hash = work.state.ids().hash(head.id.as_str().as_bytes());
            work.take_out(hash, at)?;
            Ok(Some(head))
        }
        Err(why) => {
            work.set_aside(key, true, why)?;
            Ok(None)
        }
    }
}

fn located(work: &Work<'_>, key: Key, head: &Head) -> Result<Located, Broken> {
    let topic = work.state.topics().find(head.topic.as_str()).ok_or(Broken::Value)?;
    Ok(Located { key, topic, dead: true })
}
