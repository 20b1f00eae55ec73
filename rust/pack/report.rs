//! What became of every input, and the table of it that a person reads.

use std::fmt::Write as _;

use crate::item::Kind;

/// Which input a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An item of `pack`.
    Item,
    /// A message of the conversation.
    Message,
    /// A tool schema.
    Tool,
    /// A document.
    Document,
    /// The summary.
    Summary,
    /// The system prompt given beside the messages.
    System,
}

impl Source {
    /// The name the report uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Message => "message",
            Self::Tool => "tool",
            Self::Document => "document",
            Self::Summary => "summary",
            Self::System => "system",
        }
    }
}

/// Which rendition was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// As it came in.
    Full,
    /// Head and tail, or the first sentences.
    Shortened,
    /// The sentences that carry most.
    Summary,
    /// Without the calls that were never answered.
    Repaired,
    /// Quoted whole before the current turn, not in its place.
    Recalled,
    /// The n-th of the renditions that the caller gave, counted from 1.
    Given(u16),
}

impl Label {
    /// The name the report uses; the caller's own renditions are named by the caller.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Shortened => "shortened",
            Self::Summary => "summary",
            Self::Repaired => "repaired",
            Self::Recalled => "recalled",
            Self::Given(_) => "rendition",
        }
    }
}

/// Why an input is not in the window. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It holds no text and nothing else worth sending.
    Empty,
    /// A tool result without a call before it in its own block.
    OrphanResult,
    /// A second result of one call.
    DuplicateResult,
    /// Reasoning that nothing follows.
    DanglingReasoning,
    /// A tool call that was never answered, though the conversation went on.
    UnansweredCall,
    /// It would have fitted alone, but others were worth more.
    OverBudget,
    /// No form of it fits the budget, even alone.
    TooLarge,
    /// It belongs to a call of a tool that found no place.
    ToolDropped,
    /// Nothing but assistant messages would precede the first user message (`start_on_user`).
    BeforeUser,
    /// Its content is in the summary that took its place.
    Summarized,
}

impl Reason {
    /// The name the report uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::OrphanResult => "orphan_result",
            Self::DuplicateResult => "duplicate_result",
            Self::DanglingReasoning => "dangling_reasoning",
            Self::UnansweredCall => "unanswered_call",
            Self::OverBudget => "over_budget",
            Self::TooLarge => "too_large",
            Self::ToolDropped => "tool_dropped",
            Self::BeforeUser => "before_user",
            Self::Summarized => "summarized",
        }
    }
}

/// Whether an input is in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is, in this rendition.
    Kept(Label),
    /// It is not.
    Dropped(Reason),
}

/// One input and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Which input.
    pub source: Source,
    /// Index into that input.
    pub index: u32,
    /// What it is.
    pub kind: Kind,
    /// Whether it is in, and as what or why not.
    pub fate: Fate,
    /// Tokens it takes in the window; of a dropped one, the tokens it would have taken in full.
    pub tokens: u64,
    /// Tokens in full.
    pub full_tokens: u64,
}

/// What became of every input.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Each input once.
    pub rows: Vec<Row>,
    /// Tokens of the whole request.
    pub tokens: u64,
    /// Tokens that were available.
    pub budget: u64,
    /// Total value of what is in.
    pub value: f64,
    /// No choice is worth more than this.
    pub bound: f64,
}

impl Report {
    /// Rows of what is in the window.
    pub fn kept(&self) -> impl Iterator<Item = (&Row, Label)> {
        self.rows.iter().filter_map(|row| match row.fate {
            Fate::Kept(label) => Some((row, label)),
            Fate::Dropped(_) => None,
        })
    }

    /// Rows of what is not.
    pub fn dropped(&self) -> impl Iterator<Item = (&Row, Reason)> {
        self.rows.iter().filter_map(|row| match row.fate {
            Fate::Dropped(reason) => Some((row, reason)),
            Fate::Kept(_) => None,
        })
    }

    /// The report as a table: the budget, then each input with its fate. `show` gives the first words of an input.
    #[must_use]
    pub fn explain(&self, mut show: impl FnMut(&Row) -> (String, String)) -> String {
        let share = if self.budget == 0 { 0.0 } else { 100.0 * self.tokens as f64 / self.budget as f64 };
        let (kept, dropped) = (self.kept().count(), self.dropped().count());
        let mut text =
            format!("{} of {} tokens ({share:.0}%): {kept} kept, {dropped} dropped", self.tokens, self.budget);
        let framing = self.tokens.saturating_sub(self.kept().map(|(row, _)| row.tokens).sum());
        if framing > 0 {
            let _ = write!(text, ", {framing} tokens of framing");
        }
        if self.bound > self.value {
            let gap = 100.0 * (self.bound - self.value) / self.bound.max(f64::MIN_POSITIVE);
            let _ = write!(text, "; at most {gap:.2}% below the best choice");
        }
        text.push('\n');
        let table: Vec<[String; 5]> = self.rows.iter().map(|row| line(row, &mut show)).collect();
        let mut widths = [0_usize; 4];
        for cells in &table {
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let [what, kind, fate, tokens] = widths;
        for [a, b, c, d, e] in &table {
            let line = format!("  {a:<what$}  {b:<kind$}  {c:<fate$}  {d:>tokens$}  {e}");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn line(row: &Row, show: &mut impl FnMut(&Row) -> (String, String)) -> [String; 5] {
    let (kind, words) = show(row);
    let fate = match row.fate {
        Fate::Kept(Label::Full) => "kept".to_owned(),
        Fate::Kept(label) => format!("kept, {}", label.name()),
        Fate::Dropped(reason) => format!("dropped: {}", reason.name()),
    };
    let tokens = match row.fate {
        Fate::Kept(Label::Full) | Fate::Dropped(_) => row.tokens.to_string(),
        Fate::Kept(_) => format!("{} of {}", row.tokens, row.full_tokens),
    };
    [format!("{} {}", row.source.name(), row.index), kind, fate, tokens, words]
}
