//! Dead letters of a topic in bulk, oldest first.

use super::{
    WRITTEN_BYTES,
    change::requeue_found,
    write_txn::{Found, Work},
};
use crate::{
    job::{Delay, Topic},
    store::{
        Result,
        embedded::{
            disk::disk_space::Need,
            memory::job_index::Located,
            rows::{
                codec::{Broken, Head},
                key::Key,
                records::{Sql, Table},
            },
        },
    },
};

/// What a step of a bulk operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::embedded) struct Slice {
    pub done: usize,
    /// There may be more to do.
    pub more: bool,
}

/// Requeues up to `limit` dead letters without delay. That needs room, as [`requeue`](super::requeue) does.
pub(in crate::store::embedded) fn requeue_dead(
    work: &mut Work<'_>,
    topic: &Topic,
    limit: usize,
) -> Sql<Result<Slice>> {
    if let Some(full) = work.no_room_for(Need::Growth) {
        return Ok(Err(full));
    }
    let keys = work.db.oldest_dead(topic, limit)?;
    let (mut requeued, mut more, before) = (0, keys.len() == limit, work.db.written());
    for key in keys {
        if work.db.written() - before > WRITTEN_BYTES {
            more = true;
            break;
        }
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
    Ok(Ok(Slice { done: requeued, more }))
}

/// Deletes up to `limit` dead letters.
pub(in crate::store::embedded) fn delete_dead(
    work: &mut Work<'_>,
    topic: &Topic,
    limit: usize,
) -> Sql<Result<Slice>> {
    let keys = work.db.oldest_dead(topic, limit)?;
    let (mut deleted, more) = (0, keys.len() == limit);
    for key in keys {
        deleted += usize::from(forget(work, key)?.is_some());
    }
    Ok(Ok(Slice { done: deleted, more }))
}

/// Deletes one dead letter and shows what it was; `None` when it was broken and set aside.
pub(crate) fn forget(work: &mut Work<'_>, key: Key) -> Sql<Option<Head>> {
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

fn located(work: &Work<'_>, key: Key, head: &Head) -> std::result::Result<Located, Broken> {
    let topic = work.state.topics().find(head.topic.as_str()).ok_or(Broken::Value)?;
    Ok(Located { key, topic, dead: true })
}
