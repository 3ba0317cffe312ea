//! Every refusal.

use serde_json::json;

use super::{Engine, Site, on_each_engine, refusal};

on_each_engine! {
    every_refusal_has_its_text,
    what_only_this_server_refuses_says_why,
}

fn every_refusal_has_its_text(engine: Engine) {
    let site = Site::new(engine);
    for path in ["/push", "/pop", "/finish", "/delete", "/get"] {
        for body in ["", "{", "[]", "1", "{}x", r#"{"id":1}"#, r#"{"topic":{},"id":1.5}"#] {
            if path == "/pop" && body == r#"{"id":1}"# {
                continue;
            }
            assert_eq!(site.call(path, body), refusal("解析json失败"), "{path} {body}");
        }
    }
    for path in ["/finish", "/delete", "/get"] {
        for body in ["null", "{}", r#"{"id":""}"#, r#"{"id":null}"#, r#"{"id":" \n"}"#] {
            assert_eq!(site.call(path, body), refusal("job id不能为空"), "{path} {body}");
        }
    }
    for body in ["null", "{}", r#"{"topic":" "}"#] {
        assert_eq!(site.call("/pop", body), refusal("topic不能为空"), "{body}");
    }
    let (delay, ttr) = (refusal("delay 取值范围1 - (2^31 - 1)"), refusal("ttr 取值范围1 - 86400"));
    for (body, expected) in [
        ("{}", refusal("job id不能为空")),
        (r#"{"id":" ","topic":"t"}"#, refusal("job id不能为空")),
        (r#"{"id":"a"}"#, refusal("topic 不能为空")),
        (r#"{"id":"a","topic":"\t"}"#, refusal("topic 不能为空")),
        (r#"{"id":"a","topic":"t"}"#, delay.clone()),
        (r#"{"id":"a","topic":"t","delay":-1}"#, delay.clone()),
        (r#"{"id":"a","topic":"t","delay":2147483649}"#, delay),
        (r#"{"id":"a","topic":"t","delay":2147483648}"#, ttr.clone()),
        (r#"{"id":"a","topic":"t","delay":1,"ttr":0}"#, ttr.clone()),
        (r#"{"id":"a","topic":"t","delay":1,"ttr":86401}"#, ttr),
        (r#"{"id":"a","topic":"t","delay":1.0,"ttr":1}"#, refusal("解析json失败")),
        (r#"{"id":"a","topic":"t","delay":"1","ttr":1}"#, refusal("解析json失败")),
        (r#"{"id":"a","topic":"t","delay":1,"ttr":1,"body":{}}"#, refusal("解析json失败")),
    ] {
        assert_eq!(site.call("/push", body), expected, "{body}");
    }
    assert_eq!(site.server.job("a"), json!(null));
}

fn what_only_this_server_refuses_says_why(engine: Engine) {
    let site = Site::with(
        engine,
        &[("LINGER__QUEUE__MAX_BODY", "10B"), ("LINGER__COMPAT__OUQIANG__TOPICS", "t,u-*")],
    );
    let push = |topic: &str, id: &str, body: &str| {
        let job = json!({"topic": topic, "id": id, "delay": 9, "ttr": 1, "body": body});
        let answer: serde_json::Value =
            serde_json::from_str(&site.call("/push", job.to_string())).expect("is JSON");
        (answer["code"].as_u64(), answer["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(push("t", "a", "[1,2,3]").0, Some(0));
    for (topic, id, body, message) in [
        ("t", "a", "[1,2,3,4,5,6]", "the limit is 10"),
        ("v", "b", "1", "not for this topic"),
        ("u-1", "a", "1", "another job has this id"),
        (&"t".repeat(129), "b", "1", "topic must be at most 128 characters"),
        ("t", &"x".repeat(256), "1", "id must be at most 255 characters"),
    ] {
        let (code, found) = push(topic, id, body);
        assert!(code == Some(1) && found.contains(message), "{message} is not in {found}");
    }
    // A job of another topic is as one that does not exist.
    site.native("POST", "/jobs", r#"{"topic":"v","id":"c"}"#, 201);
    for path in ["/finish", "/delete", "/get"] {
        assert_eq!(site.call(path, r#"{"id":"c"}"#), super::DONE, "{path}");
    }
    assert_eq!(site.server.job("c")["state"], "ready");
    assert!(site.call("/pop", r#"{"topic":"t,v"}"#).starts_with(r#"{"code":1,"#));
    // A client that is limited to topics finishes its own.
    assert_eq!(site.call("/finish", r#"{"id":"a"}"#), super::DONE);
    assert_eq!(site.server.job("a"), json!(null));
}
