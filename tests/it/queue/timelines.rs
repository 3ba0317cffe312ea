//! Timelines by topic: what they read of the store.

use linger::{
    job::State,
    queue::{Minute, Span, TimelineOf, TopicSort},
};

use super::*;

fn span(minutes: u32) -> Span {
    Span::new(Minute::containing(Timestamp::parse(START).expect("a moment")), minutes, 1).expect("is short")
}

#[tokio::test]
async fn timelines_and_lists_share_one_reading_of_all_topics() {
    // A reading of all topics takes a permit, too.
    let fixture = Fixture::with(Limits { max_looks: 1, ..Limits::default() });
    fixture.add("a", Duration::from_secs(90)).await;
    let readings = fixture.store.count_calls("topics");
    for minutes in [2, 60, 1_440] {
        let reading = fixture.queue.timeline(TimelineOf::ByTopic, span(minutes));
        let view = bounded("a timeline", reading).await.expect("reads");
        assert_eq!(view.topics.len(), 1, "{minutes} minutes");
    }
    fixture.queue.sorted_topics(ALL, TopicSort::Most(State::Delayed), 10).await.expect("reads");
    assert_eq!(readings(), 1);
    fixture.clock.advance(Duration::from_secs(2));
    fixture.queue.timeline(TimelineOf::ByTopic, span(60)).await.expect("reads");
    assert_eq!(readings(), 2);
    fixture.close().await;
}
