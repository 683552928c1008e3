//! The variable byte integer (section 1.5.5), for the tables' own use.

/// Appends `value`; nothing where four bytes cannot say it.
pub(crate) fn put(mut value: usize, out: &mut Vec<u8>) -> Option<()> {
    if value >= 1 << 28 {
        return None;
    }
    loop {
        let low = (value & 0x7F) as u8;
        value >>= 7;
        out.push(if value > 0 { low | 0x80 } else { low });
        if value == 0 {
            return Some(());
        }
    }
}

/// What is found at the start of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The value and how many bytes it took.
    Value(usize, usize),
    /// The bytes end before it does.
    Incomplete,
    /// Longer than four bytes, or than the value needs.
    Invalid,
}

pub(crate) fn read(bytes: &[u8]) -> Found {
    let mut value = 0;
    for at in 0..4 {
        let Some(&byte) = bytes.get(at) else { return Found::Incomplete };
        value |= usize::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            let is_shortest = at == 0 || byte != 0;
            return if is_shortest { Found::Value(value, at + 1) } else { Found::Invalid };
        }
    }
    Found::Invalid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_each_length_survive_the_way_there_and_back() {
        for (value, length) in
            [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), ((1 << 28) - 1, 4)]
        {
            let mut bytes = Vec::new();
            put(value, &mut bytes).unwrap();
            assert_eq!(read(&bytes), Found::Value(value, length));
            assert_eq!(read(&bytes[..length - 1]), Found::Incomplete);
        }
        assert_eq!(put(1 << 28, &mut Vec::new()), None);
        assert_eq!(read(&[0x80, 0]), Found::Invalid);
        assert_eq!(read(&[0x80; 5]), Found::Invalid);
    }
}
