//! Topic filters of rules, and what topics a template can make.

/// The longest topic or filter that MQTT can carry, in bytes.
pub(crate) const TOPIC_BYTES_MAX: usize = 65_535;

/// A topic filter, apart from the shared group that subscribes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    levels: Vec<String>,
}

impl Filter {
    /// Of what a client would subscribe with: `ud/#`, or `$share/group/ud/#`.
    ///
    /// # Errors
    /// Says what MQTT does not allow.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > TOPIC_BYTES_MAX {
            return Err("it is longer than 65,535 bytes");
        }
        let filter = match text.strip_prefix("$share/") {
            None => text,
            Some(rest) => {
                let (group, filter) = rest.split_once('/').ok_or("the group has no filter")?;
                if group.is_empty() || group.contains(['+', '#']) {
                    return Err("the name of the group is empty or has a wildcard");
                }
                filter
            }
        };
        if filter.is_empty() {
            return Err("it is empty");
        }
        if filter.contains('\0') {
            return Err("it has a null character");
        }
        // Rules see topics, and no topic is one of these.
        if filter.starts_with("$filter/") {
            return Err("a rule has its condition in `when`, not in front of its topic filter");
        }
        let levels: Vec<String> = filter.split('/').map(str::to_owned).collect();
        for (at, level) in levels.iter().enumerate() {
            if level.len() > 1 && level.contains(['+', '#']) {
                return Err("a wildcard must stand alone in its level");
            }
            if level == "#" && at + 1 < levels.len() {
                return Err("# must be the last level");
            }
        }
        Ok(Self { levels })
    }

    /// Whether a topic is one of these [MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT-4.7.2-1].
    pub(crate) fn matches(&self, topic: &str) -> bool {
        let mut wanted = self.levels.iter();
        let wild = self.levels.first().is_some_and(|first| first == "+" || first == "#");
        if wild && topic.starts_with('$') {
            return false;
        }
        for level in topic.split('/') {
            match wanted.next().map(String::as_str) {
                Some("#") => return true,
                Some("+") => {}
                Some(name) if name == level => {}
                _ => return false,
            }
        }
        matches!(wanted.next().map(String::as_str), None | Some("#"))
    }
}

/// What a level of a made topic can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Level {
    /// Always this.
    Is(String),
    /// Any one level.
    One,
    /// Any one or more levels.
    Many,
}

/// Whether some topic that the levels allow is one that the filter takes.
///
/// Too many rather than too few: a level made of a field can be anything. No template makes a topic
/// with `$` in front, so a filter that has it takes none.
pub(crate) fn can_meet(made: &[Level], filter: &Filter) -> bool {
    let wanted = &filter.levels;
    if wanted.first().is_some_and(|first| first.starts_with('$')) {
        return false;
    }
    // meets[j]: whether what is left of `made` can be what is left of the filter from level j.
    let mut meets: Vec<bool> = (0..=wanted.len())
        .map(|j| matches!(wanted.get(j).map(String::as_str), None | Some("#")))
        .collect();
    for level in made.iter().rev() {
        let mut before = vec![false; wanted.len() + 1];
        for j in (0..wanted.len()).rev() {
            let name = wanted[j].as_str();
            before[j] = match level {
                _ if name == "#" => true,
                Level::Is(level) => (name == "+" || name == level) && meets[j + 1],
                Level::One => meets[j + 1],
                Level::Many => meets[j + 1] || before[j + 1],
            };
        }
        meets = before;
    }
    meets[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::parse(text).unwrap()
    }

    #[test]
    fn filters_match_as_mqtt_says() {
        for (text, topic, expected) in [
            ("a/b", "a/b", true),
            ("a/b", "a/b/c", false),
            ("a/+", "a/b", true),
            ("a/+", "a", false),
            ("a/#", "a", true),
            ("a/#", "a/b/c", true),
            ("#", "a", true),
            ("#", "$SYS/x", false),
            ("+/x", "$SYS/x", false),
            ("$SYS/#", "$SYS/x", true),
            ("a//b", "a//b", true),
            ("a/+/b", "a//b", true),
            ("$share/g/a/#", "a/b", true),
            ("$share/g/#", "$SYS/x", false),
        ] {
            assert_eq!(filter(text).matches(topic), expected, "{text} {topic}");
        }
    }

    #[test]
    fn filters_that_mqtt_does_not_allow_are_refused() {
        for text in ["", "a/#/b", "a#", "a+/b", "$share/g", "$share//a", "$share/+/a", "a\0"] {
            assert!(Filter::parse(text).is_err(), "{text:?}");
        }
        // Nor one that is a subscription with a condition.
        for text in ["$filter/x/a", "$filter/x", "$filter/", "$share/g/$filter/x/a"] {
            assert!(Filter::parse(text).is_err_and(|error| error.contains("when")), "{text:?}");
        }
        assert!(filter("$filter").matches("$filter"));
    }

    #[test]
    fn made_topics_meet_filters() {
        let is = |name: &str| Level::Is(name.to_owned());
        for (made, text, expected) in [
            (vec![is("a"), is("b")], "a/b", true),
            (vec![is("a"), is("b")], "a/c", false),
            (vec![is("a"), is("b")], "a/#", true),
            (vec![is("a")], "a/#", true),
            (vec![is("a")], "a/+", false),
            (vec![is("a"), Level::One], "a/b", true),
            (vec![is("a"), Level::One], "a/b/c", false),
            (vec![is("a"), Level::Many], "a/b/c", true),
            (vec![Level::Many], "x", true),
            (vec![Level::Many], "x/y/z", true),
            (vec![Level::Many, is("end")], "x/y/end", true),
            (vec![Level::Many, is("end")], "end", false),
            (vec![Level::Many, is("end")], "+/end", true),
            (vec![is("out"), Level::Many], "ud/#", false),
            (vec![Level::One], "$SYS", false),
            (vec![Level::Many], "#", true),
        ] {
            assert_eq!(can_meet(&made, &filter(text)), expected, "{made:?} {text}");
        }
    }
}
