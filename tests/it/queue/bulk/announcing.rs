//! The announcements of bulk operations: one id starts one operation, also at two processes at the same moment; without an
//! answer it begins when the request is repeated.

use linger::{
    clock::Clock,
    queue::{Error, OperationState, OperationView},
    store::{NoticeKind, Store},
};

use super::{Processes, operation_id, shift};
use crate::harness::{
    jobs::{ALL, id, seconds},
    wait::until,
};

#[tokio::test]
async fn one_id_starts_one_operation_over_all_processes() {
    let processes = Processes::with_jobs(150).await;
    // Neither has seen the operation of the other when it starts its own.
    let hung = [&processes.one, &processes.two].map(|process| process.store.hang_notices());
    let both_read = async {
        until(|| hung.iter().all(|hung| hung.hung_calls() == 1)).await;
        hung.iter().for_each(|hung| hung.release());
    };
    let starts = (processes.one.start(shift("a")), processes.two.start(shift("a")));
    let (one, two, ()) = tokio::join!(starts.0, starts.1, both_read);
    assert_eq!((&one.id, &one.request.by), (&two.id, &two.request.by));
    for process in [&processes.one, &processes.two] {
        process.wait_for(&one.id, |view| view.progress.state == OperationState::Done).await;
    }
    let again = processes.two.start(shift("a")).await;
    assert_eq!(again.progress.state, OperationState::Done);
    let due = processes.clock.now().after(seconds(3_660));
    for n in 0..150 {
        let job = processes.store.get(ALL, &id(&format!("job-{n}"))).await.expect("reads").expect("exists");
        assert_eq!(job.due_at, due, "job-{n}");
    }
}

#[tokio::test]
async fn two_requests_with_one_id_at_one_process_start_one_operation() {
    let processes = Processes::with_jobs(150).await;
    // Neither request has announced its operation when the other one is looked up.
    let hung = processes.one.store.hang_notices();
    let looked_up = async {
        until(|| hung.hung_calls() > 0).await;
        hung.release();
    };
    let starts = (processes.one.start(shift("a")), processes.one.start(shift("a")));
    let (one, two, ()) = tokio::join!(starts.0, starts.1, looked_up);
    assert_eq!(one.id, two.id);
    processes.one.wait_for(&one.id, |view| view.progress.state == OperationState::Done).await;
    assert_eq!(processes.one.queue.list_operations().await.expect("lists").len(), 1);
    let due = processes.clock.now().after(seconds(3_660));
    for n in 0..150 {
        let job = processes.store.get(ALL, &id(&format!("job-{n}"))).await.expect("reads").expect("exists");
        assert_eq!(job.due_at, due, "job-{n}");
    }
}

/// The notice was written, and the answer to that was lost. A repeat is another request, which comes to either process.
#[tokio::test]
async fn an_operation_that_could_not_be_announced_begins_when_the_request_is_repeated() {
    for repeats_elsewhere in [false, true] {
        let processes = Processes::with_jobs(150).await;
        processes.one.store.lose_new_notices(true);
        let refused = processes.one.refusal(shift("a")).await;
        assert!(matches!(refused, Some(Error::Unavailable(_))), "{refused:?}");
        assert!(processes.one.queue.operation(&operation_id("a")).await.is_ok(), "its notice is there");
        processes.one.store.lose_new_notices(false);
        let process = if repeats_elsewhere { &processes.two } else { &processes.one };
        if repeats_elsewhere {
            processes.pass(2).await;
        }
        process.start(shift("a")).await;
        let done = |view: &OperationView| view.progress.state == OperationState::Done;
        assert_eq!(process.wait_for(&operation_id("a"), done).await.progress.changed, 150);
        processes.pass(2).await;
        for process in [&processes.one, &processes.two] {
            assert_eq!(process.state(&operation_id("a")).await, OperationState::Done);
        }
    }
}

/// The process tries to delete the notice as soon as the store answers, and another one may have that id by then.
#[tokio::test]
async fn a_notice_is_withdrawn_once_the_store_answers_and_only_if_it_is_that_of_the_process() {
    let processes = Processes::with_jobs(150).await;
    processes.one.store.lose_new_notices(true);
    processes.one.refusal(shift("a")).await;
    processes.one.store.fail_notices(true);
    processes.pass(5).await;
    assert_eq!(processes.two.state(&operation_id("a")).await, OperationState::Running);
    processes.store.notices().delete(NoticeKind::Operation, "a").await.expect("deletes");
    processes.two.start(shift("a")).await;
    processes.one.store.fail_notices(false);
    processes.pass(2).await;
    let done = |view: &OperationView| view.progress.state == OperationState::Done;
    processes.two.wait_for(&operation_id("a"), done).await;
    assert_eq!(processes.one.state(&operation_id("a")).await, OperationState::Done);
}
