//! Characters to words: a cursor over one text that knows its place, and the forms of keys and strings.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Position};

const UNCLOSED_STRING: &str = "the string that begins here has no end";

/// A cursor over the text of one file.
pub(super) struct Lexer<'a> {
    text: &'a str,
    file: Arc<str>,
    offset: usize,
    line: u32,
    column: u32,
}

/// A key as written.
pub(super) struct Key {
    pub(super) text: String,
    pub(super) position: Position,
    /// Not in quotes, so it may be the word `include`.
    pub(super) is_bare: bool,
}

/// A word as written, before it has a meaning.
pub(super) enum Word {
    /// In quotes or a block: text and nothing else.
    Quoted(String),
    /// Without quotes.
    Bare(String),
    /// `$NAME`.
    Variable(String),
}

impl<'a> Lexer<'a> {
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        // Editors of some systems write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { text, file: file.into(), offset: 0, line: 1, column: 1 }
    }

    pub(super) fn file(&self) -> &str {
        &self.file
    }

    pub(super) fn position(&self) -> Position {
        Position { file: Arc::clone(&self.file), line: self.line, column: self.column }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(&self.position(), message)
    }

    /// What is next, for a message.
    pub(super) fn describe_next(&self) -> String {
        match self.peek() {
            Some('\n' | '\r') => "a new line".into(),
            Some(character) => format!("'{}'", character.escape_debug()),
            None => "the end of the file".into(),
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.offset += character.len_utf8();
        if character == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some(character)
    }

    /// Takes this character if it is next.
    pub(super) fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.bump();
        }
        found
    }

    fn bump_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let start = self.offset;
        while self.peek().is_some_and(&accept) {
            self.bump();
        }
        &self.text[start..self.offset]
    }

    /// Skips spaces and tabs of the line.
    pub(super) fn skip_blanks(&mut self) {
        self.bump_while(is_blank);
    }

    /// Skips a comment up to its line end; false if there is none.
    pub(super) fn skip_comment(&mut self) -> bool {
        let found = self.rest().starts_with('#') || self.rest().starts_with("//");
        if found {
            self.bump_while(|character| character != '\n');
        }
        found
    }

    /// Skips white space, line ends and comments.
    pub(super) fn skip_space(&mut self) {
        loop {
            self.bump_while(char::is_whitespace);
            if !self.skip_comment() {
                return;
            }
        }
    }

    /// A key, up to white space or a separator.
    pub(super) fn key(&mut self) -> Result<Key, Diagnostic> {
        let position = self.position();
        match self.peek() {
            Some('"') => Ok(Key { text: self.double_quoted()?, position, is_bare: false }),
            Some('\'') => Ok(Key { text: self.single_quoted()?, position, is_bare: false }),
            Some('=' | ':' | ',' | ';' | '{' | '[' | ']') => {
                Err(self.error(format!("expected a key but found {}", self.describe_next())))
            }
            _ => {
                let text = self.bump_while(|c| !c.is_whitespace() && !matches!(c, '=' | ':'));
                Ok(Key { text: text.into(), position, is_bare: true })
            }
        }
    }

    /// A word where a value is expected.
    pub(super) fn word(&mut self) -> Result<Word, Diagnostic> {
        match self.peek() {
            Some('"') => self.double_quoted().map(Word::Quoted),
            Some('\'') => self.single_quoted().map(Word::Quoted),
            Some('(') => self.block().map(Word::Quoted),
            _ => self.bare(),
        }
    }

    /// The path after `include`.
    pub(super) fn include_path(&mut self) -> Result<String, Diagnostic> {
        let path = match self.peek() {
            Some('"') => self.double_quoted()?,
            Some('\'') => self.single_quoted()?,
            _ => self.bump_while(|c| !c.is_whitespace() && !matches!(c, ',' | ';' | '}')).into(),
        };
        if path.is_empty() { Err(self.error("expected a file name after include")) } else { Ok(path) }
    }

    fn single_quoted(&mut self) -> Result<String, Diagnostic> {
        let start = self.position();
        self.bump();
        let text = self.bump_while(|character| character != '\'');
        if self.accept('\'') { Ok(text.into()) } else { Err(Diagnostic::at(&start, UNCLOSED_STRING)) }
    }

    fn double_quoted(&mut self) -> Result<String, Diagnostic> {
        let start = self.position();
        self.bump();
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None => return Err(Diagnostic::at(&start, UNCLOSED_STRING)),
                Some('"') => {
                    self.bump();
                    return self.text_of(bytes);
                }
                Some('\\') => self.escape(&mut bytes)?,
                Some(_) => self.copy_char(&mut bytes),
            }
        }
    }

    fn bare(&mut self) -> Result<Word, Diagnostic> {
        if self.peek() == Some('#') {
            return Err(self.error("expected a value but found a comment"));
        }
        let start = self.offset;
        let mut bytes = Vec::new();
        while let Some(character) = self.peek() {
            match character {
                '\\' => self.escape(&mut bytes)?,
                ',' | ';' | ']' | '}' | '\'' => break,
                character if character.is_whitespace() => break,
                _ => self.copy_char(&mut bytes),
            }
        }
        let written = &self.text[start..self.offset];
        if written.is_empty() {
            return Err(self.error(format!("expected a value but found {}", self.describe_next())));
        }
        match written.strip_prefix('$') {
            Some(name) if !is_bcrypt(written) => Ok(Word::Variable(name.into())),
            _ => Ok(Word::Bare(self.text_of(bytes)?)),
        }
    }

    /// A block string: raw text up to a line that holds nothing but `)`.
    fn block(&mut self) -> Result<String, Diagnostic> {
        let start = self.position();
        self.bump();
        let content_start = self.offset;
        while let Some(character) = self.bump() {
            if character != '\n' || self.peek() != Some(')') {
                continue;
            }
            let content = &self.text[content_start..self.offset];
            let after = self.rest()[1..].trim_start_matches([' ', '\t', '\r']);
            if after.is_empty() || after.starts_with('\n') {
                self.bump();
                return Ok(content.into());
            }
        }
        Err(Diagnostic::at(&start, "the block that begins here has no line with only ')'"))
    }

    fn copy_char(&mut self, bytes: &mut Vec<u8>) {
        if let Some(character) = self.bump() {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Diagnostic> {
        let start = self.position();
        self.bump();
        let byte = match self.bump() {
            Some('t') => b'\t',
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('"') => b'"',
            Some('\\') => b'\\',
            Some('x') => {
                let digits = self.rest().get(..2).unwrap_or_default();
                let byte = u8::from_str_radix(digits, 16)
                    .ok()
                    .filter(|_| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                    .ok_or_else(|| Diagnostic::at(&start, r"expected two hexadecimal digits after \x"))?;
                self.bump();
                self.bump();
                byte
            }
            other => {
                let shown =
                    other.map_or_else(|| "the end of the file".into(), |c| format!("'{}'", c.escape_debug()));
                let message =
                    format!(r#"invalid escape character {shown}; allowed are \xXX, \t, \n, \r, \", \\"#);
                return Err(Diagnostic::at(&start, message));
            }
        };
        bytes.push(byte);
        Ok(())
    }

    fn text_of(&self, bytes: Vec<u8>) -> Result<String, Diagnostic> {
        String::from_utf8(bytes).map_err(|_| self.error("the escapes of this string do not form UTF-8 text"))
    }
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() && character != '\n' && character != '\r'
}

/// A bcrypt hash begins with a dollar sign and is not a variable.
fn is_bcrypt(word: &str) -> bool {
    ["$2a$", "$2b$", "$2x$", "$2y$"].iter().any(|prefix| word.starts_with(prefix))
}
