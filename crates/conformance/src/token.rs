//! The notation of bytes and patterns: text to tokens. `TABLES.md` says what they mean.

use std::collections::BTreeMap;

/// Fragments may use fragments, so deep and no deeper.
const DEPTH_MAX: usize = 8;

/// `4f*1000` repeats a byte at most so often.
const REPEAT_MAX: usize = 1 << 24;

/// A piece of bytes to send, or of a pattern to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// These bytes; `$u` inside a text is replaced when the case runs.
    Bytes(Vec<u8>),
    /// As above, with a two-byte length before them.
    Text(Vec<u8>),
    /// A variable byte integer with the length of what is inside, then it.
    Group(Vec<Token>),
    /// A two-byte length, then what is inside.
    Sized(Vec<Token>),
    /// Only for 5.0, or only for the older versions.
    Only { v5: bool, inside: Vec<Token> },
    /// Protocol name and level of the version.
    Protocol,
    /// A byte many times.
    Repeat(u8, usize),
    /// Takes so many bytes and gives them a name.
    Capture(String, usize),
    /// The bytes of that name.
    Captured(String),
    /// Any byte.
    Any,
    /// Any bytes up to the end.
    Rest,
    /// One of these bytes.
    OneOf(Vec<u8>),
    /// At least this byte.
    AtLeast(u8),
    /// A property block.
    Properties(Vec<Wanted>),
}

/// One entry of a property block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A property like this.
    Property(Vec<Token>),
    /// No property with this identifier.
    Absent(u8),
    /// Others may be there.
    Others,
}

/// Named tokens of a table.
pub(crate) type Fragments = BTreeMap<String, String>;

/// Reads one notation; several alternatives stand apart with `|`.
pub(crate) fn parse(text: &str, fragments: &Fragments) -> Result<Vec<Vec<Token>>, String> {
    let mut parser = Parser { rest: text, fragments, depth: 0 };
    let mut alternatives = vec![parser.tokens()?];
    while parser.take('|') {
        alternatives.push(parser.tokens()?);
    }
    match parser.rest {
        "" => Ok(alternatives),
        rest => Err(format!("`{rest}` is not understood")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    fragments: &'a Fragments,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn take_str(&mut self, wanted: &str) -> bool {
        self.peek();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) { Ok(()) } else { Err(format!("`{wanted}` is missing")) }
    }

    /// Everything up to what closes the enclosing group, or the end.
    fn tokens(&mut self) -> Result<Vec<Token>, String> {
        let mut tokens = Vec::new();
        while let Some(first) = self.peek() {
            match first {
                ')' | '|' | ';' => break,
                '@' => tokens.extend(self.fragment()?),
                _ => tokens.push(self.token(first)?),
            }
        }
        Ok(tokens)
    }

    fn token(&mut self, first: char) -> Result<Token, String> {
        match first {
            '(' => self.inside().map(Token::Group),
            '"' => self.quoted('"').map(Token::Text),
            '\'' | '`' => self.quoted(first).map(Token::Bytes),
            '$' => self.dollar(),
            '{' => self.one_of(),
            '?' => {
                self.take('?');
                Ok(Token::Any)
            }
            _ if self.take_str("..") => Ok(Token::Rest),
            _ if self.take_str(">=") => self.byte().map(Token::AtLeast),
            _ if self.take_str("props") => self.properties(),
            _ if self.take_str("u16") => self.inside().map(Token::Sized),
            _ if self.take_str("v5") => Ok(Token::Only { v5: true, inside: self.inside()? }),
            _ if self.take_str("v3") => Ok(Token::Only { v5: false, inside: self.inside()? }),
            _ => {
                let byte = self.byte()?;
                if !self.rest.starts_with('*') {
                    return Ok(Token::Bytes(vec![byte]));
                }
                self.rest = &self.rest[1..];
                let digits = self.word(|c| c.is_ascii_digit());
                let times = digits.parse().ok().filter(|&times| times <= REPEAT_MAX);
                times
                    .map(|times| Token::Repeat(byte, times))
                    .ok_or("a repetition needs a count".into())
            }
        }
    }

    fn inside(&mut self) -> Result<Vec<Token>, String> {
        self.expect('(')?;
        let tokens = self.tokens()?;
        self.expect(')')?;
        Ok(tokens)
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.peek();
        let digits = self.rest.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok());
        let byte = digits.ok_or_else(|| format!("`{}` is not understood", self.rest))?;
        self.rest = &self.rest[2..];
        Ok(byte)
    }

    fn fragment(&mut self) -> Result<Vec<Token>, String> {
        self.take('@');
        let name = self.word(|c| c.is_ascii_alphanumeric() || c == '-');
        let text = self.fragments.get(&name).ok_or_else(|| format!("no fragment `{name}`"))?;
        if self.depth >= DEPTH_MAX {
            return Err(format!("the fragment `{name}` uses itself"));
        }
        let mut parser = Parser { rest: text, fragments: self.fragments, depth: self.depth + 1 };
        let tokens = parser.tokens().map_err(|error| format!("fragment `{name}`: {error}"))?;
        match parser.peek() {
            None => Ok(tokens),
            Some(_) => Err(format!("fragment `{name}`: `{}` is not understood", parser.rest)),
        }
    }

    fn dollar(&mut self) -> Result<Token, String> {
        self.take('$');
        let name = self.word(|c| c.is_ascii_alphanumeric());
        if name == "protocol" {
            return Ok(Token::Protocol);
        }
        if name.is_empty() {
            return Err("`$` needs a name".into());
        }
        if !self.rest.starts_with('=') {
            return Ok(Token::Captured(name));
        }
        self.rest = &self.rest[1..];
        match self.word(|c| c == '?').len() {
            0 => Err(format!("`${name}=` needs a `?` a byte")),
            bytes => Ok(Token::Capture(name, bytes)),
        }
    }

    fn one_of(&mut self) -> Result<Token, String> {
        self.expect('{')?;
        let mut bytes = vec![self.byte()?];
        while self.take('|') {
            bytes.push(self.byte()?);
        }
        self.expect('}')?;
        Ok(Token::OneOf(bytes))
    }

    fn properties(&mut self) -> Result<Token, String> {
        self.expect('(')?;
        let mut wanted = Vec::new();
        loop {
            if self.take(')') {
                return Ok(Token::Properties(wanted));
            }
            if self.take('!') {
                wanted.push(Wanted::Absent(self.byte()?));
            } else {
                match self.tokens()? {
                    tokens if tokens == [Token::Rest] => wanted.push(Wanted::Others),
                    tokens if tokens.is_empty() => return Err("an empty property".into()),
                    tokens => wanted.push(Wanted::Property(tokens)),
                }
            }
            if !self.take(';') && self.peek() != Some(')') {
                return Err("`;` or `)` is missing between properties".into());
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Vec<u8>, String> {
        self.take(quote);
        let mut bytes = Vec::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                _ if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(bytes);
                }
                '\\' => {
                    let (more, used) = escape(&self.rest[at + 1..])?;
                    bytes.extend(more);
                    for _ in 0..used {
                        chars.next();
                    }
                }
                _ => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        Err(format!("a closing {quote} is missing"))
    }
}

/// What stands for the escape at the start of `text`, and how many characters it takes.
fn escape(text: &str) -> Result<(Vec<u8>, usize), String> {
    let bad = || format!("`\\{}` is no escape", text.chars().next().unwrap_or(' '));
    let mut chars = text.chars();
    match chars.next().ok_or_else(bad)? {
        c @ ('"' | '\\' | '\'' | '`') => Ok((c.to_string().into_bytes(), 1)),
        'x' => {
            let byte = text.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            byte.map(|byte| (vec![byte], 3)).ok_or_else(bad)
        }
        'u' => {
            let end = text.find('}').ok_or_else(bad)?;
            let digits = text.get(2..end).ok_or_else(bad)?;
            let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
            code.map(|c| (c.to_string().into_bytes(), end + 1)).ok_or_else(bad)
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Vec<Token> {
        let fragments = [("f".to_owned(), "0a @g".to_owned()), ("g".to_owned(), "0b".to_owned())];
        parse(text, &fragments.into()).unwrap().remove(0)
    }

    #[test]
    fn every_token_is_read() {
        assert_eq!(
            one("00 0A0b"),
            [Token::Bytes(vec![0]), Token::Bytes(vec![10]), Token::Bytes(vec![11])]
        );
        assert_eq!(one("@f"), [Token::Bytes(vec![10]), Token::Bytes(vec![11])]);
        assert_eq!(
            one(r#""a\"\x00\u{e9}" 'b'"#),
            [Token::Text("a\"\0é".into()), Token::Bytes(b"b".to_vec())]
        );
        assert_eq!(one("(? ..)"), [Token::Group(vec![Token::Any, Token::Rest])]);
        assert_eq!(one("u16(00)"), [Token::Sized(vec![Token::Bytes(vec![0])])]);
        assert_eq!(
            one("4f*10 {80|97} >=80"),
            [Token::Repeat(0x4F, 10), Token::OneOf(vec![0x80, 0x97]), Token::AtLeast(0x80)]
        );
        assert_eq!(
            one("$p=?? $p $protocol"),
            [Token::Capture("p".into(), 2), Token::Captured("p".into()), Token::Protocol]
        );
        let only = |v5| Token::Only { v5, inside: vec![] };
        assert_eq!(one("v5() v3()"), [only(true), only(false)]);
        assert_eq!(
            one("props(21 0a; !26 ;..)"),
            [Token::Properties(vec![
                Wanted::Property(vec![Token::Bytes(vec![0x21]), Token::Bytes(vec![10])]),
                Wanted::Absent(0x26),
                Wanted::Others
            ])]
        );
        assert_eq!(parse("00 | 01", &Fragments::new()).unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_the_notation_is_named() {
        for text in [
            "0", "zz", "(00", "00)", "\"a", "@none", "$", "$p=", "{80", "props(", "4f*",
            "props(21", r#""\q""#,
        ] {
            assert!(parse(text, &Fragments::new()).is_err(), "{text}");
        }
        let circle = [("f".to_owned(), "@f".to_owned())];
        assert!(parse("@f", &circle.into()).unwrap_err().contains("uses itself"));
    }
}
