//! The users of this host, by their numbers.

use std::collections::HashMap;
use std::path::Path;

/// Where their names are.
const FILE: &str = "/etc/passwd";

/// What the file says. It is read at the start and at a reload: no shard waits for a disk.
#[derive(Debug)]
pub(super) struct Users(HashMap<u32, Box<str>>);

impl Users {
    /// Reads the file. Without it, users have numbers only.
    pub(super) fn read() -> Self {
        Self(parse(&std::fs::read_to_string(Path::new(FILE)).unwrap_or_default()))
    }

    /// The user's name, or its number if it has none.
    pub(super) fn name(&self, user: u32) -> Box<str> {
        self.0.get(&user).cloned().unwrap_or_else(|| user.to_string().into())
    }
}

/// The first name of each number, as the system has it.
fn parse(text: &str) -> HashMap<u32, Box<str>> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(user))) = (fields.next(), fields.nth(1).map(str::parse))
            && !name.is_empty()
        {
            names.entry(user).or_insert_with(|| name.into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_first_name_of_its_number_and_else_that_number() {
        let text =
            "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n+::\n:x:7:\nann:x:1000:1000::/:\n";
        let users = Users(parse(text));
        for (user, name) in [(0, "root"), (1000, "ann"), (7, "7"), (65532, "65532")] {
            assert_eq!(&*users.name(user), name);
        }
    }
}
