use super::*;
use crate::json::Index;

const MESSAGE: Message<'static> = Message {
    topic: "ud/unit/7",
    payload:
        br#"{"p":{"mcc":257,"name":"a\u00e9","bad":"a/b","off":null},"l":[{"x":1.5}],"a b":true}"#,
    qos: 1,
    retain: false,
    user_properties: &[("site", "minsk"), ("bad", "a+b")],
};

fn render(template: &str) -> Result<String, Fault> {
    let template = Template::parse(template).unwrap();
    let mut index = Index::default();
    let text = index.read(MESSAGE.payload).unwrap();
    let mut out = String::new();
    template.render(&MESSAGE, Some(&index.json(text)), &mut out)?;
    Ok(out)
}

#[test]
fn places_take_their_values() {
    for (template, expected) in [
        ("plain", "plain"),
        ("cells/{payload.p.mcc}/{topic[1]}", "cells/257/unit"),
        ("x/{payload.p.name}", "x/aé"),
        ("{topic}/again", "ud/unit/7/again"),
        ("{properties.site}/{properties[\"site\"]}", "minsk/minsk"),
        ("{payload.l[0].x}", "1.5"),
        ("{payload[\"a b\"]}", "true"),
        ("a{{b}}c", "a{b}c"),
        ("u-{topic[2]}-{topic[0]}", "u-7-ud"),
    ] {
        assert_eq!(render(template).as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn values_that_cannot_stand_in_a_topic_are_faults() {
    for (template, expected) in [
        ("x/{payload.q}", Fault::NoField),
        ("x/{payload.q.r}", Fault::NoField),
        ("x/{payload.p.mcc.r}", Fault::WrongType),
        ("x/{payload.p}", Fault::WrongType),
        ("x/{payload.p.off}", Fault::WrongType),
        ("x/{payload.p.bad}", Fault::BadTopic),
        ("x/{properties.bad}", Fault::BadTopic),
        ("x/{properties.none}", Fault::NoField),
        ("x/{topic[3]}", Fault::NoField),
        ("x/{payload.l[1]}", Fault::NoField),
    ] {
        assert_eq!(render(template), Err(expected), "{template}");
    }
}

#[test]
fn bad_templates_are_refused_with_their_place() {
    for (template, at) in [
        ("", 0),
        ("$SYS/x", 0),
        ("a/+/b", 2),
        ("a/#", 2),
        ("a}b", 1),
        ("a/{payload.p", 12),
        ("a/{payload.}", 11),
        ("a/{what}", 3),
        ("a/{}", 3),
        ("a/{topic[x]}", 9),
        ("a/{topic[1}", 10),
        ("a/{payload[\"x]}", 12),
        ("a/{properties}", 13),
        ("a/{properties.a.b}", 17),
        ("a\0", 1),
    ] {
        let error = Template::parse(template).unwrap_err();
        assert_eq!(error.at, at, "{template:?}: {error}");
    }
    assert_eq!(Template::parse(&"a".repeat(1025)).unwrap_err().at, TEMPLATE_BYTES_MAX);
}

#[test]
fn levels_hold_what_can_come() {
    let is = |text: &str| Level::Is(text.to_owned());
    for (template, expected) in [
        ("a/b", vec![is("a"), is("b")]),
        ("a/{payload.x}", vec![is("a"), Level::One]),
        ("a/x{payload.x}y/c", vec![is("a"), Level::One, is("c")]),
        ("{topic}/c", vec![Level::Many, is("c")]),
        ("a-{topic}-{payload.x}", vec![Level::Many]),
        ("{topic[0]}/{topic[1]}", vec![Level::One, Level::One]),
        ("/a/", vec![is(""), is("a"), is("")]),
    ] {
        assert_eq!(Template::parse(template).unwrap().levels(), expected, "{template}");
    }
}
