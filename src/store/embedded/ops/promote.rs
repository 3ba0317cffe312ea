//! What the clock does: delays end, reservations end, dead letters are forgotten.

use super::{WRITTEN_BYTES, scan::forget, write_txn::Work};
use crate::{
    job::{Reason, Timestamp},
    store::{
        Move, MoveKind, Promoted,
        embedded::{
            memory::{job_index::Located, state::Place},
            rows::{
                key::Key,
                records::{Sql, Table},
            },
        },
    },
};

/// See [`crate::store::Store::promote`]. A tick that only makes delayed jobs ready writes nothing: after a
/// restart they are ready because their due time has passed.
pub(in crate::store::embedded) fn promote(work: &mut Work<'_>, limit: usize) -> Sql<Promoted> {
    let before = work.news.set_aside;
    let mut moves = Vec::new();
    let mut budget = limit.max(1);
    end_reservations(work, &mut budget, &mut moves)?;
    end_delays(work, &mut budget, &mut moves)?;
    forget_dead(work, &mut budget, &mut moves)?;
    let next = work.state.next_deadline(work.options.dead_retention);
    work.news.sleeps_until = Some(next.unwrap_or(Timestamp::MAX));
    let set_aside = usize::try_from(work.news.set_aside - before).unwrap_or(usize::MAX);
    let more = next.is_some_and(|next| next <= work.now.down);
    Ok(Promoted { moves, more, next_in: next.map(|next| work.time_until(next)), set_aside })
}

fn end_reservations(work: &mut Work<'_>, budget: &mut usize, moves: &mut Vec<Move>) -> Sql<()> {
    let before = work.db.written();
    while *budget > 0
        && work.db.written() - before <= WRITTEN_BYTES
        && let Some((deadline, at)) = work.state.first_deadline()
        && deadline <= work.now.down
    {
        *budget -= 1;
        let topic = work.state.topics().get(at.topic).name.clone();
        if let Some(kind) = end_reservation(work, at)? {
            moves.push(Move { topic, kind, late: work.now.down.since(deadline) });
        }
    }
    Ok(())
}

fn end_reservation(work: &mut Work<'_>, at: Located) -> Sql<Option<MoveKind>> {
    let mut record = match work.db.read(Table::Live, at.key)? {
        Ok(record) => record,
        Err(why) => {
            work.set_aside(at.key, false, why)?;
            return Ok(None);
        }
    };
    let hash = work.state.ids().hash(record.head.id.as_str().as_bytes());
    let attempts = work.state.lease(at.key).map_or(record.head.attempts, |lease| lease.attempts);
    work.take_out(hash, at)?;
    record.head.attempts = attempts;
    if record.head.is_used_up(attempts) {
        record.head.reason = Reason::new(Reason::TTR_EXPIRED);
        work.put_dead(hash, at.topic, &mut record)?;
        return Ok(Some(MoveKind::Died));
    }
    record.head.due_at = work.now.after(record.head.retry.after_expiry(attempts));
    work.put_waiting(hash, at.topic, &record)?;
    Ok(Some(MoveKind::Expired))
}

fn end_delays(work: &mut Work<'_>, budget: &mut usize, moves: &mut Vec<Move>) -> Sql<()> {
    let now = work.now.down;
    while *budget > 0 {
        match work.state.window().head().filter(|(key, _)| key.slot() <= now) {
            Some((key, topic)) => {
                *budget -= 1;
                work.shift(Located { key, topic, dead: false }, Place::Ready { since: now });
                let topic = work.state.topics().get(topic).name.clone();
                moves.push(Move { topic, kind: MoveKind::Ready, late: now.since(key.slot()) });
            }
            // Only after a leap of the clock or a long silence: else the window is kept ahead.
            None if work.state.window().frontier().slot() <= now => {
                work.look_ahead(now.after(work.options.look_ahead))?;
            }
            None => break,
        }
    }
    Ok(())
}

fn forget_dead(work: &mut Work<'_>, budget: &mut usize, moves: &mut Vec<Move>) -> Sql<()> {
    let Some(kept) = work.options.dead_retention else { return Ok(()) };
    let is_over = |since: Timestamp| since.after(kept) <= work.now.down;
    if *budget == 0 || !work.state.dead_since().is_some_and(is_over) {
        return Ok(());
    }
    let kept_ms = i64::try_from(kept.as_millis()).unwrap_or(i64::MAX);
    let last = Timestamp::from_millis(work.now.down.as_millis().saturating_sub(kept_ms));
    let mut keys = Vec::new();
    work.db.scan(Table::Dead, (Key::START, Key::first_after(last)), *budget, |key, _| keys.push(key))?;
    for key in keys {
        *budget -= 1;
        if let Some(head) = forget(work, key)? {
            let dead_at = head.dead_at.unwrap_or(key.slot());
            let late = work.now.down.since(dead_at.after(kept));
            moves.push(Move { topic: head.topic, kind: MoveKind::Forgotten, late });
        }
    }
    let first = work.db.first_dead()?.map(Key::slot);
    work.state.set_dead_since(first);
    Ok(())
}
