//! Operations as JSON, there and back.

use super::*;
use crate::job::{
    Callback, CallbackUrl, DedupWindow, Expiry, Job, JobId, JobSpec, JobState, NoteText, ProgressNote,
    Reason, RetrySchedule, Ttr,
};

fn from_ms(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

fn delay(ms: u64) -> Delay {
    Delay::new(Duration::from_millis(ms)).expect("is short")
}

fn listed(callback: &str, reason: &str) -> ListedJob {
    let url = CallbackUrl::parse(callback).expect("a URL");
    let job = Job {
        id: JobId::generate(),
        topic: Topic::parse("t").expect("valid"),
        state: JobState::Dead(from_ms(6)),
        created_at: from_ms(1),
        due_at: from_ms(2),
        expires_at: Some(from_ms(5)),
        spec: JobSpec {
            ttr: Ttr::DEFAULT,
            max_attempts: 4,
            retry: RetrySchedule::new(vec![Duration::from_millis(1_500)]).expect("valid"),
            require_receipt: true,
            late_finish: false,
            expiry: Some(Expiry { expire: Expire::After(delay(3)), on_expiry: OnExpiry::Delete }),
            revision: Some(u64::from(u32::MAX) + 7),
            dedup: DedupWindow::new(DedupWindow::MIN).ok(),
            callback: Some(Arc::new(Callback::to(url))),
            trace: None,
        },
        attempts: 3,
        reason: Reason::new(reason),
        note: Some(ProgressNote { at: from_ms(4), text: NoteText::new("3 of 7").expect("valid") }),
        history: History::default(),
        body: Body::from_stored(bytes::Bytes::new()),
    };
    ListedJob { job, body_bytes: 7 }
}

fn view(action: BulkAction, examples: Vec<ListedJob>) -> OperationView {
    let filter = JobFilter {
        state: State::Dead,
        topic: Topic::parse("t").ok(),
        from: Some(from_ms(8)),
        to: Some(from_ms(9)),
        id_prefix: Some("é\n".into()),
        reason_prefix: Some("\"".into()),
        reserved_by: Actor::parse("w 1").ok(),
    };
    let request = BulkRequest {
        id: None,
        action,
        filter,
        expiry: ExpiryChange::Set(Expire::At(from_ms(17)), Some(OnExpiry::Delete)),
        reason: Reason::new("the host is gone"),
        spread: Some(Duration::from_secs(10)),
        limit: Some(11),
        by: "ops".into(),
    };
    let progress = Progress {
        state: OperationState::Failed,
        matched: 12,
        changed: 13,
        skipped: 14,
        examples: examples.into(),
        ended_at: Some(from_ms(15)),
        error: Some("why".to_owned()),
    };
    OperationView { id: OperationId::generate(), request, started_at: from_ms(16), progress }
}

fn notice(view: &OperationView, content: &NoticeContent, age: Duration) -> Notice {
    let content = bytes::Bytes::copy_from_slice(content.as_bytes());
    Notice { id: view.id.to_string(), content, age }
}

#[test]
fn an_operation_is_read_as_it_was_written() {
    for action in [
        BulkAction::Delete,
        BulkAction::Reschedule(Due::At(from_ms(17))),
        BulkAction::Reschedule(Due::After(delay(18))),
        BulkAction::Shift(-19),
        BulkAction::Requeue(Due::After(delay(20))),
        BulkAction::Requeue(Due::At(from_ms(21))),
        BulkAction::Revoke(Due::After(delay(22))),
        BulkAction::Revoke(Due::At(from_ms(23))),
    ] {
        let written = view(action, vec![listed("http://a/?b=c", "why")]);
        let notice = notice(&written, &write("me", &written), Duration::from_secs(60));
        let read = KnownOperation::read(&notice).expect("is read");
        assert_eq!((read.owner.as_str(), &read.view), ("me", &written));
    }
}

#[test]
fn a_running_operation_whose_notice_is_old_is_abandoned() {
    let mut running = view(BulkAction::Delete, Vec::new());
    running.progress.state = OperationState::Running;
    let state = |age_ms| {
        let notice = notice(&running, &write("me", &running), Duration::from_millis(age_ms));
        KnownOperation::read(&notice).map(|known| known.view.progress.state)
    };
    assert_eq!(state(9_999), Some(OperationState::Running));
    assert_eq!(state(10_000), Some(OperationState::Abandoned));
}

#[test]
fn fields_of_a_later_version_are_ignored_and_its_values_make_an_operation_unknown() {
    let written = view(BulkAction::Delete, Vec::new());
    let text = String::from_utf8(write("me", &written).as_bytes().to_vec()).expect("is text");
    let read = |text: &str| {
        let content = NoticeContent::new(text.to_owned()).expect("is short");
        KnownOperation::read(&notice(&written, &content, Duration::ZERO)).map(|known| known.view)
    };
    let later = text.replace("\"limit\"", "\"colour\":{\"of\":[\"what\"]},\"limit\"");
    assert_ne!(later, text);
    assert_eq!(read(&later), Some(written.clone()));
    assert_eq!(read(&text.replace("\"failed\"", "\"resting\"")), None);
    assert_eq!(read(&text.replace("\"delete\"", "\"copy\"")), None);
    assert_eq!(read("no JSON"), None);
}

#[test]
fn examples_that_do_not_fit_are_left_out() {
    let reason = "\u{1}".repeat(Reason::MAX_LEN);
    let long = format!("http://a/{}", "x".repeat(2_000));
    let examples = vec![listed(&long, &reason); 10];
    let written = view(BulkAction::Delete, examples);
    let content = write("me", &written);
    let read = KnownOperation::read(&notice(&written, &content, Duration::ZERO)).expect("is read");
    assert_eq!(read.view.progress.examples[..], written.progress.examples[..5]);
}
