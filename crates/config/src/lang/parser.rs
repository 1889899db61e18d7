//! Words to a tree: maps, arrays, variables and includes.

use super::Source;
use super::lexer::{Lexer, Word};
use super::path;
use super::scalar::classify;
use super::value::{Entry, Kind, Map, Value};
use crate::diagnostic::{Diagnostic, Position};

/// Maps and arrays inside each other; bounds the stack of everything that walks the tree.
const DEPTH_MAX: usize = 64;
/// Files inside each other.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Files read for one configuration, so that files that include twice do not read without end.
const INCLUDED_FILES_MAX: usize = 256;
/// Values in one configuration, so that variables that repeat variables do not fill the memory.
const VALUES_MAX: usize = 1_000_000;
/// Environment variables that refer to environment variables.
const ENV_DEPTH_MAX: usize = 8;

/// Parses a text that comes from no file; includes are relative to the working directory.
pub fn parse(text: &str, source: &dyn Source) -> Result<Value, Diagnostic> {
    Context::new(source).file("", text).map(Value::from)
}

/// Reads and parses a file with everything it includes.
pub fn parse_file(path: &str, source: &dyn Source) -> Result<Value, Diagnostic> {
    let text = source.read(path).map_err(Diagnostic::general)?;
    let mut context = Context::new(source);
    context.including.push(path::normalize(path));
    context.file(path, &text).map(Value::from)
}

/// What all files of one configuration share.
struct Context<'s> {
    source: &'s dyn Source,
    /// Files being read, outermost first.
    including: Vec<String>,
    included_files: usize,
    /// Environment variables being read.
    environment: Vec<String>,
    values: usize,
    depth: usize,
}

impl<'s> Context<'s> {
    fn new(source: &'s dyn Source) -> Self {
        Self {
            source,
            including: Vec::new(),
            included_files: 0,
            environment: Vec::new(),
            values: 0,
            depth: 0,
        }
    }

    fn file(&mut self, name: &str, text: &str) -> Result<Map, Diagnostic> {
        let mut parser = Parser { lexer: Lexer::new(name, text), scopes: Vec::new(), context: self };
        parser.document()
    }

    /// Counts values against the bound.
    fn count(&mut self, values: usize, position: &Position) -> Result<(), Diagnostic> {
        self.values += values;
        if self.values > VALUES_MAX {
            return Err(Diagnostic::at(position, format!("more than {VALUES_MAX} values")));
        }
        Ok(())
    }
}

/// The parser of one file.
struct Parser<'a, 'c, 's> {
    lexer: Lexer<'a>,
    /// Maps being read, outermost first. Variables are looked up here from the end.
    scopes: Vec<Map>,
    context: &'c mut Context<'s>,
}

impl Parser<'_, '_, '_> {
    /// A whole file, with or without braces around it.
    fn document(&mut self) -> Result<Map, Diagnostic> {
        self.lexer.skip_space();
        self.scopes.push(Map::default());
        let has_braces = self.lexer.accept('{');
        self.entries(has_braces, None)?;
        self.lexer.skip_space();
        if self.lexer.peek().is_some() {
            let found = self.lexer.describe_next();
            return Err(self.lexer.error(format!("expected the end of the file but found {found}")));
        }
        Ok(self.scopes.pop().unwrap_or_default())
    }

    /// Entries up to the closing brace, into the innermost scope. `opened` is the place of the brace of an inner map,
    /// which must be closed; the outermost one may stay open.
    fn entries(&mut self, has_braces: bool, opened: Option<&Position>) -> Result<(), Diagnostic> {
        loop {
            self.lexer.skip_space();
            match (self.lexer.peek(), opened) {
                (None, Some(position)) => {
                    return Err(Diagnostic::at(position, "the map that begins here is not closed"));
                }
                (None, None) => return Ok(()),
                (Some('}'), _) if has_braces => {
                    self.lexer.bump();
                    return Ok(());
                }
                (Some('}'), _) => return Err(self.lexer.error("expected a key but found '}'")),
                (Some(_), _) => self.entry()?,
            }
            self.end_of_entry(has_braces)?;
        }
    }

    fn entry(&mut self) -> Result<(), Diagnostic> {
        let key = self.lexer.key()?;
        // `include` is a keyword only when white space follows it.
        if key.is_bare
            && key.text.eq_ignore_ascii_case("include")
            && !matches!(self.lexer.peek(), Some(':' | '='))
        {
            return self.include(&key.position);
        }
        self.lexer.skip_blanks();
        let has_separator = matches!(self.lexer.peek(), Some(':' | '='));
        if has_separator {
            self.lexer.bump();
        }
        self.lexer.skip_blanks();
        while matches!(self.lexer.peek(), Some('\n' | '\r')) {
            if has_separator && self.lexer.peek() == Some('\n') {
                return Err(self.lexer.error("Expected value but found new line"));
            }
            self.lexer.bump();
            self.lexer.skip_blanks();
        }
        let value = self.value()?;
        let entry = Entry { key_position: key.position, value, is_referenced: false };
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert_entry(key.text, entry);
        }
        Ok(())
    }

    /// What may follow a value of a map: a comment, then a line end, a comma, a semicolon or the closing brace.
    fn end_of_entry(&mut self, has_braces: bool) -> Result<(), Diagnostic> {
        self.lexer.skip_blanks();
        self.lexer.skip_comment();
        match self.lexer.peek() {
            None | Some('\n' | '\r') => Ok(()),
            Some(',' | ';') => {
                self.lexer.bump();
                Ok(())
            }
            Some('}') if has_braces => Ok(()),
            Some(_) => {
                let found = self.lexer.describe_next();
                Err(self
                    .lexer
                    .error(format!("expected a new line, ',' or ';' after the value but found {found}")))
            }
        }
    }

    fn value(&mut self) -> Result<Value, Diagnostic> {
        let position = self.lexer.position();
        self.context.count(1, &position)?;
        let kind = match self.lexer.peek() {
            None => return Err(self.lexer.error("expected a value but found the end of the file")),
            Some('{') => self.nested(&position, |parser| parser.map(&position))?,
            Some('[') => self.nested(&position, |parser| parser.array(&position))?,
            Some(_) => match self.lexer.word()? {
                Word::Quoted(text) => Kind::String(text),
                Word::Bare(word) => classify(&word).map_err(|message| Diagnostic::at(&position, message))?,
                Word::Variable(name) => self.variable(&name, &position)?,
            },
        };
        Ok(Value { kind, position })
    }

    fn nested(
        &mut self,
        position: &Position,
        read: impl FnOnce(&mut Self) -> Result<Kind, Diagnostic>,
    ) -> Result<Kind, Diagnostic> {
        if self.context.depth >= DEPTH_MAX {
            return Err(Diagnostic::at(
                position,
                format!("more than {DEPTH_MAX} maps and arrays inside each other"),
            ));
        }
        self.lexer.bump();
        self.context.depth += 1;
        let kind = read(self);
        self.context.depth -= 1;
        kind
    }

    fn map(&mut self, opened: &Position) -> Result<Kind, Diagnostic> {
        self.scopes.push(Map::default());
        self.entries(true, Some(opened))?;
        Ok(Kind::Map(self.scopes.pop().unwrap_or_default()))
    }

    fn array(&mut self, opened: &Position) -> Result<Kind, Diagnostic> {
        let mut values = Vec::new();
        loop {
            self.lexer.skip_space();
            match self.lexer.peek() {
                None => return Err(Diagnostic::at(opened, "the array that begins here is not closed")),
                Some(']') => {
                    self.lexer.bump();
                    return Ok(Kind::Array(values));
                }
                Some(_) => values.push(self.value()?),
            }
            self.lexer.skip_blanks();
            self.lexer.skip_comment();
            match self.lexer.peek() {
                None | Some('\n' | '\r' | ']') => {}
                Some(',') => {
                    self.lexer.bump();
                }
                Some(_) => {
                    let found = self.lexer.describe_next();
                    return Err(self
                        .lexer
                        .error(format!("expected a new line, ',' or ']' but found {found}")));
                }
            }
        }
    }

    /// The value of a variable: from the innermost map outwards, then from the environment.
    fn variable(&mut self, name: &str, position: &Position) -> Result<Kind, Diagnostic> {
        let found = self.scopes.iter_mut().rev().find_map(|scope| scope.entry_mut(name));
        if let Some(entry) = found {
            entry.is_referenced = true;
            let (values, depth) = entry.value.size();
            if self.context.depth + depth > DEPTH_MAX {
                let message = format!(
                    "variable '{name}' brings more than {DEPTH_MAX} maps and arrays inside each other"
                );
                return Err(Diagnostic::at(position, message));
            }
            // Counted before the copy is made.
            self.context.count(values, position)?;
            return Ok(entry.value.kind.clone());
        }
        self.environment_variable(name, position)
    }

    fn environment_variable(&mut self, name: &str, position: &Position) -> Result<Kind, Diagnostic> {
        let context = &mut *self.context;
        let Some(text) = context.source.env(name) else {
            let line = position.line;
            let message = format!("variable reference for '{name}' on line {line} can not be found");
            return Err(Diagnostic::at(position, message));
        };
        if context.environment.iter().any(|outer| outer == name) || context.environment.len() >= ENV_DEPTH_MAX
        {
            return Err(Diagnostic::at(position, format!("variable reference cycle for '{name}'")));
        }
        context.environment.push(name.into());
        let lexer = Lexer::new(self.lexer.file(), &text);
        let mut inner = Parser { lexer, scopes: Vec::new(), context };
        let result = inner.lone_value();
        self.context.environment.pop();
        result.map(|value| value.kind).map_err(|error| {
            let line = position.line;
            let message = format!(
                "variable reference for '{name}' on line {line} could not be parsed: {}",
                error.message
            );
            Diagnostic::at(position, message)
        })
    }

    /// One value and nothing after it.
    fn lone_value(&mut self) -> Result<Value, Diagnostic> {
        self.lexer.skip_blanks();
        let value = self.value()?;
        self.lexer.skip_space();
        match self.lexer.peek() {
            None => Ok(value),
            Some(_) => {
                Err(self.lexer.error(format!("unexpected {} after the value", self.lexer.describe_next())))
            }
        }
    }

    /// `include path`: the entries of that file become entries of the innermost map. Variables of this file are not
    /// seen there, but those of that file are seen here from now on.
    fn include(&mut self, position: &Position) -> Result<(), Diagnostic> {
        self.lexer.skip_blanks();
        let written = self.lexer.include_path()?;
        let path = path::resolve(self.lexer.file(), &written);
        let context = &mut *self.context;
        if context.including.contains(&path) {
            return Err(Diagnostic::at(position, format!("include file '{written}' includes itself")));
        }
        if context.including.len() >= INCLUDE_DEPTH_MAX {
            return Err(Diagnostic::at(
                position,
                format!("more than {INCLUDE_DEPTH_MAX} files inside each other"),
            ));
        }
        context.included_files += 1;
        if context.included_files > INCLUDED_FILES_MAX {
            return Err(Diagnostic::at(position, format!("more than {INCLUDED_FILES_MAX} included files")));
        }
        let text = context.source.read(&path).map_err(|error| {
            Diagnostic::at(position, format!("error parsing include file '{written}', {error}"))
        })?;
        context.including.push(path.clone());
        // An included file starts at its own level, but what it nests counts together with what nests it.
        let result = context.file(&path, &text);
        context.including.pop();
        let included = result?;
        if let Some(scope) = self.scopes.last_mut() {
            for (key, entry) in included {
                scope.insert_entry(key, entry);
            }
        }
        Ok(())
    }
}
