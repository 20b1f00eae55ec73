//! What was sent, small enough to pass along: so that the next window can begin with the same bytes.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use xxhash_rust::xxh3::Xxh3;

use crate::tools::{Shown, Step, ToolSet};
use crate::{Error, Result};

/// How a message was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Not at all.
    #[default]
    Out,
    /// As it came in, or as it was repaired.
    Full,
    /// In the n-th of its smaller forms, from 1.
    Short(u8),
    /// With its tool results in the n-th of their smaller forms, from 1.
    Results(u8),
    /// Not in its place, but quoted for the current turn.
    Recalled,
}

impl Form {
    const fn letter(self) -> char {
        match self {
            Self::Out => 'x',
            Self::Recalled => 'r',
            Self::Full => 'f',
            Self::Short(n) => (b'a' + if n > 4 { 3 } else { n.saturating_sub(1) }) as char,
            Self::Results(n) => (b'A' + if n > 20 { 19 } else { n.saturating_sub(1) }) as char,
        }
    }

    fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'x' => Self::Out,
            'r' => Self::Recalled,
            'f' => Self::Full,
            'a'..='d' => Self::Short(letter as u8 - b'a' + 1),
            'A'..='T' => Self::Results(letter as u8 - b'A' + 1),
            _ => return None,
        })
    }
}

/// What was sent of a conversation and its tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memo {
    /// A hash of the messages' fingerprints.
    pub key: u128,
    /// Per message.
    pub forms: Vec<Form>,
    /// A hash of the tools as they came; 0 where there were none.
    pub tools_key: u128,
    /// Per tool.
    pub tools: Vec<Shown>,
    /// Whether the summary was in.
    pub has_summary: bool,
}

impl Memo {
    /// The hash of a conversation's beginning.
    #[must_use]
    pub fn key_of(keys: &[u128]) -> u128 {
        let mut hasher = Xxh3::new();
        for key in keys {
            hasher.update(&key.to_le_bytes());
        }
        hasher.digest128()
    }

    /// The hash of tools as they came.
    #[must_use]
    pub fn key_of_tools(tools: Option<&ToolSet>) -> u128 {
        let Some(tools) = tools.filter(|tools| !tools.is_empty()) else { return 0 };
        let mut hasher = Xxh3::new();
        for tool in tools.iter() {
            let text = tool.text(Step::Full).unwrap_or_default();
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.digest128()
    }

    /// Whether the conversation begins with the messages that this is about.
    #[must_use]
    pub fn is_beginning_of(&self, keys: &[u128]) -> bool {
        keys.get(..self.forms.len()).is_some_and(|beginning| Self::key_of(beginning) == self.key)
    }
}

const STEPS: [(char, Shown); 5] = [
    ('x', Shown::Dropped),
    ('f', Shown::As(Step::Full)),
    ('t', Shown::As(Step::Trimmed)),
    ('b', Shown::As(Step::Brief)),
    ('m', Shown::As(Step::Bare)),
];

/// "1 KEY FORMS KEY TOOLS SUMMARY": the keys of messages and tools, forms and tools as letters, each with
/// the length of its run.
impl fmt::Display for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = |shown: &Shown| STEPS.iter().find(|(_, known)| known == shown).map_or('x', |(letter, _)| *letter);
        let forms = runs(self.forms.iter().map(|form| form.letter()));
        let tools = runs(self.tools.iter().map(tool));
        write!(f, "1 {:032x} {forms} {:032x} {tools} {}", self.key, self.tools_key, u8::from(self.has_summary))
    }
}

fn runs(letters: impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    let mut run: Option<(char, usize)> = None;
    for letter in letters {
        match &mut run {
            Some((last, n)) if *last == letter => *n += 1,
            _ => {
                if let Some((last, n)) = run {
                    let _ = write!(text, "{last}{n}");
                }
                run = Some((letter, 1));
            }
        }
    }
    match run {
        Some((last, n)) => {
            let _ = write!(text, "{last}{n}");
        }
        None => text.push('-'),
    }
    text
}

impl FromStr for Memo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| Error::Argument("previous must be a PackResult or the memo of one".to_owned()))
    }
}

/// Longer runs than any conversation are refused: a memo comes from outside.
const LONGEST: usize = 10_000_000;

fn read(text: &str) -> Option<Memo> {
    let mut fields = text.split(' ');
    let mut field = || fields.next();
    (field()? == "1").then_some(())?;
    let key = u128::from_str_radix(field()?, 16).ok()?;
    let forms = spelled(field()?, Form::of)?;
    let tools_key = u128::from_str_radix(field()?, 16).ok()?;
    let tools = spelled(field()?, |letter| STEPS.iter().find(|(known, _)| *known == letter).map(|(_, shown)| *shown))?;
    let has_summary = match field()? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    field().is_none().then_some(Memo { key, forms, tools_key, tools, has_summary })
}

fn spelled<T: Clone>(text: &str, of: impl Fn(char) -> Option<T>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    if text == "-" {
        return Some(all);
    }
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        rest = rest.get(letter.len_utf8()..)?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let n: usize = rest.get(..digits)?.parse().ok()?;
        (n <= LONGEST && all.len() + n <= LONGEST).then_some(())?;
        all.extend(std::iter::repeat_n(of(letter)?, n));
        rest = rest.get(digits..)?;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::{Form, Memo};
    use crate::tools::{Shown, Step};

    #[test]
    fn memos_come_back() {
        let memo = Memo {
            key: Memo::key_of(&[1, 2, 3]),
            forms: vec![Form::Full, Form::Out, Form::Out, Form::Short(2), Form::Results(5)],
            tools_key: 7,
            tools: vec![Shown::Dropped, Shown::As(Step::Bare), Shown::As(Step::Full)],
            has_summary: true,
        };
        assert_eq!(memo.to_string().parse::<Memo>(), Ok(memo.clone()));
        assert_eq!(Memo::default().to_string().parse::<Memo>(), Ok(Memo::default()));
        assert!(!memo.is_beginning_of(&[1, 2, 3]));
        let short = Memo { forms: vec![Form::Full; 3], ..memo };
        assert!(short.is_beginning_of(&[1, 2, 3, 4]) && !short.is_beginning_of(&[1, 2]));
    }

    #[test]
    fn hostile_memos_are_refused() {
        for text in [
            "",
            "1",
            "2 0 - 0 - 0",
            "1 zz - 0 - 0",
            "1 0 - zz - 0",
            "1 0 f99999999999999999999 0 - 0",
            "1 0 f99999999 0 - 0",
            "1 0 q1 0 - 0",
            "1 0 f 0 - 0",
            "1 0 - 0 - 0 x",
        ] {
            assert!(text.parse::<Memo>().is_err(), "{text}");
        }
    }
}
