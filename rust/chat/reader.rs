//! Reads the values of a message into parts and into what else is counted. The rule is the one of `framing`; it is the
//! same for every format.

use std::borrow::Cow;
use std::sync::Arc;

use super::fault::Fault;
use super::json::{self, Fuel};
use super::media::Media;
use super::model::{Answer, Call, Part, PartKind, Rest};
use super::node::{Key, Kind, Node};
use super::path::Path;

/// What the parts, calls and answers of one message are gathered in.
#[derive(Debug, Default)]
pub(super) struct Reader {
    pub(super) parts: Vec<Part>,
    pub(super) rest: Rest,
    pub(super) calls: Vec<Call>,
    pub(super) answers: Vec<Answer>,
    /// Whether a block of Anthropic's own compaction is among the parts.
    pub(super) has_compaction: bool,
    fuel: Fuel,
}

/// Whose text a content list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// Someone's words.
    Text,
    /// A tool's result.
    Result,
    /// The model's reasoning.
    Thinking,
}

impl Voice {
    const fn kind(self) -> PartKind {
        match self {
            Self::Text => PartKind::Text,
            Self::Result => PartKind::Result,
            Self::Thinking => PartKind::Thinking,
        }
    }
}

impl Reader {
    /// Read content: text, a list of parts, or null.
    pub(super) fn content<N: Node>(&mut self, node: &N, at: &Path, voice: Voice) -> Result<(), Fault> {
        match node.kind() {
            Kind::Null => Ok(()),
            Kind::Text => {
                self.text(node, at.clone(), [None; 2], voice.kind(), Rest::default());
                Ok(())
            }
            Kind::List => {
                for (index, item) in node.items().enumerate() {
                    self.part(&item, at.index(index), voice, 1)?;
                }
                Ok(())
            }
            _ => Err(Fault::at(at, format!("must be text, a list of parts or null, not {}", node.type_name()))),
        }
    }

    /// Read content whose blocks make no calls and bring no results, whatever their types say: calls and results stand
    /// elsewhere in this format, and a block that repeats one is kept with its message.
    pub(super) fn quoted<N: Node>(&mut self, node: &N, at: &Path, voice: Voice) -> Result<(), Fault> {
        let (n_calls, n_answers) = (self.calls.len(), self.answers.len());
        self.content(node, at, voice)?;
        self.calls.truncate(n_calls);
        self.answers.truncate(n_answers);
        Ok(())
    }

    /// Read one element of a content list.
    pub(super) fn part<N: Node>(&mut self, node: &N, at: Path, voice: Voice, depth: usize) -> Result<(), Fault> {
        self.fuel.spend(depth).map_err(|fault| fault.within(&at))?;
        let mut rest = Rest { parts: 1, ..Rest::default() };
        match node.kind() {
            Kind::Text => {
                self.text(node, at, [None; 2], voice.kind(), rest);
                return Ok(());
            }
            Kind::Object => {}
            _ => {
                return Err(Fault::at(
                    at,
                    format!("a part is text or an object with a type, not {}", node.type_name()),
                ));
            }
        }
        let type_node = node.given(Key::Type);
        if let Some(odd) = type_node.as_ref().filter(|node| node.kind() != Kind::Text) {
            return Err(Fault::at(at.key(Key::Type), format!("must be text, not {}", odd.type_name())));
        }
        let kind = type_node.as_ref().and_then(Node::text).unwrap_or(Cow::Borrowed("text"));
        if let Some(media) = Media::of_part(&kind, node) {
            rest.strings.extend(captions(node));
            self.push(at, [None; 2], PartKind::Media(media), Arc::default(), rest);
            return Ok(());
        }
        let (key, part_kind) = match kind.as_ref() {
            "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" => (Key::Text, voice.kind()),
            "refusal" => (Key::Refusal, PartKind::Refusal),
            "thinking" => (Key::Thinking, PartKind::Thinking),
            "redacted_thinking" => {
                self.fields(node, &kind, None, &mut rest, depth)?;
                self.push(at, [None; 2], PartKind::Thinking, Arc::default(), rest);
                return Ok(());
            }
            "tool_use" => return self.call(node, at, [Some(Key::Input), None], 1, depth),
            "tool_result" => return self.result_block(node, at, rest, depth),
            hosted if hosted.ends_with("tool_use") => {
                return self.hosted_call(node, at, hosted, rest, depth);
            }
            _ => {
                self.has_compaction |= kind == "compaction";
                self.fields(node, &kind, None, &mut rest, depth)?;
                self.push(at, [None; 2], PartKind::Opaque, Arc::default(), rest);
                return Ok(());
            }
        };
        self.fields(node, &kind, Some(key), &mut rest, depth)?;
        match node.given(key) {
            Some(text) if text.kind() == Kind::Text => self.text(&text, at, [Some(key), None], part_kind, rest),
            Some(odd) => return Err(Fault::at(at.key(key), format!("must be text, not {}", odd.type_name()))),
            None => self.push(at, [None; 2], part_kind, Arc::default(), rest),
        }
        Ok(())
    }

    /// Read a call that the provider itself makes and answers: whatever it holds.
    fn hosted_call<N: Node>(
        &mut self,
        node: &N,
        at: Path,
        kind: &str,
        mut rest: Rest,
        depth: usize,
    ) -> Result<(), Fault> {
        rest.calls = 1;
        self.fields(node, kind, None, &mut rest, depth).map_err(|fault| fault.within(&at))?;
        let name = node.text_at(Key::Name).unwrap_or_default().into();
        let id = node.text_at(Key::Id).unwrap_or_default().into();
        self.calls.push(Call { id, name, part: Some(self.parts.len()), needs_answer: false });
        self.push(at, [None; 2], PartKind::Call, Arc::default(), rest);
        Ok(())
    }

    /// Read an Anthropic result block: an envelope, and its content as parts of their own.
    fn result_block<N: Node>(&mut self, node: &N, at: Path, mut rest: Rest, depth: usize) -> Result<(), Fault> {
        self.fields(node, "tool_result", Some(Key::Content), &mut rest, depth)?;
        let id = node.text_at(Key::ToolUseId).unwrap_or_default();
        self.answers.push(Answer { id: id.into(), part: Some(self.parts.len()) });
        let inside = at.key(Key::Content);
        self.push(at, [None; 2], PartKind::Opaque, Arc::default(), rest);
        let Some(content) = node.given(Key::Content) else { return Ok(()) };
        if content.kind() == Kind::List {
            for (index, item) in content.items().enumerate() {
                self.part(&item, inside.index(index), Voice::Result, depth + 1)?;
            }
            return Ok(());
        }
        self.content(&content, &inside, Voice::Result)
    }

    /// Read a call. `inner` is the way to its arguments, `parts` how many elements of a content list it stands for.
    pub(super) fn call<N: Node>(
        &mut self,
        node: &N,
        at: Path,
        inner: [Option<Key>; 2],
        parts: u32,
        depth: usize,
    ) -> Result<(), Fault> {
        if node.kind() != Kind::Object {
            return Err(Fault::at(at, format!("a call is an object, not {}", node.type_name())));
        }
        let mut rest = Rest { parts, calls: 1, ..Rest::default() };
        let mut holder = node.clone();
        let skipped = if let [Some(outer), Some(_)] = inner {
            for (key, value) in node.entries() {
                if key.text().as_deref() != Some(outer.text()) {
                    self.walk(&key, "", &value, &mut rest, depth + 1).map_err(|fault| fault.within(&at))?;
                }
            }
            let Some(found) = node.given(outer) else {
                return Err(Fault::at(at, format!("a call has its name and arguments under {:?}", outer.text())));
            };
            if found.kind() != Kind::Object {
                return Err(Fault::at(at.key(outer), format!("must be an object, not {}", found.type_name())));
            }
            holder = found;
            inner[1]
        } else {
            inner[0]
        };
        self.fields(&holder, "", skipped, &mut rest, depth).map_err(|fault| fault.within(&at))?;
        let name = match holder.given(Key::Name) {
            None => String::new(),
            Some(name) => name
                .text()
                .map(Cow::into_owned)
                .ok_or_else(|| Fault::at(format!("{at}.name"), format!("must be text, not {}", name.type_name())))?,
        };
        let place = || inner.iter().flatten().fold(at.clone(), |path, key| path.key(*key));
        let arguments: Arc<str> = match skipped.and_then(|key| holder.given(key)) {
            None => Arc::default(),
            Some(value) => match value.kind() {
                Kind::Text => value.text().unwrap_or_default().into(),
                Kind::Object => {
                    let mut out = String::new();
                    json::write(&value, &mut out, &mut self.fuel, depth).map_err(|fault| fault.within(place()))?;
                    out.into()
                }
                _ => {
                    return Err(Fault::at(
                        place(),
                        format!("arguments must be JSON text or an object, not {}", value.type_name()),
                    ));
                }
            },
        };
        let id = node.text_at(Key::Id).unwrap_or_default();
        let part = Some(self.parts.len());
        self.calls.push(Call { id: id.into(), name: name.into(), part, needs_answer: true });
        self.push(at, inner, PartKind::Call, arguments, rest);
        Ok(())
    }

    /// Count the fields of an object but `skipped` into `rest`.
    pub(super) fn fields<N: Node>(
        &mut self,
        node: &N,
        kind: &str,
        skipped: Option<Key>,
        rest: &mut Rest,
        depth: usize,
    ) -> Result<(), Fault> {
        for (key, value) in node.entries() {
            if skipped.is_none_or(|skipped| key.text().as_deref() != Some(skipped.text())) {
                self.walk(&key, kind, &value, rest, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Count a field that no part can name into the message's own rest.
    pub(super) fn field<N: Node>(&mut self, key: &N, kind: &str, value: &N) -> Result<(), Fault> {
        let mut rest = std::mem::take(&mut self.rest);
        let walked = self.walk(key, kind, value, &mut rest, 1);
        self.rest = rest;
        walked.map_err(|fault| fault.within(key.text().unwrap_or_default()))
    }

    fn walk<N: Node>(&mut self, key: &N, kind: &str, value: &N, rest: &mut Rest, depth: usize) -> Result<(), Fault> {
        let name = key.text().unwrap_or_default();
        self.value(&name, kind, value, rest, depth)
    }

    /// The rule itself: what the value `value` at `key` of an object of type `kind` adds to `rest`.
    fn value<N: Node>(&mut self, key: &str, kind: &str, value: &N, rest: &mut Rest, depth: usize) -> Result<(), Fault> {
        self.fuel.spend(depth)?;
        match value.kind() {
            Kind::Text => string(key, kind, &value.text().unwrap_or_default(), rest),
            Kind::List | Kind::Object if matches!(key, "arguments" | "input") => {
                let mut out = String::new();
                json::write(value, &mut out, &mut self.fuel, depth)?;
                rest.strings.push(Cow::Owned(out));
            }
            Kind::List => {
                for item in value.items() {
                    match key {
                        "content" | "output" | "summary" => self.element(&item, rest, depth + 1)?,
                        "tool_calls" => {
                            rest.calls += 1;
                            self.value("", "", &item, rest, depth + 1)?;
                        }
                        _ => self.value("", "", &item, rest, depth + 1)?,
                    }
                }
            }
            Kind::Object => {
                if matches!(key, "content" | "output") {
                    return self.element(value, rest, depth + 1);
                }
                rest.calls += u32::from(key == "function_call");
                let own = value.text_at(Key::Type).unwrap_or_default();
                self.fields(value, &own, None, rest, depth)?;
            }
            Kind::Null | Kind::Bool | Kind::Number | Kind::Other => {}
        }
        Ok(())
    }

    /// An element of a content list that no part can name.
    fn element<N: Node>(&mut self, node: &N, rest: &mut Rest, depth: usize) -> Result<(), Fault> {
        self.fuel.spend(depth)?;
        rest.parts += 1;
        match node.kind() {
            Kind::Text => rest.strings.push(shared(&node.text().unwrap_or_default())),
            Kind::Object => {
                let kind = node.text_at(Key::Type).unwrap_or_default();
                if let Some(media) = Media::of_part(&kind, node) {
                    rest.media.push(media);
                    rest.strings.extend(captions(node));
                    return Ok(());
                }
                rest.calls += u32::from(kind.ends_with("tool_use"));
                self.fields(node, &kind, None, rest, depth)?;
            }
            Kind::List => self.value("", "", node, rest, depth + 1)?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn text<N: Node>(&mut self, node: &N, at: Path, inner: [Option<Key>; 2], kind: PartKind, rest: Rest) {
        let text = node.text().unwrap_or_default().into();
        self.push(at, inner, kind, text, rest);
    }

    pub(super) fn push(&mut self, at: Path, inner: [Option<Key>; 2], kind: PartKind, text: Arc<str>, rest: Rest) {
        self.parts.push(Part { at, inner, kind, text, rest });
    }

    /// Whether anything was said: a text that is not blank, or a part that is not text.
    pub(super) fn says_something(&self) -> bool {
        self.parts.iter().any(|part| match part.kind {
            PartKind::Text | PartKind::Refusal => !part.text.trim().is_empty(),
            PartKind::Thinking => false,
            PartKind::Result | PartKind::Media(_) | PartKind::Call | PartKind::Opaque => true,
        })
    }
}

/// The title and the context of a document, which the model reads beside it.
fn captions<N: Node>(node: &N) -> impl Iterator<Item = Cow<'static, str>> {
    [Key::Title, Key::Context].into_iter().filter_map(|key| node.given(key)?.text().map(|text| shared(&text)))
}

fn string(key: &str, kind: &str, text: &str, rest: &mut Rest) {
    match key {
        "name" | "text" | "content" | "thinking" | "reasoning" | "reasoning_content" | "refusal" | "output"
        | "arguments" | "input" => {}
        "encrypted_content" | "encrypted_index" | "signature" | "thought_signature" | "thoughtSignature" => {
            rest.encrypted += encrypted(text);
            return;
        }
        "data" if matches!(kind, "redacted_thinking" | "reasoning.encrypted") => {
            rest.encrypted += encrypted(text);
            return;
        }
        "b64_json" => return rest.media.push(Media::of_base64_image(text)),
        "result" if kind == "image_generation_call" => return rest.media.push(Media::of_base64_image(text)),
        _ => {
            if let Some(media) = Media::of_data_uri(text) {
                return rest.media.push(media);
            }
        }
    }
    rest.strings.push(shared(text));
}

/// Base64 holds 3 bytes in 4 characters, and a token of what it hides is about 4 bytes.
const fn encrypted(text: &str) -> u64 {
    (text.len() as u64 * 3).div_ceil(16)
}

/// The strings that nearly every message has are not copied.
pub(super) fn shared(text: &str) -> Cow<'static, str> {
    const KNOWN: [&str; 18] = [
        "assistant",
        "user",
        "tool",
        "system",
        "function",
        "text",
        "tool_use",
        "tool_result",
        "developer",
        "message",
        "function_call",
        "function_call_output",
        "input_text",
        "output_text",
        "completed",
        "thinking",
        "reasoning",
        "ephemeral",
    ];
    KNOWN
        .iter()
        .find(|known| **known == text)
        .map_or_else(|| Cow::Owned(text.to_owned()), |known| Cow::Borrowed(*known))
}
